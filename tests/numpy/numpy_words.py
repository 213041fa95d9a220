"""What NumPy has no single word for: the helpers of the expressions in *_cases.cpp, by NumPy and
plain loops. Arrays are as in compare.py: floats are f64."""
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def softmax(x):
    x = np.float64(x)
    e = np.exp(x - np.max(x, -1, keepdims=True, initial=-np.inf))
    return e / np.sum(e, -1, keepdims=True)


def logsumexp(x):
    """Along the last axis, which is kept."""
    largest = np.max(x, -1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0)
    return np.log(np.sum(np.exp(x - shift), -1, keepdims=True)) + shift


def attention(q, k, v, seen=True, scale=None):
    scores = np.float64(q @ k.swapaxes(-1, -2)) * (scale or q.shape[-1] ** -0.5)
    return softmax(np.where(seen, scores, -np.inf)) @ v


def rounded(x, dtype):
    """To the nearest of a 16-bit type, even where two are near: the upper bits of f32 are bf16."""
    if dtype == "f16":
        return np.float64(np.float16(x))
    bits = np.atleast_1d(np.float32(x)).view(np.uint32)
    bits = (bits + np.uint32(0x7fff) + ((bits >> 16) & 1)) & np.uint32(0xffff0000)
    return np.float64(bits.view(np.float32)).reshape(np.shape(x))


def running(x, dtype, apply=np.add):
    """Sums along the last axis, each rounded to a 16-bit type before the next is made of it."""
    out = x.copy()
    for k in range(1, x.shape[1]):
        out[:, k] = rounded(apply(np.float32(out[:, k - 1]), np.float32(x[:, k])), dtype)
    return out


def powers(a, b):
    """Of integers, also to negative powers."""
    whole = np.power(a, np.maximum(b, 0))
    return np.where(b >= 0, whole, np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)))


def as_u8(x):
    return np.uint8(np.clip(x, 0, 255)) if x.dtype.kind == "f" else x.astype(np.uint8)


def unsigned(x, dtype):
    """The bits of elements; of NaN those of the positive quiet one."""
    if dtype == "bf16":
        return np.uint16(np.abs(x.astype(np.float32)).view(np.uint32) >> 16
                         | np.where(np.signbit(x) & ~np.isnan(x), 0x8000, 0))
    if dtype[0] == "f":
        x = np.where(np.isnan(x), np.nan, x).astype(f"float{dtype[1:]}")
    return x.view(f"uint{8 * x.itemsize}")


def spread(x, value):
    """With `value` between each two of the last axis."""
    out = np.full((*x.shape[:-1], 2 * x.shape[-1] - 1), value, x.dtype)
    out[..., ::2] = x
    return out


def windows(x, size, step):
    all_of_them = np.lib.stride_tricks.sliding_window_view(x, size)
    return all_of_them[::step[0], ::step[1]]


def padded(x, padding):
    """Negative paddings of the last axes take elements away."""
    x = np.pad(x, [(0, 0), (0, 0), *[(max(low, 0), max(high, 0)) for low, high in padding]])
    return x[(..., *[slice(max(-low, 0), min(high, 0) or None) for low, high in padding])]


def conv(x, w, step, padding, dilation, groups):
    axes = len(step)
    x = padded(x, padding)
    wide = [dilation[k] * (w.shape[2 + k] - 1) + 1 for k in range(axes)]
    found = [(x.shape[2 + k] - wide[k]) // step[k] + 1 for k in range(axes)]
    out = np.zeros((x.shape[0], w.shape[0], *found), x.dtype)
    per_group = w.shape[1]
    for place in np.ndindex(*found):
        at = tuple(slice(p * s, p * s + n, d)
                   for p, s, n, d in zip(place, step, wide, dilation))
        for f in range(w.shape[0]):
            first = f // (w.shape[0] // groups) * per_group
            part = x[(slice(None), slice(first, first + per_group), *at)]
            out[(slice(None), f, *place)] = np.sum(part * w[f], axis=tuple(range(1, axes + 2)),
                                                   dtype=x.dtype)
    return out


def conv_transposed(x, w, step, dilation=1):
    wide = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    found = [(extent - 1) * step + reach for extent, reach in zip(x.shape[2:], wide)]
    out = np.zeros((x.shape[0], w.shape[1], *found), x.dtype)
    for place in np.ndindex(*x.shape[2:]):
        at = tuple(slice(p * step, p * step + reach, dilation) for p, reach in zip(place, wide))
        out[(slice(None), slice(None), *at)] += np.tensordot(x[(slice(None), slice(None), *place)],
                                                             w, 1)
    return out


def updated(x, update, row, column):
    out = x.copy()
    out[row:row + update.shape[0], column:column + update.shape[1]] = update
    return out


def scattered(x, places, updates, how):
    """`places` are rows, or tuples of places along the first axes."""
    out = x.copy()
    apply = {"set": lambda a, b: b, "add": np.add, "multiply": np.multiply,
             "maximum": np.maximum, "minimum": np.minimum}[how]
    for place, update in zip(places, updates):
        at = tuple(np.atleast_1d(place))
        if all(0 <= k < extent for k, extent in zip(at, x.shape)):
            out[at] = apply(out[at], update)
    return out


def threefry(key, counter, rounds=20):
    """Threefry-2x32, of u64: the low half is the first word."""
    shape = np.broadcast_shapes(np.shape(key), np.shape(counter))
    upper = np.uint64(32)
    words = [np.atleast_1d(part).astype(np.uint32)
             for each in (key, counter) for whole in [np.broadcast_to(each, shape)]
             for part in [whole.astype(np.uint64), whole.astype(np.uint64) >> upper]]
    keys = [words[0], words[1], words[0] ^ words[1] ^ np.uint32(0x1bd11bda)]
    first, second = words[2] + keys[0], words[3] + keys[1]
    for n in range(rounds):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[n % 8]
        first = first + second
        second = (second << np.uint32(turn) | second >> np.uint32(32 - turn)) ^ first
        if n % 4 == 3:
            first = first + keys[(n // 4 + 1) % 3]
            second = second + keys[(n // 4 + 2) % 3] + np.uint32(n // 4 + 1)
    return (np.uint64(first) | np.uint64(second) << upper).reshape(shape)


def upper_bits(x):
    """In [0, 1), of the upper 24 bits."""
    return np.float64(x >> np.uint64(40)) * 2.0 ** -24


def normal(bits):
    """Box and Muller's radius of the upper half, angle of the lower one."""
    angle = 2 * np.pi * upper_bits(bits << np.uint64(32))
    return np.sqrt(-2 * np.log(1 - upper_bits(bits))) * np.cos(angle)


WORDS = {name: each for name, each in globals().items() if callable(each)} | {"np": np}
