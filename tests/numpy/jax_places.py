"""Computed places, order and random numbers of JAX as nodes of graphs; see jax_primitives.py."""

import math

from graph_text import BITS, FLOATS, Missing, highest, lowest
from jax_arrays import none
from jax_elements import bitwise_xor

# Computed places


def columns(g, indices):
    """The last axis of indices, one array for each of its elements."""
    *dims, count = indices.dims
    wide = g.cast(indices, "i64")
    return [g.reshape(g.slice(wide, [0] * len(dims) + [k], [*dims, 1]), dims)
            for k in range(count)]


def places(g, x, sizes, indices, mapped, batch, batch_of_indices):
    """Axes of x in order, and the first places of windows along each."""
    dims = indices.dims[:-1]
    found = dict(zip(mapped, columns(g, indices)))
    for axis, along in zip(batch, batch_of_indices):
        found[axis] = g.iota("i64", dims, along)
    for axis, (size, n) in enumerate(zip(sizes, x.dims)):
        if axis not in found and (size != n or not found and axis + 1 == x.rank):
            found[axis] = g.constant(0, "i64", dims)
    return sorted(found), [found[axis] for axis in sorted(found)]


def clipped(g, x, sizes, axes, starts):
    return [g.op("min", g.op("max", 0, each), g.constant(x.dims[k] - sizes[k], "i64", each.dims))
            for k, each in zip(axes, starts)]


def fitting(g, x, sizes, axes, starts):
    """Whether all of a window is inside."""
    fits = None
    for k, each in zip(axes, starts):
        inside = g.op("and", g.op("le", 0, each),
                      g.op("le", each, g.constant(x.dims[k] - sizes[k], "i64", each.dims)))
        fits = inside if fits is None else g.op("and", fits, inside)
    return fits


def fill_of(p, dtype):
    if p.fill_value is not None:
        return p.fill_value
    if dtype in FLOATS:
        return math.nan
    return True if dtype == "bool" else lowest(dtype) if dtype[0] == "i" else highest(dtype)


def gather(g, p, x, indices):
    if 0 in p.outs[0][1]:
        return none(g, p)
    n = p.dimension_numbers
    axes, starts = places(g, x, p.slice_sizes, indices, n.start_index_map, n.operand_batching_dims,
                          n.start_indices_batching_dims)
    found = g.gather(x, starts, axes, p.slice_sizes) if axes else x
    gone = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    batch = indices.rank - 1
    window = [size for k, size in enumerate(p.slice_sizes) if k not in gone]
    found = g.reshape(found, (*indices.dims[:-1], *window))
    order = iter(range(batch)), iter(range(batch, found.rank))
    found = g.transpose(found, [next(order[k in n.offset_dims]) for k in range(found.rank)])
    if p.mode.name != "FILL_OR_DROP" or not axes:
        return found
    fits = fitting(g, x, p.slice_sizes, axes, starts)
    outer = [k for k in range(found.rank) if k not in n.offset_dims]
    return g.where(g.broadcast(fits, found.dims, outer), found, fill_of(p, x.dtype))


def scattered(op):
    def make(g, p, x, indices, updates):
        if 0 in x.dims or 0 in updates.dims:
            return x
        n = p.dimension_numbers
        gone = (*n.inserted_window_dims, *n.operand_batching_dims)
        outer = [k for k in range(updates.rank) if k not in n.update_window_dims]
        window = iter(n.update_window_dims)
        sizes = [1 if k in gone else updates.dims[next(window)] for k in range(x.rank)]
        axes, starts = places(g, x, sizes, indices, n.scatter_dims_to_operand_dims,
                              n.operand_batching_dims, n.scatter_indices_batching_dims)
        if p.mode.name == "CLIP":
            starts = clipped(g, x, sizes, axes, starts)
        updates = g.transpose(updates, [*outer, *n.update_window_dims])
        updates = g.reshape(updates, (*indices.dims[:-1], *sizes))
        if not axes:
            return g.op(op, x, updates)
        return g.scatter(op, x, updates, starts, axes)
    return make


