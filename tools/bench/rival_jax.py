"""The programs of heddle-bench's kernel, training, executor and written rows in JAX, compiled
ahead, on as many threads as XLA_FLAGS says."""

import functools
import operator

import jax
import jax.numpy as jnp
from jax import lax

import written_models
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


def train(x, y, *parameters):
    """One step of gradient descent: the new parameters."""
    weights, biases = parameters[0::2], parameters[1::2]
    rate = 0.01 / x.shape[0]
    active = [x]
    for w, b in zip(weights[:-1], biases[:-1]):
        active.append(jnp.maximum(active[-1] @ w + b, 0))
    d = jax.nn.softmax(active[-1] @ weights[-1] + biases[-1], axis=1) - y
    new = []
    for w, b, h in zip(reversed(weights), reversed(biases), reversed(active)):
        new = [w - rate * (h.T @ d), b - rate * jnp.sum(d, axis=0), *new]
        d = jnp.where(h > 0, d @ w.T, 0)
    return tuple(new)


def attention(q, k, v):
    scores = jnp.einsum("hmd,hnd->hmn", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("hmn,hnd->hmd", jax.nn.softmax(scores, axis=-1), v)


def small(w):
    return (w - 0.5) * 0.05


def transformer_block(x, gain1, bias1, wq, wk, wv, wo, gain2, bias2, up, down):
    heads, shape = 12, x.shape
    normal = layernorm(x, gain1, bias1)
    q, k, v = ((normal @ small(w)).reshape(shape[0], heads, -1).transpose(1, 0, 2)
               for w in (wq, wk, wv))
    attended = x + attention(q, k, v).transpose(1, 0, 2).reshape(shape) @ small(wo)
    wide = jax.nn.gelu(layernorm(attended, gain2, bias2) @ small(up), approximate=False)
    return attended + wide @ small(down)


def add(*x):
    return functools.reduce(operator.add, x)


def update(x):
    return x * jnp.float32(0.999) + jnp.float32(0.001)


def awaited_update(x):
    return update(x)


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
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "attention": attention,
    "embedding": lambda table, rows: table[rows],
    "scatter_add": lambda x, rows, updates: x.at[rows].add(updates),
    "sort": jnp.sort,
    "top_k": lambda x: jax.lax.top_k(x, 64)[0],
    "transformer_block": transformer_block,
    "training_step": training_step,
    "train": train,
    "call": add,
    "awaited_call": lambda *x: add(*x),
    "donated_call": update,
    "donated_update": awaited_update,
}


def prepare_training(inputs):
    """Each call goes on with the parameters of the one before, whose memory it may take."""
    x, y, *state = [jnp.array(each) for each in inputs]
    compiled = (jax.jit(train, donate_argnums=range(2, len(inputs)))
                .lower(x, y, *state).compile())

    def step():
        state[:] = jax.block_until_ready(compiled(x, y, *state))
        return state[1]

    return step


def prepare_call(inputs):
    """Calls as their users write them, which return before their results are there."""
    return functools.partial(jax.jit(add), *[jnp.array(each) for each in inputs])


def prepare_update(program, inputs):
    """Each call goes on with the result of the one before, whose memory it may take."""
    step, state = jax.jit(program, donate_argnums=0), jnp.array(inputs[0])

    def call():
        nonlocal state
        state = step(state)
        return state

    return call if program is update else lambda: jax.block_until_ready(call())


@functools.partial(jax.jit, donate_argnums=(5, 6))
def decode_one(x, wq, wk, wv, wo, keys, values, place):
    heads, longest, depth = keys.shape
    keys = keys.at[:, place].set((x @ wk).reshape(heads, depth))
    values = values.at[:, place].set((x @ wv).reshape(heads, depth))
    scores = jnp.einsum("hsd,hd->hs", keys, (x @ wq).reshape(heads, depth)) * depth ** -0.5
    shares = jax.nn.softmax(jnp.where(jnp.arange(longest) <= place, scores, -jnp.inf))
    return x + jnp.einsum("hs,hsd->hd", shares, values).reshape(1, -1) @ wo, keys, values


def decode():
    """Waits for each token; keys and values stay in their memory."""


def prepare_decode(inputs):
    x, *weights, keys, values = [jnp.array(each) for each in inputs]
    tokens, state = [x[t:t + 1] for t in range(x.shape[0])], [keys, values]
    first = keys.shape[1] - len(tokens)

    def call():
        for t, token in enumerate(tokens):
            y, *state[:] = decode_one(token, *weights, *state, first + t)
            jax.block_until_ready(y)
        return y

    return call


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def random_key(key, data):
    return jax.random.fold_in(jax.random.key(key), data)


PROGRAMS |= written_models.programs(jnp, {
    "softmax": jax.nn.softmax,
    "sigmoid": jax.nn.sigmoid,
    "one_hot": jax.nn.one_hot,
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=1),
    "erf": lax.erf,
    "cast": lambda x, dtype: x.astype(dtype),
    "cummax": lambda x: lax.cummax(x, 0),
    "add_at": lambda x, at, updates: x.at[at].add(updates),
    "min_at": lambda x, at, updates: x.at[at].min(updates),
    "max_at": lambda x, at, updates: x.at[at].max(updates),
    "conv": conv2d,
    "pool": pool,
    "normal": lambda key, t, count: jax.random.normal(random_key(key, t), (count,)),
    "uniform": lambda key, number, count: jax.random.uniform(random_key(key, number), (count,)),
}) | {"decode with a cache": decode}


def prepare(program, inputs):
    if program is decode:
        return prepare_decode(inputs)
    if program is train:
        return prepare_training(inputs)
    if program is add:
        return prepare_call(inputs)
    if program in (update, awaited_update):
        return prepare_update(program, inputs)
    arrays = [jnp.array(each) for each in inputs]
    compiled = jax.jit(program).lower(*arrays).compile()
    return lambda: jax.block_until_ready(compiled(*arrays))


serve(f"jax {jax.__version__}", PROGRAMS, prepare, jax.block_until_ready)
