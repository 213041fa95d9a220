"""Writes graphs of heddle as text, node by node."""

import math
from typing import NamedTuple

import numpy as np

WIDE = {"f16": "f32", "bf16": "f32"}
FLOATS = ("f16", "bf16", "f32", "f64")
TESTS = ("lt", "le", "eq", "ne", "and", "or", "not")
REAL = ("exp", "log", "exp2", "log2", "sin", "cos", "tanh", "erf", "sqrt", "recip", "rsqrt")
KEEP_BOOL = ("max", "min", "identity", "arg1", "arg2")
BITS = {"bool": 1, "bf16": 16, **{f"{kind}{n}": n for kind in "iuf" for n in (8, 16, 32, 64)}}


class Missing(Exception):
    """The reason why nodes cannot express an equation, in few words."""


class Node(NamedTuple):
    """A line of the text, and the type that the line has."""
    number: int
    dtype: str
    dims: tuple

    @property
    def rank(self):
        return len(self.dims)

    @property
    def type(self):
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def field(name, numbers):
    return f" {name}=[{','.join(str(int(n)) for n in numbers)}]"


def natural_type(op, dtypes):
    """The result type of an element operation whose operands, but for conditions, are alike."""
    if op in TESTS:
        return "bool"
    dtype = WIDE.get(dtypes[-1], dtypes[-1])
    if op in REAL:
        return dtype if dtype in FLOATS else "f32"
    if dtype == "bool" and op not in KEEP_BOOL + ("where",):
        return "i32"
    return dtype


