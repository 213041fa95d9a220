"""The models of heddle-bench's written rows in NumPy, which has no erf."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import written_models
from rival_protocol import serve


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def logsumexp(x):
    top = np.max(x, axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


def one_hot(x, count):
    return np.eye(count, dtype=np.float32)[x]


def conv(x, w):
    return np.einsum("nchwij,fcij->nfhw", sliding_window_view(x, w.shape[2:], (2, 3)), w,
                     optimize=True)


def pool(x):
    n, c, h, w = x.shape
    return x[:, :, :h // 2 * 2, :w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def at(how):
    def put(x, places, updates):
        new = x.copy()
        how.at(new, places, updates)
        return new
    return put


WORDS = {
    "softmax": softmax,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "one_hot": one_hot,
    "logsumexp": logsumexp,
    "cast": lambda x, dtype: x.astype(dtype),
    "cummax": np.maximum.accumulate,
    "add_at": at(np.add),
    "min_at": at(np.minimum),
    "max_at": at(np.maximum),
    "conv": conv,
    "pool": pool,
    "normal": lambda key, t, count: np.random.default_rng([int(key), int(t)]).standard_normal(
        count, dtype=np.float32),
    "uniform": lambda key, number, count: np.random.default_rng([int(key), number]).random(
        count, dtype=np.float32),
}


def prepare(program, inputs):
    arrays = [np.array(each) for each in inputs]
    return lambda: program(*arrays)


serve(f"numpy {np.__version__}",
      written_models.programs(np, WORDS, without=("gelu by erf", "Black-Scholes")), prepare)
