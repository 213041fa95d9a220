"""Primitives of JAX as nodes of graphs. TABLE has a function for each primitive: f(g, p, *operands)
writes nodes to the GraphText g and returns one node, or a list. p holds the parameters of the
primitive, and p.outs the (dtype, dims) of each result. A function raises Missing where nodes cannot
express the equation."""

from graph_text import highest, lowest
from jax_arrays import (broadcast_in_dim, concatenate, conv, cumlogsumexp, cumulated, dot_general,
                        extreme_place, iota, like_out, pad, reduce, reduce_window, reduced,
                        reshape, rev, select_and_gather_add, select_and_scatter_add, slice_, split,
                        transpose, window_of)
from jax_elements import (SAME, acosh, asinh, atanh, bitcast, bitwise_and, bitwise_or, bitwise_xor,
                          cbrt, clamp, convert, cosh, div, in_f64, integer_pow, is_finite, itself,
                          nextafter, not_, population_count, power, reduce_precision, rem, rounded,
                          same, select_n, shift_left, shift_right_arithmetic, shift_right_logical,
                          sign, sinh, tan, turned)
from jax_places import (approx_top_k, dynamic_slice, dynamic_update_slice, gather, iota_2x32_shape,
                        random_bits, random_seed, random_split, random_unwrap, random_wrap,
                        scattered, sort, top_k)

TABLE = {
    **{name: same(op) for name, op in SAME.items()},
    "gt": turned("lt"), "ge": turned("le"),
    "div": div, "rem": rem, "sign": sign, "integer_pow": integer_pow, "pow": power,
    "square": lambda g, p, x: g.op("mul", x, x), "round": rounded, "clamp": clamp,
    "is_finite": is_finite, "select_n": select_n, "convert_element_type": convert,
    "expm1": in_f64(lambda g, x: g.op("sub", g.op("exp", x), 1)),
    "log1p": in_f64(lambda g, x: g.op("log", g.op("add", x, 1))),
    "erfc": in_f64(lambda g, x: g.op("sub", 1, g.op("erf", x))),
    "logistic": in_f64(lambda g, x: g.op("recip", g.op("add", g.op("exp", g.op("neg", x)), 1))),
    "tan": in_f64(tan), "sinh": in_f64(sinh), "cosh": in_f64(cosh), "asinh": in_f64(asinh),
    "acosh": in_f64(acosh), "atanh": in_f64(atanh), "cbrt": in_f64(cbrt),
    "reduce_precision": reduce_precision,
    **{name: itself for name in ("copy", "copy_p", "device_put", "stop_gradient",
                                 "optimization_barrier")},
    "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "not": not_,
    "population_count": population_count,
    "shift_left": shift_left, "shift_right_logical": shift_right_logical,
    "shift_right_arithmetic": shift_right_arithmetic, "bitcast_convert_type": bitcast,
    "nextafter": nextafter,
    "broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "squeeze": like_out,
    "expand_dims": like_out, "transpose": transpose, "rev": rev, "slice": slice_, "split": split,
    "concatenate": concatenate, "pad": pad, "iota": iota,
    "dot_general": dot_general, "conv_general_dilated": conv,
    **{f"reduce_{name}": reduced(op) for name, op in (
        ("sum", "add"), ("prod", "mul"), ("max", "max"), ("min", "min"), ("and", "and"),
        ("or", "or"))},
    "reduce": reduce, "argmax": extreme_place("max"), "argmin": extreme_place("min"),
    **{f"cum{name}": cumulated(op) for name, op in (
        ("sum", "add"), ("prod", "mul"), ("max", "max"), ("min", "min"))},
    "cumlogsumexp": cumlogsumexp,
    "reduce_window": reduce_window, "reduce_window_sum": window_of("add", lambda dtype: 0),
    "reduce_window_max": window_of("max", lowest), "reduce_window_min": window_of("min", highest),
    "select_and_gather_add": select_and_gather_add,
    "select_and_scatter_add": select_and_scatter_add,
    "gather": gather, "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice,
    "scatter": scattered("arg2"),
    **{f"scatter-{op}": scattered(op) for op in ("add", "mul", "max", "min")},
    "sort": sort, "top_k": top_k, "approx_top_k": approx_top_k,
    "random_seed": random_seed, "random_split": random_split, "random_bits": random_bits,
    "random_unwrap": random_unwrap, "random_wrap": random_wrap, "iota_2x32_shape": iota_2x32_shape,
}

# Primitives whose floats depend on an approximation or on the order of sums; JAX divides by some
# arrays through their reciprocals. All others move or choose floats, or round once as IEEE 754.
INEXACT = {
    "acosh", "asinh", "atanh", "cbrt", "cos", "cosh", "div", "erf", "erfc", "exp", "exp2", "expm1",
    "integer_pow", "log", "log1p", "logistic", "pow", "rsqrt", "sin", "sinh", "tan", "tanh",
    "conv_general_dilated", "cumlogsumexp", "cumprod", "cumsum", "dot_general", "reduce",
    "reduce_prod", "reduce_sum", "reduce_window", "reduce_window_sum", "scatter-add",
    "scatter-mul", "select_and_scatter_add",
}
