"""The models of heddle-bench's written rows, as users of NumPy, JAX and PyTorch write them first.

Each takes `np`, a module of array functions or what stands for one (see programs()), and then the
arguments of the model. What the three modules spell differently comes from the rivals' scripts:
softmax(x), sigmoid(x), one_hot(x, count), logsumexp(x), erf(x), cast(x, dtype), pad(x, amounts),
sort(x), cummax(x), split(x, count, axis), add_at(x, at, updates) and min_at, max_at alike,
conv(x, w), pool(x), normal(key, t, count), uniform(key, number, count)."""

import functools
import math


def neighbours_of_product(np, a, b):
    p = a @ b
    return p[:, :-2] + p[:, 1:-1] + p[:, 2:]


def halves_of_product(np, a, b):
    x, y = np.split(a @ b, 2, 1)
    return x * y


def spectrum(np, x, cosines, sines):
    return (x @ cosines) ** 2 + (x @ sines) ** 2


def covariance(np, x):
    centred = x - np.mean(x, axis=0)
    return centred.T @ centred / (x.shape[0] - 1)


def power_iteration(np, x, v):
    for _ in range(10):
        v = x.T @ (x @ v)
        v = v / np.sqrt(np.sum(v * v))
    return v


def lstm(np, x, by_input, by_state, bias):
    h = c = np.zeros(x.shape[1:], dtype=np.float32)
    for t in range(x.shape[0]):
        i, f, g, o = np.split(x[t] @ by_input + h @ by_state + bias, 4, 1)
        c = np.sigmoid(f) * c + np.sigmoid(i) * np.tanh(g)
        h = np.sigmoid(o) * np.tanh(c)
    return h


def conv_net(np, x, first, second, last):
    for w in (first, second):
        x = np.pool(np.clip(np.conv(x, w), 0, None))
    return x.reshape(x.shape[0], -1) @ last


def perceptron_step(np, x, labels, w1, b1, w2, b2):
    rate = 0.1
    h = np.clip(x @ w1 + b1, 0, None)
    dz = (np.softmax(h @ w2 + b2) - np.one_hot(labels, b2.shape[0])) / x.shape[0]
    dh = np.where(h > 0, dz @ w2.T, 0.0)
    return (w1 - rate * (x.T @ dh), b1 - rate * np.sum(dh, axis=0), w2 - rate * (h.T @ dz),
            b2 - rate * np.sum(dz, axis=0))


def regression_step(np, x, labels, w, b):
    rate = 0.1
    dz = (np.softmax(x @ w + b) - np.one_hot(labels, b.shape[0])) / x.shape[0]
    return w - rate * (x.T @ dz), b - rate * np.sum(dz, axis=0)


def attention_block(np, x, gain, shift, wq, wk, wv, wo):
    apart = x - np.mean(x, axis=1, keepdims=True)
    normal = apart / np.sqrt(np.mean(apart * apart, axis=1, keepdims=True) + 1e-5) * gain + shift
    q, k, v = ((normal @ w).reshape(x.shape[0], 4, -1).swapaxes(0, 1) for w in (wq, wk, wv))
    shares = np.softmax(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2]))
    return x + (shares @ v).swapaxes(0, 1).reshape(x.shape) @ wo


def decode(np, x, wq, wk, wv, wo, keys, values):
    """In place, as NumPy and PyTorch can."""
    heads, longest, depth = keys.shape
    for t in range(x.shape[0]):
        place = longest - x.shape[0] + t
        keys[:, place] = (x[t] @ wk).reshape(heads, depth)
        values[:, place] = (x[t] @ wv).reshape(heads, depth)
        q = (x[t] @ wq).reshape(heads, depth, 1)
        scores = (keys[:, :place + 1] @ q)[:, :, 0] / math.sqrt(depth)
        mixed = np.softmax(scores)[:, None] @ values[:, :place + 1]
        y = x[t:t + 1] + mixed.reshape(1, -1) @ wo
    return y


def gravity(np, p):
    d = p[None] - p[:, None]
    r2 = np.sum(d * d, axis=2, keepdims=True) + 0.01
    return np.sum(d / (r2 * np.sqrt(r2)), axis=1)


def lennard_jones(np, p):
    d = p[:, None] - p[None]
    r2 = np.sum(d * d, axis=2, keepdims=True)
    inverse = np.where(r2 > 0, 1 / r2, 0.0)
    sixth = inverse ** 3
    return np.sum(24 * (2 * sixth * sixth - sixth) * inverse * d, axis=1)


