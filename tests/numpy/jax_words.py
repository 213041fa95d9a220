"""The operations of graphs in JAX's own words. An expression that is not here is NumPy's, of arrays
of JAX, with jax.numpy for np; helpers of NumPy are not known there, so that nothing is compared
with NumPy again."""

# Operations by name.
WORDS = {
    # Elements
    "divide": "lax.div(a, b)",
    "divide, toward 0": "lax.div(a, b)",
    "remainder": "lax.rem(a, b)",
    "negate": "lax.neg(a)",
    "pow": "lax.pow(a, b)",
    "and": "np.logical_and(a, b)",
    "or": "np.logical_or(a, b)",
    "not": "np.logical_not(a)",
    "identity": "np.positive(a) if a.dtype != bool else a | a",
    "relu": "jax.nn.relu(a)",
    "relu_gate": "lax.select(a > 0, b, np.zeros_like(b))",
    "satur01": "lax.clamp(np.zeros_like(a), a, np.ones_like(a))",
    "satur01_gate": "lax.select((0 < a) & (a < 1), b, np.zeros_like(b))",
    "where": "lax.select(a == b, b, c)",
    "select": "lax.select(a.astype(bool), b, c)",
    "clamp": "lax.clamp(np.full_like(a, 1), a, np.full_like(a, 3))",
    "abs": "lax.abs(a)",
    "floor": "lax.floor(a)",
    "ceil": "lax.ceil(a)",
    "exp": "lax.exp(a)",
    "exp of whole numbers": "lax.exp(np.float64(a))",
    "exp2": "lax.exp2(a)",
    "log": "lax.log(a)",
    "sin": "lax.sin(a)",
    "cos": "lax.cos(a)",
    "tanh": "lax.tanh(a)",
    "erf": "lax.erf(a)",
    "erf of whole numbers": "lax.erf(np.float64(a))",
    "sqrt": "lax.sqrt(a)",
    "rsqrt": "lax.rsqrt(a)",
    "recip": "np.reciprocal(a)",
    "sigmoid": "jax.nn.sigmoid(np.float64(a))",
    "cast to f32": "lax.convert_element_type(a, np.float32)",
    "cast to i64": "lax.convert_element_type(a, np.int64)",
    "cast to f16": "lax.convert_element_type(a, np.float16)",
    "cast to u8": "lax.convert_element_type(a, np.uint8)",
    "bitcast to unsigned": "bitcast(stored(a, dtype), 'uint')",
    "bitcast to signed": "bitcast(a, 'int')",
    "bitcast to floats": "bitcast(a, 'float').astype(np.float64)",
    "bitcast to bf16": "lax.bitcast_convert_type(a, np.bfloat16).astype(np.float64)",
    # Layout
    "broadcast_to": "lax.broadcast(a, (4,))",
    "broadcast_in_dim": "lax.broadcast_in_dim(a, (6, 3), (0,))",
    "broadcast_in_dim, a scalar": "lax.broadcast_in_dim(a, (2, 3), ())",
    "reshape": "lax.reshape(a, (3, 4, 2))",
    "transpose": "lax.transpose(a, (2, 0, 1))",
    "squeeze": "lax.squeeze(a, (0, 2))",
    "expand_dims": "lax.expand_dims(a, (0, 2))",
    "expand_dims of a scalar": "lax.expand_dims(a, (0, 1))",
    "slice": "lax.rev(lax.slice(a, (1, 1), (4, 6), (1, 2)), (1,))",
    "slice to nothing": "lax.slice(a, (0, 4), (4, 4))",
    "reverse": "lax.rev(a, (1,))",
    "concatenate": "lax.concatenate([a, b], 1)",
    "pad": "lax.pad(a, a.dtype.type(3), ((1, 2, 0), (0, 1, 0)))",
    "pad, negative and interior": "lax.pad(a, a.dtype.type(3), ((-1, 0, 0), (0, 0, 1)))",
    "pad, no elements": "lax.pad(a, a.dtype.type(3), ((1, 1, 2), (0, 0, 0)))",
    "iota": "a + lax.broadcasted_iota(a.dtype, (4, 6), 0)",
    # Contractions
    "matmul": "lax.batch_matmul(a, b)",
    "dot_general": "lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))))",
    "dot_general over all axes": "lax.dot_general(a, b, (((2, 0, 1), (2, 0, 1)), ((), ())))",
    "dot_general of scalars": "lax.dot_general(a, b, (((), ()), ((), ())))",
    "dot_general, no elements": "lax.dot_general(a, b, (((0,), (0,)), ((1,), (1,))))",
    "conv, one axis": "lax.conv_general_dilated(a, b, (2,), [(1, 2)], rhs_dilation=(2,), "
                      "feature_group_count=2)",
    "conv, two axes": "lax.conv(a, b, (1, 1), 'VALID')",
    "conv, three axes": "lax.conv(a, b, (1, 1, 1), 'VALID')",
    "conv, no images": "lax.conv(a, b, (1,), 'VALID')",
    "conv, no channels": "lax.conv(a, b, (1,), 'VALID')",
    "conv_transposed, two axes": "lax.conv_transpose(a, b, (2, 2), 'VALID', dimension_numbers="
                                 "('NCHW', 'OIHW', 'NCHW'), transpose_kernel=True)",
    "conv_transposed, three axes": "lax.conv_transpose(a, b, (1, 1, 1), 'VALID', "
                                   "dimension_numbers=('NCDHW', 'OIDHW', 'NCDHW'), "
                                   "transpose_kernel=True)",
    "conv, zeros between images": "lax.conv_general_dilated(a, b, (1,), [(1, -1)], "
                                  "lhs_dilation=(2,))",
    "conv_transposed": "lax.conv_transpose(a, b, (2,), 'VALID', dimension_numbers=images, "
                       "transpose_kernel=True)",
    "conv_transposed, no images": "lax.conv_transpose(a, b, (2,), 'VALID', "
                                  "dimension_numbers=images, transpose_kernel=True)",
    "conv_transposed, dilated and cut": "lax.conv_transpose(a, b, (2,), [(3, 2)], (2,), images, "
                                        "transpose_kernel=True)",
    # Reductions
    "maximum": "lax.reduce_max(a, (1,))",
    "minimum": "lax.reduce_min(a, (0,))",
    "logsumexp": "jax.nn.logsumexp(np.float64(a), 1)",
    "logsumexp, large and infinite": "jax.nn.logsumexp(a * 300, -1, keepdims=True)",
    "logsumexp of a scalar": "jax.nn.logsumexp(np.float64(a))",
    "argmax": "lax.argmax(a, 1, np.int64)",
    "argmin": "lax.argmin(a, 0, np.int64)",
    "cumsum": "lax.cumsum(a, 1)",
    "cumsum, each sum rounded": "running(a, dtype)",
    "cumprod, each product rounded": "running(a, dtype, np.multiply, 1)",
    "window_maximum of NaN": "windows(a, lax.max, (2, 2), (2, 2))",
    "window_minimum, dilated, NaN": "windows(a, lax.min, (2, 2), (1, 1), (2, 3))",
    "window_maximum of truth values":
        "lax.reduce_window(a, False, lax.bitwise_or, (2, 3), (2, 3), 'VALID')",
    "cumsum, reverse": "lax.cumsum(a, 0, reverse=True)",
    "cumprod": "lax.cumprod(a, 0)",
    "cumprod, reverse": "lax.cumprod(a, 1, reverse=True)",
    "cummax": "lax.cummax(a, 1)",
    "cummax, reverse": "lax.cummax(a, 1, reverse=True)",
    "cumsum, no elements": "lax.cumsum(a, 0)",
    "cumprod, no elements": "lax.cumprod(a, 0)",
    "cummax, no elements": "lax.cummax(a, 1)",
    "window_sum": "windows(a, lax.add, (2, 3), (1, 2))",
    "window_maximum": "windows(a, lax.max, (2, 2), (2, 2))",
    "window_minimum": "windows(a, lax.min, (2, 2), (2, 2))",
    "logsumexp of no elements": "jax.nn.logsumexp(np.float64(a), 0)",
    "window_maximum, no rows": "windows(a, lax.max, (1, 2), (1, 1))",
    "window_sum, dilated": "windows(a, lax.add, (2, 2), (1, 1), (2, 3))",
    # Places
    "take": "a.at[:, b].get(**nearest)",
    "take, a negative axis": "a.at[:, b].get(**nearest)",
    "take, of two axes": "a.at[b].get(**nearest)",
    "take, none": "a.at[b].get(**nearest)",
    "take_along_axis": "a.at[np.arange(4)[:, None], b].get(**nearest)",
    "take_along_axis, a negative axis": "a.at[b, np.arange(6)].get(**nearest)",
    "gather": "a.at[b, c].get(**nearest)",
    "gather, one place": "a.at[b].get(**nearest)",
    "dynamic_slice": "lax.dynamic_slice(a, (b, 1), (2, 3), allow_negative_indices=False)",
    "dynamic_slice to nothing": "lax.dynamic_slice(a, (0, b), (0, 3))",
    "dynamic_slice of a scalar": "lax.dynamic_slice(a, (), ())",
    "dynamic_update_slice": "lax.dynamic_update_slice(a, b, (c, 1), allow_negative_indices=False)",
    "dynamic_update_slice by nothing": "lax.dynamic_update_slice(a, b, (1, 1))",
    # Updates in sequence: JAX leaves open which of several updates to a place stays.
    "scatter, set": "lax.fori_loop(0, 5, lambda k, x: x.at[b[k]].set(c[k], **outside), a)",
    "scatter, add": "a.at[b].add(c, **outside)",
    "scatter, multiply": "a.at[b].multiply(c, **outside)",
    "scatter, maximum": "a.at[b].max(c, **outside)",
    "scatter, minimum": "a.at[b].min(c, **outside)",
    "scatter, add, no updates": "a.at[b].add(c, **outside)",
    "scatter, add, by two places, the same ones too": "a.at[b, c].add(d, **outside)",
    "scatter, add, each sum rounded": "running(np.concatenate([a, c])[None], dtype)[:, -1]",
    # Order
    "sort": "lax.sort(a, 0)",
    "sort, descending": "np.sort(a, descending=True)",
    "sort, by two keys": "lax.sort([a, b], num_keys=2)[1]",
    "argsort": "np.argsort(a, 0, stable=True)",
    "argsort, long rows": "np.argsort(a, stable=True)",
    "argsort, descending, equal ones": "np.argsort(a, 1, stable=True, descending=True)",
    "argsort, no rows": "np.argsort(a, stable=True)",
    "top_k": "lax.top_k(a, 3)[0]",
    "top_k, places": "lax.top_k(a, 3)[1]",
    "top_k, none": "lax.top_k(a, 0)[0]",
    "top_k, all, along the first axis": "lax.top_k(a, 4, axis=0)[0]",
    # Layers
    "softmax": "jax.nn.softmax(np.float64(a))",
    "softmax, along the first axis": "jax.nn.softmax(np.float64(a), 0)",
    "softmax, NaN and infinities": "jax.nn.softmax(a)",
    "softmax, no rows": "jax.nn.softmax(np.float64(a))",
    "log_softmax": "jax.nn.log_softmax(np.float64(a))",
    "log_softmax, an infinity below": "jax.nn.log_softmax(np.where(a > 2, -np.inf, a))",
    "layer_norm": "jax.nn.standardize(np.float64(a), epsilon=1e-5) * b + c",
    "layer_norm, no rows": "jax.nn.standardize(np.float64(a), epsilon=1e-5) * b + c",
    "rms_norm": "a * lax.rsqrt(np.mean(np.square(np.float64(a)), -1, keepdims=True) + 1e-5) * b",
    "gelu": "jax.nn.gelu(np.float64(a), approximate=False)",
    "gelu of a scalar": "jax.nn.gelu(np.float64(a), approximate=False)",
    "silu": "jax.nn.silu(np.float64(a))",
    "gelu, no elements": "jax.nn.gelu(np.float64(a), approximate=False)",
    "silu, no elements": "jax.nn.silu(np.float64(a))",
    "silu of a scalar": "jax.nn.silu(np.float64(a))",
    "one_hot, none": "jax.nn.one_hot(a, 6)",
    "cross_entropy, no rows": "-np.take_along_axis(jax.nn.log_softmax(np.float64(a)), "
                              "np.maximum(b, 0)[:, None], 1)[:, 0]",
    "silu, NaN and infinities": "jax.nn.silu(a)",
    "sigmoid, NaN and infinities": "jax.nn.sigmoid(a)",
    "one_hot": "jax.nn.one_hot(a, 6)",
    "one_hot of a scalar, as u8": "jax.nn.one_hot(a, 6, dtype=np.uint8)",
    "cross_entropy": "-np.take_along_axis(jax.nn.log_softmax(np.float64(a)), "
                     "np.maximum(b, 0)[:, None], 1)[:, 0]",
    "cross_entropy, one row": "-jax.nn.log_softmax(np.float64(a))[np.maximum(b, 0)]",
    "attention": "attention(a, b, c, dtype)",
    "attention, causal": "attention(a, b, c, dtype, np.tri(3, dtype=bool))",
    "attention, scale given": "attention(a, b, c, dtype, scale=0.25)",
    "attention, causal, fewer queries than keys":
        "attention(a, b, c, dtype, np.tri(3, 5, 2, dtype=bool))",
    "attention, causal, more queries than keys":
        "attention(a, b, c, 'f64', np.tri(5, 3, -2, dtype=bool))",
    "attention, causal, scale given, masked":
        "attention(a, b, c, 'f64', np.tri(3, 5, 2, dtype=bool) & (d > 0), 2)",
    "attention, no queries": "jax.nn.softmax(a @ b.T) @ c",
    # Random numbers
    "bernoulli": "upper_bits(threefry(a, np.arange(40))) < 0.25",
    "permutation": "np.argsort(threefry(a, np.arange(100)), stable=True)",
}

