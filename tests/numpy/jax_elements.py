"""Elementwise primitives of JAX as nodes of graphs; see jax_primitives.py."""

import math

from graph_text import BITS, FLOATS, WIDE, Missing, highest

# Elementwise operations of the same name and meaning.
SAME = {**{name: name for name in (
    "add", "sub", "mul", "max", "min", "abs", "neg", "floor", "ceil", "exp", "exp2", "log", "sin",
    "cos", "tanh", "erf", "sqrt", "rsqrt", "lt", "le", "eq", "ne")}, "add_any": "add"}


def same(op):
    return lambda g, p, *args: g.op(op, *args)


def turned(op):
    """A comparison with exchanged operands."""
    return lambda g, p, a, b: g.op(op, b, a)


def in_f64(make):
    """Computes floats in f64, so that short formulas are exact enough, and rounds once."""
    return lambda g, p, *args: g.cast(make(g, *(g.cast(each, "f64") for each in args)),
                                      args[0].dtype)


def itself(g, p, x):
    return x


# Arithmetic


def div(g, p, a, b):
    """JAX gives -1 for integers over 0."""
    quotient = g.op("div", a, b)
    if a.dtype in FLOATS:
        return quotient
    return g.where(g.op("eq", b, 0), -1 if a.dtype[0] == "i" else highest(a.dtype), quotient)


def rem(g, p, a, b):
    """JAX gives a for integers over 0."""
    rest = g.op("mod", a, b)
    return rest if a.dtype in FLOATS else g.where(g.op("eq", b, 0), a, rest)


def sign(g, p, x):
    """0, -0 and NaN stay."""
    if x.dtype[0] == "u":
        return g.cast(g.op("ne", x, 0), x.dtype)
    one = g.where(g.op("lt", x, 0), g.constant(-1, x.dtype), g.constant(1, x.dtype))
    stays = g.op("or", g.op("eq", x, 0), g.op("ne", x, x))
    return g.where(stays, x, one)


def integer_pow(g, p, x):
    """Products, as few as the bits of the exponent."""
    if p.y < 0:
        return g.op("div", 1, product_of(g, x, -p.y))
    return product_of(g, x, p.y)


def product_of(g, x, count):
    result, power = None, x
    while count:
        if count % 2:
            result = power if result is None else g.op("mul", result, power)
        count //= 2
        if count:
            power = g.op("mul", power, power)
    return g.constant(1, x.dtype, x.dims) if result is None else result


def power(g, p, x, y):
    return g.op("pow", x, g.cast(y, x.dtype))


def rounded(g, p, x):
    """The nearest whole number; halves go away from 0, or to the even number."""
    whole = g.op("trunc", x)
    rest = g.op("abs", g.op("sub", x, whole))
    away = g.op("add", whole, sign(g, p, x))
    if int(p.rounding_method) == 0:
        up = g.op("le", 0.5, rest)
    else:
        half = g.op("mul", whole, 0.5)
        odd = g.op("ne", g.op("trunc", half), half)
        up = g.op("or", g.op("lt", 0.5, rest), g.op("and", g.op("eq", rest, 0.5), odd))
    return g.where(up, away, whole)


def clamp(g, p, low, x, high):
    return g.op("min", g.op("max", g.spread(low, x.dims), x), g.spread(high, x.dims))


def is_finite(g, p, x):
    return g.op("lt", g.op("abs", x), math.inf)


def select_n(g, p, which, *cases):
    found = cases[0]
    for k, case in enumerate(cases[1:], 1):
        chosen = which if which.dtype == "bool" else g.op("le", k, which)
        found = g.where(chosen, case, found)
    return found


def convert(g, p, x):
    return g.cast(x, p.outs[0][0])


def tan(g, x):
    return g.op("div", g.op("sin", x), g.op("cos", x))


def sinh(g, x):
    return g.op("mul", g.op("sub", g.op("exp", x), g.op("exp", g.op("neg", x))), 0.5)


def cosh(g, x):
    return g.op("mul", g.op("add", g.op("exp", x), g.op("exp", g.op("neg", x))), 0.5)


def asinh(g, x):
    size = g.op("abs", x)
    root = g.op("sqrt", g.op("add", g.op("mul", x, x), 1))
    found = g.op("log", g.op("add", size, root))
    return g.where(g.op("lt", x, 0), g.op("neg", found), found)


def acosh(g, x):
    root = g.op("sqrt", g.op("sub", g.op("mul", x, x), 1))
    return g.op("log", g.op("add", x, root))


def atanh(g, x):
    ratio = g.op("div", g.op("add", 1, x), g.op("sub", 1, x))
    return g.op("mul", g.op("log", ratio), 0.5)


def cbrt(g, x):
    root = g.op("pow", g.op("abs", x), 1 / 3)
    return g.where(g.op("lt", x, 0), g.op("neg", root), root)


def reduce_precision(g, p, x):
    kinds = {(5, 10): "f16", (8, 7): "bf16", (8, 23): "f32", (11, 52): "f64"}
    kind = kinds.get((p.exponent_bits, p.mantissa_bits))
    if kind is None:
        raise Missing("reduce_precision to no type of graphs")
    return g.cast(g.cast(x, kind), x.dtype)


# Bits


def unsigned(g, x):
    return g.cast(x, f"u{BITS[x.dtype]}")


def two_to(g, x):
    """2^x; 0 where x is the number of bits or more."""
    return g.op("pow", g.constant(2, x.dtype, x.dims), x)