def neighbours_by_take(np, x):
    i = np.arange(x.shape[0])
    left, right = x[np.clip(i - 1, 0, None)], x[np.clip(i + 1, None, x.shape[0] - 1)]
    return 0.25 * left + 0.5 * x + 0.25 * right


def neighbours_by_pad(np, x):
    p = np.pad(x, [(1, 1)])
    return 0.25 * p[:-2] + 0.5 * x + 0.25 * p[2:]


def four_neighbours(np, u):
    p = np.pad(u, [(1, 1), (1, 1)])
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]


def wave(np, u, before):
    return 2 * u - before + 0.1 * (four_neighbours(np, u) - 4 * u)


def cloth(np, p, a, b):
    d = p[b] - p[a]
    length = np.sqrt(np.sum(d * d, axis=1, keepdims=True))
    pull = 10 * (length - 0.1) / length * d
    return np.add_at(np.add_at(np.zeros_like(p), a, pull), b, -pull)


def kalman(np, x, p, f, q, h, r, z):
    x = f @ x
    p = f @ p @ f.T + q
    gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    return x + gain @ (z - h @ x), p - gain @ h @ p


def spread(np, x, a):
    mu = np.mean(x)
    return np.sum((x - mu) ** 2) + (mu - a) ** 2


def pi_by_chance(np, key):
    a, b = np.uniform(key, 0, 1_000_000), np.uniform(key, 1, 1_000_000)
    return 4 * np.mean(np.cast(a * a + b * b < 1, np.float32))


def black_scholes(np, spot, strike, years):
    def below(x):
        return 0.5 * (1 + np.erf(x / math.sqrt(2)))
    rate, sigma = 0.02, 0.3
    width = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma ** 2) * years) / width
    return spot * below(d1) - strike * np.exp(-rate * years) * below(d1 - width)


def moving_average(np, x):
    sums = np.cumsum(x, axis=1)
    return (sums[:, 20:] - sums[:, :-20]) / 20


def linear_regression(np, x, y, w):
    for _ in range(20):
        w = w - 0.1 * (x.T @ (x @ w - y)) / x.shape[0]
    return w


def k_means(np, points, centres):
    apart = points[:, None] - centres[None]
    nearest = np.argmin(np.sum(apart * apart, axis=2), axis=1)
    sums = np.add_at(np.zeros_like(centres), nearest, points)
    counts = np.add_at(np.zeros(centres.shape[0], dtype=np.float32), nearest, 1.0)[:, None]
    return np.where(counts > 0, sums / np.clip(counts, 1, None), centres)


def group_sums(np, of, x):
    return np.add_at(np.zeros(64, dtype=np.float32), of, x)


def aggregates(np, of, x):
    zero = np.zeros(64, dtype=np.float32)
    return (np.add_at(zero, of, 1.0), np.add_at(zero, of, x), np.add_at(zero, of, x * x),
            np.min_at(zero + math.inf, of, x), np.max_at(zero - math.inf, of, x))


def histogram(np, x):
    return np.add_at(np.zeros(256, dtype=np.int32), np.cast(x * 256, np.int64), 1)


def page_rank(np, source, target, rank, degree):
    got = np.add_at(np.zeros_like(rank), target, (rank / degree)[source])
    return 0.15 / rank.shape[0] + 0.85 * got


def search_level(np, source, target, frontier, visited):
    reached = np.max_at(np.zeros_like(frontier), target, frontier[source])
    return reached & ~visited, reached | visited


def components(np, source, target, label):
    return np.min_at(np.min_at(label, target, label[source]), source, label[target])


def trigrams(np, text):
    x = np.cast(text, np.int64)
    return np.add_at(np.zeros(4096, dtype=np.int32),
                     ((x[:-2] * 31 + x[1:-1]) * 31 + x[2:]) % 4096, 1)


def edit_distances(np, before, letters, letter):
    inserted, changed = before + 1, before[:-1] + np.cast(letters != letter, np.int32)
    best = np.concatenate([inserted[:1], np.minimum(inserted[1:], changed)])
    j = np.arange(before.shape[0], dtype=np.int32)
    return j - np.cummax(j - best)


def blur(np, x):
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    p = np.pad(x, [(2, 2), (0, 0)])
    down = sum(w * p[k:k + x.shape[0]] for k, w in enumerate(weights))
    p = np.pad(down, [(0, 0), (2, 2)])
    return sum(w * p[:, k:k + x.shape[1]] for k, w in enumerate(weights))


def sobel(np, x):
    p = np.pad(x, [(1, 1), (1, 1)])

    def at(i, j):
        return p[i:i + x.shape[0], j:j + x.shape[1]]

    gx = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0)
    gy = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2)
    return np.sqrt(gx * gx + gy * gy)