# Operations without a JAX equivalent, and the reasons.
MISSING = {
    "pow, negative powers": "integers to negative powers are left open there",
    "threefry_light": "its generator has 20 rounds",
}


def names():
    """What the expressions may use. Helpers are of operations that are JAX's own."""
    import jax
    from jax import lax
    from jax.extend.random import threefry2x32_p
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def stored(x, dtype):
        return x.astype({"f16": jnp.float16, "bf16": jnp.bfloat16,
                         "f32": jnp.float32}.get(dtype, x.dtype))

    def bitcast(x, kind):
        return lax.bitcast_convert_type(x, f"{kind}{8 * x.dtype.itemsize}")

    def running(x, dtype, apply=jnp.add, first=0):
        def step(before, each):
            after = apply(jnp.float32(before), jnp.float32(each)).astype(before.dtype)
            return after, after
        columns = stored(x, dtype).T
        return lax.scan(step, jnp.full_like(columns[0], first), columns)[1].T.astype(jnp.float64)

    def windows(x, how, size, step, dilation=(1, 1)):
        low, high = (-jnp.inf, jnp.inf) if x.dtype.kind == "f" else \
            (jnp.iinfo(x.dtype).min, jnp.iinfo(x.dtype).max)
        first = {lax.add: 0, lax.max: low, lax.min: high}[how]
        return lax.reduce_window(x, x.dtype.type(first), how, size, step, "VALID",
                                 window_dilation=dilation)

    def attention(q, k, v, dtype, seen=True, scale=None):
        q, k, v = (jnp.float64(each) for each in (q, k, v))
        if dtype != "f64":  # with one head
            mask = jnp.broadcast_to(seen, (q.shape[0], 1, q.shape[1], k.shape[1]))
            return jax.nn.dot_product_attention(
                *(each[:, :, None] for each in (q, k, v)), mask=mask, scale=scale)[:, :, 0]
        # dot_product_attention() has an f32 softmax, and finite results without visible keys.
        scores = jnp.einsum("bik,bjk->bij", q, k) * (scale or q.shape[-1] ** -0.5)
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v

    def threefry(key, counter):
        key, counter = (jnp.asarray(each).astype(jnp.uint64) for each in (key, counter))
        words = [each.astype(jnp.uint32) for part in (key, counter) for each in (part, part >> 32)]
        first, second = threefry2x32_p.bind(*jnp.broadcast_arrays(*words))
        return first.astype(jnp.uint64) | second.astype(jnp.uint64) << 32

    def upper_bits(x):
        return (x >> 40).astype(jnp.float64) * 2.0 ** -24

    def normal(bits):
        return jnp.sqrt(-2 * jnp.log1p(-upper_bits(bits))) * jnp.cos(
            2 * jnp.pi * upper_bits(bits << 32))

    inside = {"wrap_negative_indices": False}
    return {"jax": jax, "np": jnp, "lax": lax, "images": ("NCH", "OIH", "NCH"),
            "nearest": {"mode": "clip", **inside}, "outside": {"mode": "drop", **inside},
            "stored": stored, "bitcast": bitcast, "running": running, "windows": windows,
            "attention": attention, "threefry": threefry, "upper_bits": upper_bits,
            "normal": normal}
