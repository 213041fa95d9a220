"""Errors of long reductions, beside NumPy's, against exact sums: a table in Markdown.

Usage: sums.py PROGRAM [TERMS [TYPE]]. Exits with 1 where an error is larger than blocks of terms
have it (docs/contract.md, W4). An error is relative to the exact value, in units of the type's
epsilon, the largest of the case's results; for logsumexp, of the sum within.
"""
import json
import subprocess
import sys

import numpy as np

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-23, "bf16": 2.0**-23}
MOST = 64  # epsilons: a sequential sum of some thousand terms exceeds the bound


def elements(count, dtype):
    """What sums.cpp makes, in the type that NumPy sums in."""
    k = np.arange(count, dtype=np.uint32)
    mixed = (k ^ (k >> np.uint32(15))) * np.uint32(2654435761)
    bits = (mixed ^ (mixed >> np.uint32(13))) >> np.uint32(8)
    x = bits.astype(np.float32) / np.float32(1 << 24)
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        words = x.view(np.uint32)
        rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
        return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return x.astype(np.float64) if dtype == "f64" else x


def reduced(name, x, axes):
    if name == "sum":
        return np.sum(x, axes)
    if name == "mean":
        return np.mean(x, axes)
    if name == "variance":
        return np.var(x, axes)
    if name == "sum of squares":
        return np.sum(x * x, axes)
    return np.log(np.sum(np.exp(x - 1), axes)) + 1


def exact(name, x, axes):
    """In the host's longest type, a part of the array at a time."""
    wide = np.longdouble
    parts = np.array_split(x, max(1, x.size >> 22), axis=max(axes, key=lambda a: x.shape[a]))

    def total(f):
        sums = [np.sum(f(part.astype(wide)), axes, keepdims=True) for part in parts]
        return sum(sums[1:], sums[0])

    count = np.prod([x.shape[a] for a in axes])
    if name == "sum":
        return total(lambda v: v)
    if name == "mean":
        return total(lambda v: v) / count
    if name == "variance":
        middle = total(lambda v: v) / count
        return total(lambda v: (v - middle) ** 2) / count
    if name == "sum of squares":
        return total(lambda v: v * v)
    return np.log(total(np.exp))


def error(name, found, true, epsilon):
    found = np.asarray(found, dtype=np.longdouble).reshape(-1)
    true = true.reshape(-1)
    if name == "logsumexp":
        return float(np.max(np.abs(np.expm1(found - true))) / epsilon)
    return float(np.max(np.abs(found - true) / np.abs(true)) / epsilon)


def main():
    terms = sys.argv[2] if len(sys.argv) > 2 else str(1 << 20)
    lines = subprocess.run([sys.argv[1], terms, *sys.argv[3:]], capture_output=True, text=True)
    if lines.returncode != 0:
        sys.exit(lines.stderr or f"{sys.argv[1]} ended with {lines.returncode}")
    worst = {}
    for line in lines.stdout.splitlines():
        case = json.loads(line)
        dims, axes, name = case["dims"], tuple(case["axes"]), case["reduction"]
        x = elements(int(np.prod(dims)), case["dtype"]).reshape(dims)
        if case["turned"]:
            x = x.T
        true, epsilon = exact(name, x, axes), EPSILON[case["dtype"]]
        row = worst.setdefault((case["shape"], case["dtype"]), [])
        row.append((error(name, case["values"], true, epsilon),
                    error(name, reduced(name, x, axes), true, epsilon)))
    names = ["sum", "mean", "variance", "sum of squares", "logsumexp"]
    print(f"{terms} terms, NumPy {np.__version__}; errors in epsilons: heddle's, NumPy's\n")
    print("| shape | type | " + " | ".join(names) + " |\n|" + " --- |" * (2 + len(names)))
    for (shape, dtype), errors in worst.items():
        cells = " | ".join(f"{ours:.3g}, {numpys:.3g}" for ours, numpys in errors)
        print(f"| {shape} | {dtype} | {cells} |")
    return 1 if any(ours > MOST for errors in worst.values() for ours, _ in errors) else 0


if __name__ == "__main__":
    sys.exit(main())