def resize(np, x):
    along = np.arange(384, dtype=np.float32) * (511 / 383)
    low = np.floor(along)
    share, place = along - low, np.cast(low, np.int64)
    after = np.clip(place + 1, None, 511)
    rows = x[place] + (x[after] - x[place]) * share[:, None]
    return rows[:, place] + (rows[:, after] - rows[:, place]) * share


def mandelbrot(np, real, imaginary):
    x, y = real[None], imaginary[:, None]
    a = b = steps = np.zeros((256, 256), dtype=np.float32)
    for _ in range(50):
        steps = steps + np.cast(a * a + b * b <= 4, np.float32)
        a, b = a * a - b * b + x, 2 * a * b + y
    return steps


def game_of_life(np, cells):
    p = np.pad(cells, [(1, 1), (1, 1)])
    rows, columns = cells.shape
    alive = sum(p[i:i + rows, j:j + columns] for i in range(3) for j in range(3)) - cells
    return np.cast((alive == 3) | ((alive == 2) & (cells == 1)), np.int32)


MODELS = {
    "one product": lambda np, a, b: a @ b,
    "sum of two products": lambda np, a, b, c, d: a @ b + c @ d,
    "larger of two products": lambda np, a, b, c, d: np.maximum(a @ b, c @ d),
    "mean of a product": lambda np, a, b: np.mean(a @ b),
    "row sums of a product": lambda np, a, b: np.sum(a @ b, axis=1),
    "column sums of a product": lambda np, a, b: np.sum(a @ b, axis=0),
    "three neighbours in a product": neighbours_of_product,
    "halves of a product, multiplied": halves_of_product,
    "squared error of a product": lambda np, x, w, y: np.mean((x @ w - y) ** 2),
    "hinge loss of a product": lambda np, x, w, y: np.mean(np.clip(1 - y * (x @ w), 0, None)),
    "spectrum by products": spectrum,
    "covariance matrix": covariance,
    "power iteration, 10 steps": power_iteration,
    "LSTM, 100 steps": lstm,
    "convolution net": conv_net,
    "step of a perceptron": perceptron_step,
    "step of a softmax regression": regression_step,
    "norm and attention": attention_block,
    "decode with a cache": decode,
    "mean of embeddings": lambda np, table, rows: np.mean(table[rows], axis=1),
    "gelu by erf": lambda np, x: 0.5 * x * (1 + np.erf(x / math.sqrt(2))),
    "gravity of all pairs": gravity,
    "Lennard-Jones of all pairs": lennard_jones,
    "neighbours by take": neighbours_by_take,
    "neighbours by pad and slices": neighbours_by_pad,
    "step of heat": lambda np, u: 0.25 * four_neighbours(np, u),
    "step of a wave": wave,
    "springs of a cloth": cloth,
    "step of a Kalman filter": kalman,
    "squares around the mean, and bias": spread,
    "normal numbers, fold_in(key, t)": lambda np, key, t: np.normal(key, t, 1_000_000),
    "pi by chance": pi_by_chance,
    "Black-Scholes": black_scholes,
    "cumulative returns": lambda np, x: np.cumprod(1 + x, axis=0) - 1,
    "moving average by cumsum": moving_average,
    "linear regression, 20 steps": linear_regression,
    "argmax": lambda np, x: np.argmax(x),
    "sorted rows": lambda np, x: np.sort(x),
    "x to the power of 1.5": lambda np, x: x ** 1.5,
    "step of k-means": k_means,
    "logsumexp of rows": lambda np, x: np.logsumexp(x),
    "group sums by one_hot": lambda np, of, x: x @ np.one_hot(of, 64),
    "group sums by scatter": group_sums,
    "five aggregates by scatter": aggregates,
    "histogram": histogram,
    "step of page rank": page_rank,
    "level of a breadth-first search": search_level,
    "round of connected components": components,
    "count of trigrams": trigrams,
    "row of edit distances": edit_distances,
    "blur, 5x5 by axes": blur,
    "Sobel edges": sobel,
    "bilinear resize": resize,
    "Mandelbrot, 50 steps": mandelbrot,
    "game of life": game_of_life,
}


class Both:
    """The words of a rival's script, and the names of its module."""

    def __init__(self, module, words):
        self.__dict__.update(words)
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)


def programs(module, words, without=()):
    """Each model by its name, as a function of its arguments."""
    np = Both(module, words)
    return {name: functools.partial(model, np) for name, model in MODELS.items()
            if name not in without}