def planes(g, x):
    """The bits of each element along a new last axis, each 0 or 1, and their values."""
    dims = (*x.dims, BITS[x.dtype])
    values = two_to(g, g.iota(x.dtype, dims, x.rank))
    wide = g.broadcast(x, dims, range(x.rank))
    return g.op("mod", g.op("div", wide, values), 2), values


def differing(g, a, b):
    return g.cast(g.op("ne", a, b), a.dtype)


def of_bits(of_bools, of_planes):
    """An operation on each bit."""
    def make(g, p, a, b):
        a, b = (g.spread(each, p.outs[0][1]) for each in (a, b))
        if a.dtype == "bool":
            return of_bools(g, a, b)
        (first, values), (second, _) = (planes(g, unsigned(g, each)) for each in (a, b))
        bits = g.op("mul", of_planes(g, first, second), values)
        return g.cast(g.reduce("add", bits, [bits.rank - 1]), a.dtype)
    return make


bitwise_and = of_bits(lambda g, a, b: g.op("and", a, b), lambda g, a, b: g.op("mul", a, b))
bitwise_or = of_bits(lambda g, a, b: g.op("or", a, b), lambda g, a, b: g.op("max", a, b))
bitwise_xor = of_bits(differing, differing)


def not_(g, p, x):
    if x.dtype == "bool":
        return g.op("not", x)
    return g.cast(g.op("sub", highest(unsigned(g, x).dtype), unsigned(g, x)), x.dtype)


def population_count(g, p, x):
    bits, _ = planes(g, unsigned(g, x))
    return g.cast(g.reduce("add", bits, [bits.rank - 1]), x.dtype)


def shift_left(g, p, x, by):
    return g.cast(g.op("mul", unsigned(g, x), two_to(g, unsigned(g, by))), x.dtype)


def shift_right_logical(g, p, x, by):
    x, by = (g.spread(each, p.outs[0][1]) for each in (x, by))
    return g.cast(g.op("div", unsigned(g, x), two_to(g, unsigned(g, by))), x.dtype)


def shift_right_arithmetic(g, p, x, by):
    shifted = shift_right_logical(g, p, x, by)
    if x.dtype[0] == "u":
        return shifted
    turned_back = g.op("sub", -1, shift_right_logical(g, p, g.op("sub", -1, x), by))
    return g.where(g.op("lt", x, 0), turned_back, shifted)


def bitcast(g, p, x):
    to = p.outs[0][0]
    if BITS[to] != BITS[x.dtype] or "bool" in (to, x.dtype) and to != x.dtype:
        raise Missing("bitcast to another width")
    if to == x.dtype:
        return x
    if x.dtype in FLOATS:
        return bitcast(g, p, bits_of(g, x))
    return float_of(g, unsigned(g, x), to) if to in FLOATS else g.cast(x, to)


def bits_of(g, x):
    """The bits of a float as unsigned integers of the same width."""
    return bits_of_half(g, x) if x.dtype in WIDE else g.raw("bits", x)


def float_of(g, bits, dtype):
    return half_of_bits(g, bits, dtype) if dtype in WIDE else g.raw("from_bits", bits)


def bits_of_half(g, x):
    """The bits of a 16-bit float, from those of the f32."""
    bits = g.bits(x)
    if x.dtype == "bf16":
        return g.cast(g.op("div", bits, 0x10000), "u16")
    size = g.op("mod", bits, 0x80000000)
    fraction = g.cast(g.op("mul", g.raw("from_bits", size), 2.0 ** 24), "u32")
    whole = g.op("sub", g.op("div", size, 0x2000), 0x1c000)
    finite = g.where(g.op("lt", size, 0x38800000), fraction, whole)
    other = g.where(g.op("eq", size, 0x7f800000), g.constant(0x7c00, "u32"),
                    g.constant(0x7e00, "u32"))
    signs = g.op("mul", g.op("div", bits, 0x80000000), 0x8000)
    found = g.where(g.op("lt", size, 0x7f800000), finite, other)
    return g.cast(g.op("add", signs, found), "u16")


def half_of_bits(g, x, to):
    bits = g.cast(x, "u32")
    if to == "bf16":
        return g.cast(g.raw("from_bits", g.op("mul", bits, 0x10000)), to)
    size = g.op("mod", bits, 0x8000)
    bias = g.where(g.op("lt", size, 0x7c00), g.constant(0x38000000, "u32"),
                   g.constant(0x70000000, "u32"))
    whole = g.raw("from_bits", g.op("add", g.op("mul", size, 0x2000), bias))
    fraction = g.op("mul", g.cast(size, "f32"), 2.0 ** -24)
    value = g.where(g.op("lt", size, 0x400), fraction, whole)
    return g.cast(g.where(g.op("lt", bits, 0x8000), value, g.op("neg", value)), to)


def nextafter(g, p, x, y):
    """The bits of x, one up or down."""
    bits, other = bits_of(g, x), bits_of(g, y)
    half = 2 ** (BITS[x.dtype] - 1)
    grows = g.op("eq", g.op("lt", x, y), g.op("lt", 0, x))
    moved = g.where(grows, g.op("add", bits, 1), g.op("sub", bits, 1))
    tiny = g.op("add", g.op("mul", g.op("div", other, half), half), 1)
    found = float_of(g, g.where(g.op("eq", x, 0), tiny, moved), x.dtype)
    found = g.where(g.op("eq", x, y), y, found)
    unordered = g.op("or", g.op("ne", x, x), g.op("ne", y, y))
    return g.where(unordered, g.op("add", x, y), found)
