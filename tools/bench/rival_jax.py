"""The programs of heddle-bench's kernel rows in JAX, compiled ahead, on one thread."""

import jax
import jax.numpy as jnp

from rival_protocol import serve


def layernorm(x, gain, bias):
    mean = jnp.mean(x, axis=1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def conv2d(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID")


def training_step(x, y, w1, b1, w2, b2, *_):
    rate = 0.1 / x.shape[0]
    h = jnp.maximum(x @ w1 + b1, 0)
    dz = jax.nn.softmax(h @ w2 + b2, axis=1) - y
    dh = jnp.where(h > 0, dz @ w2.T, 0)
    return (b1 - rate * jnp.sum(dh, axis=0), w2 - rate * (h.T @ dz),
            b2 - rate * jnp.sum(dz, axis=0), w1 - rate * (x.T @ dh))


PROGRAMS = {
    "elementwise": lambda a, b, c, d: jnp.maximum(a * b + c, 0) * d,
    "row_sums": lambda x: jnp.sum(x, axis=1),
    "column_sums": lambda x: jnp.sum(x, axis=0),
    "softmax": lambda x: jax.nn.softmax(x, axis=1),
    "layernorm": layernorm,
    "transpose": lambda x: jnp.copy(x.T),
    "matmul": lambda a, b: a @ b,
    "matmul_t": lambda a, b: a.T @ b,
    "matmul_nt": lambda a, b: a @ b.T,
    "matmul_tt": lambda a, b: a.T @ b.T,
    "matmul_bias_relu": lambda a, b, bias: jnp.maximum(a @ b + bias, 0),
    "conv2d": conv2d,
    "training_step": training_step,
}


def prepare(program, inputs):
    arrays = [jnp.array(each) for each in inputs]
    compiled = jax.jit(program).lower(*arrays).compile()
    return lambda: jax.block_until_ready(compiled(*arrays))


serve(f"jax {jax.__version__}", PROGRAMS, prepare)
