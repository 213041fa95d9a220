"""Runs the programs of heddle-bench's kernel rows in JAX, on one thread.

Commands come as lines on standard input, answers go to standard output (rival_jax.cpp):
  {"program": NAME, "arrays": [{"path": P, "shape": [...]}, ...]}   the last array is the result
      compiles, runs once; answers "ready", or "no NAME"
  run N      answers the mean time of a call in ns
  fetch      writes the result to the last array's file; answers "done"
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


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


def main():
    call = result = target = None
    print(f"jax {jax.__version__}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            count = int(words[1])
            start = time.perf_counter_ns()
            for _ in range(count):
                result = jax.block_until_ready(call())
            print((time.perf_counter_ns() - start) / count, flush=True)
        elif words[0] == "fetch":
            last = result[-1] if isinstance(result, tuple) else result
            target[...] = np.asarray(last)
            target.flush()
            print("done", flush=True)
        else:
            command = json.loads(line)
            program = PROGRAMS.get(command["program"])
            if program is None:
                print(f"no {command['program']}", flush=True)
                continue
            maps = [np.memmap(a["path"], np.float32, "r+", shape=tuple(a["shape"]))
                    for a in command["arrays"]]
            target = maps.pop()
            inputs = [jnp.array(m) for m in maps]
            compiled = jax.jit(program).lower(*inputs).compile()
            call = lambda: compiled(*inputs)
            result = jax.block_until_ready(call())
            print("ready", flush=True)


main()
