"""The programs of heddle-bench's kernel, training and executor rows in PyTorch, as its users write
them where time counts (functions that do several steps at once, intermediate results overwritten),
and those of the written rows, as they write them first. On as many threads as OMP_NUM_THREADS
says."""

import dataclasses
import functools
import operator
import os

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes beside this one

import torch
import torch.nn.functional as F

import written_models
from rival_protocol import serve


def training_step(x, y, w1, b1, w2, b2, *_):
    rate = 0.1 / x.shape[0]
    h = torch.addmm(b1, x, w1).relu_()
    dz = torch.softmax(torch.addmm(b2, h, w2), 1) - y
    dh = (dz @ w2.t()).mul_(h > 0)
    return (b1 - rate * torch.sum(dh, 0), torch.addmm(w2, h.t(), dz, alpha=-rate),
            b2 - rate * torch.sum(dz, 0), torch.addmm(w1, x.t(), dh, alpha=-rate))


def train(x, y, *parameters):
    """One step of gradient descent; overwrites the parameters and returns the first bias."""
    weights, biases = parameters[0::2], parameters[1::2]
    rate = 0.01 / x.shape[0]
    active = [x]
    for w, b in zip(weights[:-1], biases[:-1]):
        active.append(torch.addmm(b, active[-1], w).relu_())
    d = torch.softmax(torch.addmm(biases[-1], active[-1], weights[-1]), 1).sub_(y)
    for w, b, h in zip(reversed(weights), reversed(biases), reversed(active)):
        below = None if h is x else (d @ w.t()).mul_(h > 0)
        w.addmm_(h.t(), d, alpha=-rate)
        b.sub_(torch.sum(d, 0), alpha=rate)
        d = below
    return biases[0]


def small(w):
    return (w - 0.5) * 0.05


def transformer_block(x, gain1, bias1, wq, wk, wv, wo, gain2, bias2, up, down):
    heads, shape = 12, x.shape
    normal = F.layer_norm(x, shape[1:], gain1, bias1, 1e-5)
    q, k, v = ((normal @ small(w)).view(shape[0], heads, -1).transpose(0, 1).unsqueeze(0)
               for w in (wq, wk, wv))
    mixed = F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).reshape(shape)
    attended = torch.addmm(x, mixed, small(wo))
    wide = F.gelu(F.layer_norm(attended, shape[1:], gain2, bias2, 1e-5) @ small(up))
    return torch.addmm(attended, wide, small(down))


def add(*x):
    return functools.reduce(operator.add, x)


def compiled_add(*x):
    total = x[0]
    for each in x[1:]:
        total = total + each
    return total


def update(x):
    return x.mul_(0.999).add_(0.001)


@dataclasses.dataclass
class Compiled:
    call: object


PROGRAMS = {
    "elementwise": lambda a, b, c, d: torch.addcmul(c, a, b).relu_().mul_(d),
    "row_sums": lambda x: torch.sum(x, 1),
    "column_sums": lambda x: torch.sum(x, 0),
    "softmax": lambda x: torch.softmax(x, 1),
    "layernorm": lambda x, gain, bias: F.layer_norm(x, x.shape[1:], gain, bias, 1e-5),
    "transpose": lambda x: x.t().contiguous(),
    "matmul": torch.matmul,
    "matmul_t": lambda a, b: torch.mm(a.t(), b),
    "matmul_nt": lambda a, b: torch.mm(a, b.t()),
    "matmul_tt": lambda a, b: torch.mm(a.t(), b.t()),
    "matmul_bias_relu": lambda a, b, bias: torch.addmm(bias, a, b).relu_(),
    "conv2d": F.conv2d,
    "gelu": F.gelu,
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0],
    "embedding": lambda table, rows: F.embedding(rows, table),
    "scatter_add": lambda x, rows, updates: x.index_add(0, rows, updates),
    "sort": lambda x: torch.sort(x, stable=True)[0],
    "top_k": lambda x: torch.topk(x, 64)[0],
    "transformer_block": transformer_block,
    "training_step": training_step,
    "train": train,
    "call": add,
    "awaited_call": add,
    "donated_call": update,
    "donated_update": update,
}

# As users write them who leave the steps to the compiler.
COMPILED = {"call": compiled_add, "elementwise": lambda a, b, c, d: torch.relu(a * b + c) * d}
COMPILED |= {name: PROGRAMS[name] for name in (
    "row_sums", "column_sums", "softmax", "layernorm", "transpose", "matmul", "conv2d", "gelu")}
PROGRAMS |= {f"compiled_{name}": Compiled(program) for name, program in COMPILED.items()}


def at(how):
    def put(x, places, updates):
        updates = torch.as_tensor(updates, dtype=x.dtype)
        if updates.ndim == 0:
            updates = updates.expand(places.shape)
        if how == "sum":
            return x.index_add(0, places, updates)
        if x.dtype == torch.bool:  # has no largest
            return put(x.to(torch.uint8), places, updates).to(torch.bool)
        return x.scatter_reduce(0, places, updates, how)
    return put


def drawn(draw):
    def of(key, number, count):
        generator = torch.Generator().manual_seed(int(key) * 1000 + int(number))
        return draw(count, generator=generator)
    return of


PROGRAMS |= written_models.programs(torch, {
    "softmax": lambda x: torch.softmax(x, -1),
    "one_hot": lambda x, count: F.one_hot(x, count).float(),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "cast": lambda x, dtype: x.to(dtype),
    "cummax": lambda x: torch.cummax(x, 0)[0],
    "pad": lambda x, amounts: F.pad(x, [n for each in reversed(amounts) for n in each]),
    "sort": lambda x: torch.sort(x)[0],
    "split": torch.chunk,
    "add_at": at("sum"),
    "min_at": at("amin"),
    "max_at": at("amax"),
    "conv": F.conv2d,
    "pool": lambda x: F.max_pool2d(x, 2),
    "normal": drawn(torch.randn),
    "uniform": drawn(torch.rand),
})


def prepare(program, inputs):
    tensors = [torch.from_numpy(each.copy()) for each in inputs]
    if program is add:
        return functools.partial(functools.reduce, operator.add, tensors)
    if isinstance(program, Compiled):
        torch._dynamo.reset()  # another shape is another program
        compiled = torch.compile(program.call, fullgraph=True, dynamic=False)
        return functools.partial(compiled, *tensors)
    return lambda: program(*tensors)


torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
with torch.inference_mode():
    serve(f"torch {torch.__version__}", PROGRAMS, prepare)