def dynamic_slice(g, p, x, *starts):
    if not x.rank:
        return x
    if 0 in p.outs[0][1]:
        return none(g, p)
    starts = [g.cast(each, "i64") for each in starts]
    return g.gather(x, starts, range(x.rank), p.slice_sizes)


def dynamic_update_slice(g, p, x, update, *starts):
    if not x.rank or 0 in update.dims:
        return x if x.rank else update
    starts = [g.cast(each, "i64") for each in starts]
    starts = clipped(g, x, update.dims, range(x.rank), starts)
    return g.scatter("arg2", x, update, starts, range(x.rank))


# Order


def rising_key(g, x, descending=False):
    """Unsigned integers in the order of x: NaN last, -0 as 0."""
    key = x
    if x.dtype in FLOATS or x.dtype[0] == "i":
        key = g.bits(x)
        half = 2 ** (BITS[key.dtype] - 1)
        raised = g.op("add", key, half)
        if x.dtype in FLOATS:
            key = g.where(g.op("lt", key, half), raised, g.op("neg", key))
        else:
            key = raised
    if not descending:
        return key
    return g.op("not", key) if key.dtype == "bool" else g.op("sub", highest(key.dtype), key)


def taken(g, x, order, axis):
    """x at places along an axis."""
    indices = [order if k == axis else g.iota("i64", order.dims, k) for k in range(x.rank)]
    return g.reshape(g.gather(x, indices, range(x.rank), [1] * x.rank), order.dims)


def sort(g, p, *operands):
    if 0 in operands[0].dims:
        return list(operands)
    keys = [rising_key(g, each) for each in operands[:p.num_keys]]
    order = g.order(keys, p.dimension)
    return [taken(g, each, order, p.dimension) for each in operands]


def first_in_order(g, p, x, axis, largest):
    order = g.order([rising_key(g, x, largest)], axis)
    dims = [p.k if k == axis else n for k, n in enumerate(x.dims)]
    order = g.slice(order, [0] * x.rank, dims)
    return [taken(g, x, order, axis), g.cast(order, p.outs[1][0])]


def top_k(g, p, x):
    return first_in_order(g, p, x, p.axis, True)


def approx_top_k(g, p, x):
    """JAX leaves out no element on CPUs."""
    return first_in_order(g, p, x, p.reduction_dimension % x.rank, p.is_max_k)


# Random numbers: a key is u64, word 0 in the lower half, and so is a pair of counters.

HALF = 2 ** 32


def exchanged(g, x):
    """The halves of u64 exchanged."""
    return g.op("add", g.op("mul", x, HALF), g.op("div", x, HALF))


def counters(g, dims):
    count = math.prod(dims)
    places_in_row = g.iota("u64", (count,), 0) if dims else g.constant(0, "u64", (1,))
    return g.reshape(g.op("mul", places_in_row, HALF), dims)


def random_seed(g, p, seed):
    return exchanged(g, g.cast(seed, "u64"))


def random_split(g, p, key):
    wide = g.broadcast(key, p.outs[0][1], range(key.rank))
    count = counters(g, p.shape)
    axes = range(key.rank, wide.rank)
    return g.raw("threefry", wide, g.broadcast(count, wide.dims, axes))


def random_bits(g, p, key):
    if key.rank:
        raise Missing("random_bits of several keys")
    found = g.raw("threefry", key, counters(g, p.shape))
    if p.bit_width == 64:
        return exchanged(g, found)
    high, low = g.cast(found, "u32"), g.cast(g.op("div", found, HALF), "u32")
    return g.cast(bitwise_xor(g, p, high, low), p.outs[0][0])


def random_unwrap(g, p, key):
    parts = [g.cast(key, "u32"), g.cast(g.op("div", key, HALF), "u32")]
    return g.concatenate([g.reshape(each, (*key.dims, 1)) for each in parts], key.rank)


def random_wrap(g, p, words):
    low, high = (g.cast(each, "u64") for each in columns(g, words))
    return g.op("add", low, g.op("mul", high, HALF))


def iota_2x32_shape(g, p):
    low = g.op("div", counters(g, p.shape), HALF)
    return [g.constant(0, "u32", p.shape), g.cast(low, "u32")]
