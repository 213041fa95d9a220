"""Layout, sums of products, reductions and windows of JAX as nodes of graphs; see
jax_primitives.py."""

import math

from graph_text import BITS, FLOATS, Missing, highest, lowest

# Layout


def broadcast_in_dim(g, p, x, *_):
    return g.broadcast(x, p.shape, p.broadcast_dimensions)


def reshape(g, p, x, *_):
    return g.reshape(x if p.dimensions is None else g.transpose(x, p.dimensions), p.new_sizes)


def like_out(g, p, x):
    """A reshape to the result's shape: squeeze, expand_dims."""
    return g.reshape(x, p.outs[0][1])


def transpose(g, p, x):
    return g.transpose(x, p.permutation)


def rev(g, p, x):
    start = [n - 1 if k in p.dimensions and n else 0 for k, n in enumerate(x.dims)]
    step = [-1 if k in p.dimensions else 1 for k in range(x.rank)]
    return g.slice(x, start, x.dims, step)


def slice_(g, p, x):
    return g.slice(x, p.start_indices, p.outs[0][1], p.strides)


def split(g, p, x):
    parts, at = [], 0
    for size, (_, dims) in zip(p.sizes, p.outs):
        parts.append(g.slice(x, [at if k == p.axis else 0 for k in range(x.rank)], dims))
        at += int(size)
    return parts


def concatenate(g, p, *parts):
    return g.concatenate(parts, p.dimension)


def pad(g, p, x, value):
    return g.pad(x, value, p.padding_config)


def iota(g, p):
    return g.iota(p.outs[0][0], p.shape, p.dimension)


# Sums of products


def dot_general(g, p, a, b, *_):
    contract, batch = p.dimension_numbers
    dtype = p.outs[0][0]
    return g.cast(g.dot(g.cast(a, common(a, dtype)), g.cast(b, common(b, dtype)), batch, contract),
                  dtype)


def common(x, dtype):
    """Operands are converted to a wider result type before."""
    return dtype if BITS[dtype] > BITS[x.dtype] or x.dtype not in FLOATS else x.dtype