class GraphText:
    """The text of a graph, without results. Methods named as kinds of nodes add one line each."""

    def __init__(self):
        self.lines = ["heddle-graph 1"]

    def text(self, results):
        numbers = ", ".join(f"v{each.number}" for each in results)
        return "\n".join(self.lines) + f"\nresults {numbers}\n"

    def add(self, what, dtype, dims, args=(), fields="", value=""):
        """Adds a node, and returns the node."""
        node = Node(len(self.lines) - 1, dtype, tuple(int(n) for n in dims))
        names = f"({', '.join(f'v{each.number}' for each in args)})" if args else ""
        self.lines.append(f"v{node.number} = {what}{names}{fields}{value} {node.type}")
        return node

    def parameter(self, dtype, dims):
        return self.add("parameter", dtype, dims)

    def constant(self, value, dtype, dims=()):
        """A number everywhere in an array."""
        if dtype in FLOATS:
            wide = WIDE.get(dtype, dtype)
            node = self.add("constant", wide, (), value=f" {float(value)!r}:{wide}")
            return self.spread(self.cast(node, dtype), dims)
        return self.spread(self.add("constant", dtype, (), value=f" {int(value)}:{dtype}"), dims)

    def iota(self, dtype, dims, axis):
        return self.add("iota", dtype, dims, fields=field("axis", [axis]))

    def raw(self, op, *args):
        """An element operation, with the type that the operation gives."""
        dtypes = [each.dtype for each in args]
        result = {"bits": "u64" if dtypes[0] == "f64" else "u32", "threefry": "u64",
                  "from_bits": "f64" if dtypes[0] == "u64" else "f32"}.get(op)
        dims = np.broadcast_shapes(*(each.dims for each in args))
        args = [self.spread(each, dims) for each in args]
        return self.add(f"element.{op}", result or natural_type(op, dtypes), dims, args)

    def op(self, op, *args):
        """An element operation whose result has the type of the last operand; tests give bool.
        Numbers take that type."""
        like = next(each for each in reversed(args) if isinstance(each, Node))
        args = [each if isinstance(each, Node) else self.constant(each, like.dtype)
                for each in args]
        found = self.raw(op, *args)
        return found if op in TESTS else self.cast(found, like.dtype)

    def where(self, condition, a, b):
        like = a if isinstance(a, Node) else b
        a, b = (each if isinstance(each, Node) else self.constant(each, like.dtype)
                for each in (a, b))
        return self.cast(self.raw("where", condition, a, b), like.dtype)

    def cast(self, x, dtype):
        return x if x.dtype == dtype else self.add("cast", dtype, x.dims, [x])

    def wide(self, x):
        """16-bit floats as f32."""
        return self.cast(x, WIDE.get(x.dtype, x.dtype))

    def bits(self, x):
        """The bits of 32 or 64 bits, or of 16-bit floats as f32, as unsigned integers."""
        return self.raw("bits", self.wide(x)) if x.dtype in FLOATS else self.cast(
            x, f"u{BITS[x.dtype]}")

    def spread(self, x, dims):
        """Broadcasts as NumPy does."""
        if x.dims == tuple(dims):
            return x
        return self.broadcast(x, dims, range(len(dims) - x.rank, len(dims)))

    def broadcast(self, x, dims, axes):
        return self.add("broadcast", x.dtype, dims, [x], field("axes", axes))

    def reshape(self, x, dims):
        return x if x.dims == tuple(dims) else self.add("reshape", x.dtype, dims, [x])

    def transpose(self, x, axes):
        axes = list(axes)
        if axes == sorted(axes):
            return x
        return self.add("transpose", x.dtype, [x.dims[k] for k in axes], [x], field("axes", axes))

    def slice(self, x, start, dims, step=None):
        return self.add("slice", x.dtype, dims, [x],
                        field("start", start) + field("step", step or [1] * x.rank))

    def concatenate(self, parts, axis):
        dims = list(parts[0].dims)
        dims[axis] = sum(each.dims[axis] for each in parts)
        return self.add("concatenate", parts[0].dtype, dims, parts, field("axis", [axis]))

    def pad(self, x, value, config):
        """`config`: low, high, interior for each axis; negative ones take elements away."""
        low, high, interior = ([max(each[k], 0) for each in config] for k in range(3))
        dims = [n + max(n - 1, 0) * (i) + a + b
                for n, a, b, i in zip(x.dims, low, high, interior)]
        padded = x
        if any(low) or any(high) or any(interior):
            fields = field("low", low) + field("high", high) + field("interior", interior)
            padded = self.add("pad", x.dtype, dims, [x, value], fields)
        start = [max(-each[0], 0) for each in config]
        kept = [n - s - max(-each[1], 0) for n, s, each in zip(dims, start, config)]
        return padded if kept == dims else self.slice(padded, start, kept)

    def dot(self, a, b, batch, contract):
        """`batch` and `contract`: axes of a, and of b."""
        def rest(x, k):
            return [n for axis, n in enumerate(x.dims) if axis not in (*batch[k], *contract[k])]
        dims = [a.dims[k] for k in batch[0]] + rest(a, 0) + rest(b, 1)
        fields = (field("batch_a", batch[0]) + field("batch_b", batch[1])
                  + field("contract_a", contract[0]) + field("contract_b", contract[1]))
        return self.add("dot", natural_type("mul", [a.dtype]), dims, [a, b], fields)

    def reduce(self, op, x, axes):
        """The result has the type of x."""
        dims = [n for k, n in enumerate(x.dims) if k not in axes]
        dtype = self.sum_type(op, x.dtype)
        node = self.add(f"reduce.{op}", dtype, dims, [x], field("axes", sorted(axes)))
        return self.cast(node, x.dtype)

    def cumulate(self, op, x, axis, reverse):
        fields = field("axis", [axis]) + field("reverse", [reverse])
        node = self.add(f"cumulate.{op}", self.sum_type(op, x.dtype), x.dims, [x], fields)
        return self.cast(node, x.dtype)

    def window(self, op, x, size, step, dilation):
        dims = [(n - d * (k - 1) - 1) // s + 1
                for n, k, s, d in zip(x.dims, size, step, dilation)]
        fields = field("size", size) + field("step", step) + field("dilation", dilation)
        node = self.add(f"window.{op}", self.sum_type(op, x.dtype), dims, [x], fields)
        return self.cast(node, x.dtype)

    def conv(self, x, w, step, dilation):
        dims = [*x.dims[:2], w.dims[1]]
        dims += [(n - d * (k - 1) - 1) // s + 1
                 for n, k, s, d in zip(x.dims[3:], w.dims[3:], step, dilation)]
        return self.add("conv", natural_type("mul", [x.dtype]), dims, [x, w],
                        field("step", step) + field("dilation", dilation))

    def gather(self, x, indices, axes, sizes):
        return self.add("gather", x.dtype, [*indices[0].dims, *sizes], [x, *indices],
                        field("axes", axes) + field("sizes", sizes))

    def scatter(self, op, x, updates, indices, axes):
        return self.add(f"scatter.{op}", x.dtype, x.dims, [x, updates, *indices],
                        field("axes", axes))

    def order(self, keys, axis):
        return self.add("order", "i32", keys[0].dims, keys, field("axis", [axis]))

    @staticmethod
    def sum_type(op, dtype):
        return "i32" if dtype == "bool" and op in ("add", "mul") else dtype


def lowest(dtype):
    """The number from which a maximum begins."""
    if dtype in FLOATS:
        return -math.inf
    return -2 ** (BITS[dtype] - 1) if dtype[0] == "i" else 0


def highest(dtype):
    if dtype in FLOATS:
        return math.inf
    return 2 ** (BITS[dtype] - 1) - 1 if dtype[0] == "i" else 2 ** BITS[dtype] - 1