def conv(g, p, x, w):
    """Groups of features, or of images, are an axis of their own."""
    n = p.dimension_numbers
    dtype = p.outs[0][0]
    x = g.transpose(g.cast(x, common(x, dtype)), n.lhs_spec)
    w = g.transpose(g.cast(w, common(w, dtype)), n.rhs_spec)
    space = [(low, high, between - 1) for (low, high), between in zip(p.padding, p.lhs_dilation)]
    x = g.pad(x, g.constant(0, x.dtype), [(0, 0, 0)] * 2 + space)
    if 0 in p.outs[0][1]:
        return none(g, p)
    count, channels, *places = x.dims
    groups = max(p.feature_group_count, p.batch_group_count)
    w = g.reshape(w, (groups, w.dims[0] // groups, *w.dims[1:]))
    if p.batch_group_count > 1:
        x = g.reshape(x, (groups, count // groups, channels, *places))
        x = g.transpose(x, [1, 0, *range(2, x.rank)])
    else:
        x = g.reshape(x, (count, groups, channels // groups, *places))
    found = g.cast(g.conv(x, w, p.window_strides, p.rhs_dilation), dtype)
    found = g.reshape(found, (found.dims[0], groups * found.dims[2], *found.dims[3:]))
    return g.transpose(found, [n.out_spec.index(k) for k in range(found.rank)])


def none(g, p):
    """An array without elements."""
    dtype, dims = p.outs[0]
    return g.constant(0, dtype, dims)


# Reductions


def reduced(op):
    def make(g, p, x):
        if op in ("and", "or") and x.dtype != "bool":
            raise Missing(f"reduce_{op} of integers")
        if 0 in [x.dims[k] for k in p.axes] and op in ("max", "min"):
            return g.constant({"max": lowest, "min": highest}[op](x.dtype), *p.outs[0])
        return g.reduce(op, x, p.axes)
    return make


MONOIDS = ("add", "mul", "max", "min", "and", "or")


def monoids_of(jaxpr):
    """The operation of each result, where the computation has one operation for each result."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    count = len(jaxpr.outvars)
    pairs = {frozenset((jaxpr.invars[k], jaxpr.invars[k + count])): k for k in range(count)}
    found = {}
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        at = pairs.get(frozenset(v for v in eqn.invars if not hasattr(v, "val")))
        boolean = eqn.outvars[0].aval.dtype == bool
        if at is None or name not in MONOIDS or name in ("and", "or") and not boolean:
            raise Missing("a reduction by a function of several operations")
        found[eqn.outvars[0]] = at, name
    if [found.get(v, (None,))[0] for v in jaxpr.outvars] != list(range(count)):
        raise Missing("a reduction by a function of several operations")
    return [found[v][1] for v in jaxpr.outvars]


def reduce(g, p, *args):
    """Each operand has a first value."""
    count = len(args) // 2
    return [g.op(op, g.reduce(op, x, p.dimensions), first)
            for op, x, first in zip(monoids_of(p.jaxpr), args, args[count:])]


def extreme_place(op):
    def make(g, p, x):
        axis, = p.axes
        if x.dtype == "bool":
            x = g.cast(x, "u8")
        extreme = g.reduce(op, x, [axis])
        wide = g.broadcast(extreme, x.dims, [k for k in range(x.rank) if k != axis])
        found = g.op("or", g.op("eq", x, wide), g.op("ne", x, x))
        place = g.where(found, g.iota("i64", x.dims, axis), x.dims[axis])
        return g.cast(g.reduce("min", place, [axis]), p.outs[0][0])
    return make


def cumulated(op):
    return lambda g, p, x: g.cumulate(op, x, p.axis, p.reverse)


def cumlogsumexp(g, p, x):
    """A row of all elements for each element, of which later ones are hidden."""
    order = [*(k for k in range(x.rank) if k != p.axis), p.axis]
    rows = g.wide(g.transpose(x, order))
    dims = (*rows.dims, rows.dims[-1])
    wide = g.broadcast(rows, dims, [*range(x.rank - 1), x.rank])
    here, there = (g.iota("i64", dims, k) for k in (x.rank - 1, x.rank))
    seen = g.op("le", here, there) if p.reverse else g.op("le", there, here)
    wide = g.where(seen, wide, -math.inf)
    highest_seen = g.reduce("max", wide, [x.rank])
    finite = g.op("lt", g.op("abs", highest_seen), math.inf)
    shift = g.where(finite, highest_seen, 0)
    terms = g.op("exp", g.op("sub", wide, g.broadcast(shift, dims, range(x.rank))))
    found = g.op("add", g.op("log", g.reduce("add", terms, [x.rank])), shift)
    return g.transpose(g.cast(found, x.dtype), [order.index(k) for k in range(x.rank)])


# Windows


def padded(g, p, x, value):
    """x with a value between and around the elements."""
    between = getattr(p, "base_dilation", None) or [1] * x.rank
    config = [(low, high, n - 1) for (low, high), n in zip(p.padding, between)]
    return g.pad(x, value, config)


def windowed(g, p, op, x, value):
    if 0 in p.outs[0][1]:
        return none(g, p)
    return g.window(op, padded(g, p, x, value), p.window_dimensions, p.window_strides,
                    p.window_dilation)


def window_of(op, neutral):
    return lambda g, p, x: windowed(g, p, op, x, g.constant(neutral(x.dtype), x.dtype))


def reduce_window(g, p, *args):
    count = len(args) // 2
    return [g.op(op, windowed(g, p, op, x, first), first)
            for op, x, first in zip(monoids_of(p.jaxpr), args, args[count:])]


def places_of_windows(p):
    """The places of elements in a window."""
    places = [()]
    for n in p.window_dimensions:
        places = [(*each, k) for each in places for k in range(n)]
    return places


def parts_of_windows(g, p, x, value, dims):
    """For each place in a window, the elements there, of all windows."""
    wide = padded(g, p, x, value)
    apart = getattr(p, "window_dilation", None) or [1] * x.rank
    return [g.slice(wide, [k * d for k, d in zip(place, apart)], dims, p.window_strides)
            for place in places_of_windows(p)]


def kept(g, p, a, b):
    return g.op("le", b, a) if p.select_prim.name == "ge" else g.op("le", a, b)


def select_and_gather_add(g, p, tangents, x):
    dims = p.outs[0][1]
    last = g.constant((lowest if p.select_prim.name == "ge" else highest)(x.dtype), x.dtype)
    best, found = g.spread(last, dims), g.constant(0, tangents.dtype, dims)
    values = parts_of_windows(g, p, x, last, dims)
    others = parts_of_windows(g, p, tangents, g.constant(0, tangents.dtype), dims)
    for value, other in zip(values, others):
        keeps = kept(g, p, best, value)
        best, found = g.where(keeps, best, value), g.where(keeps, found, other)
    return found


def select_and_scatter_add(g, p, source, x):
    """Adds, for each place in a window, the sources that go there."""
    last = g.constant((lowest if p.select_prim.name == "ge" else highest)(x.dtype), x.dtype)
    values = parts_of_windows(g, p, x, last, source.dims)
    best, chosen = values[0], g.constant(0, "i32", source.dims)
    for k, value in enumerate(values[1:], 1):
        keeps = kept(g, p, best, value)
        best, chosen = g.where(keeps, best, value), g.where(keeps, chosen, k)
    total = None
    for k, place in enumerate(places_of_windows(p)):
        part = g.where(g.op("eq", chosen, k), source, 0)
        config = [(at, n + low + high - at - (m - 1) * step - 1, step - 1)
                  for at, n, (low, high), m, step in
                  zip(place, x.dims, p.padding, source.dims, p.window_strides)]
        part = g.pad(part, g.constant(0, part.dtype), config)
        total = part if total is None else g.op("add", total, part)
    return g.pad(total, g.constant(0, total.dtype), [(-low, -high, 0) for low, high in p.padding])
