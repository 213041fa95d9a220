#!/usr/bin/env python3
"""Compares what heddle's operations on graphs give with NumPy, and with JAX where that is wanted:
compare.py PROGRAM [--table FILE] [--jax]

PROGRAM (graph_cases) writes what went in and came out. Whole numbers and truth values have to be
equal; floats near what double gives of the same numbers, by the precision of their type. --table
writes the table of operations and element types; without it the table in docs/ must be that one.
Exits with 77 where there is no NumPy."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("no NumPy here: nothing is compared")
    sys.exit(77)

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "operations-of-graphs.md"
# NumPy has no bf16; all floats are made f64 anyway.
NAMES = {"f16": "float16", "bf16": "float32", "f32": "float32", "f64": "float64", "bool": "bool",
         **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
         **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}}
# Of results, relative to the largest that is near: several roundings of the type.
PRECISION = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 1e-12}

erf = np.vectorize(math.erf, otypes=[np.float64])


def array_of(words):
    """The array; floats as f64."""
    dtype = np.dtype(NAMES[words["dtype"]])
    values = [float(v) if isinstance(v, str) else v for v in words["values"]]
    kind = np.dtype(np.float64) if dtype.kind == "f" else dtype
    return np.array(values, dtype=kind).reshape(words["shape"])


# What NumPy has no single word for.

def softmax(x):
    x = np.float64(x)
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def spread(x, value):
    """With `value` between each two of the last axis."""
    out = np.full((x.shape[0], 2 * x.shape[1] - 1), value, x.dtype)
    out[:, ::2] = x
    return out


def windows(x, size, step):
    all_of_them = np.lib.stride_tricks.sliding_window_view(x, size)
    return all_of_them[::step[0], ::step[1]]


def conv(x, w, step, padding, dilation, groups):
    axes = len(step)
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    wide = [dilation[k] * (w.shape[2 + k] - 1) + 1 for k in range(axes)]
    found = [(x.shape[2 + k] - wide[k]) // step[k] + 1 for k in range(axes)]
    out = np.zeros((x.shape[0], w.shape[0], *found))
    per_group = w.shape[1]
    for place in np.ndindex(*found):
        at = tuple(slice(p * s, p * s + n, d)
                   for p, s, n, d in zip(place, step, wide, dilation))
        for f in range(w.shape[0]):
            first = f // (w.shape[0] // groups) * per_group
            part = x[(slice(None), slice(first, first + per_group), *at)]
            out[(slice(None), f, *place)] = np.sum(part * w[f], axis=tuple(range(1, axes + 2)))
    return out


def conv_transposed(x, w, step):
    size = (x.shape[2] - 1) * step + w.shape[2]
    out = np.zeros((x.shape[0], w.shape[1], size))
    for p in range(x.shape[2]):
        out[:, :, p * step:p * step + w.shape[2]] += np.einsum("nf,fck->nck", x[:, :, p], w)
    return out


def updated(x, update, row, column):
    out = x.copy()
    out[row:row + update.shape[0], column:column + update.shape[1]] = update
    return out


def scattered(x, rows, updates, how):
    out = x.copy()
    apply = {"set": lambda a, b: b, "add": np.add, "multiply": np.multiply,
             "maximum": np.maximum, "minimum": np.minimum}[how]
    for row, update in zip(rows, updates):
        if 0 <= row < x.shape[0]:
            out[row] = apply(out[row], update)
    return out


def differs(found, wanted, dtype):
    """What is wrong with an answer; None: nothing."""
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, NumPy has {wanted.shape}"
    if found.dtype.kind != "f":
        same = found == wanted.astype(found.dtype)
    else:
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = np.maximum(np.abs(np.nan_to_num(wanted, posinf=0, neginf=0)), np.mean(finite)
                           if finite.size else 1)
        near = np.abs(found - wanted) <= PRECISION[dtype] * scale
        same = near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        limit = {"f16": 65504.0}.get(dtype)
        if limit:  # what double holds and the type does not
            same |= (np.abs(wanted) > limit) & (np.abs(found) == np.inf)
    if same.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return f"element {at} is {found[at]}, NumPy has {wanted[at]}"


def names_for(case, arrays):
    here = dict(zip("abcdef", arrays))
    here.update(np=np, erf=erf, softmax=softmax, spread=spread, windows=windows, conv=conv,
                conv_transposed=conv_transposed, updated=updated, scattered=scattered)
    return here


def compare(cases, use_jax):
    failures = []
    jax_count = 0
    if use_jax:
        import jax
        jax.config.update("jax_enable_x64", True)
        import jax.numpy as jnp
    for case in cases:
        arrays = [array_of(each) for each in case["in"]]
        found = array_of(case["out"])
        dtype = case["out"]["dtype"]
        what = f"{case['op']} of {case['dtype']}"
        with np.errstate(all="ignore"):
            wanted = eval(case["numpy"], names_for(case, arrays))
            if wrong := differs(found, wanted, dtype):
                failures.append(f"{what}, {case['numpy']}: {wrong}")
        if not use_jax:
            continue
        try:  # where JAX knows the same words
            here = names_for(case, [jnp.array(each) for each in arrays])
            here["np"] = jnp
            wanted = np.asarray(eval(case["numpy"], here))
        except (TypeError, AttributeError, NotImplementedError, ValueError, IndexError):
            continue
        jax_count += 1
        if wrong := differs(found, wanted, dtype):
            failures.append(f"{what}, in JAX: {wrong}")
    return failures, jax_count


def table_of(cases):
    """Operations by element types, as docs/ has it."""
    types = ["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
             "bool"]
    rows = {}
    for case in cases:
        rows.setdefault((case["family"], case["op"]), (case["numpy"], set()))[1].add(case["dtype"])
    lines = ["| operation | NumPy | " + " | ".join(types) + " |",
             "| --- | --- |" + " --- |" * len(types)]
    for (_, op), (expression, known) in rows.items():
        marks = " | ".join("yes" if each in known else "" for each in types)
        lines.append(f"| {op} | `{expression.replace('|', chr(92) + '|')}` | {marks} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--jax", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "cases"
        subprocess.run([options.program, str(path)], check=True)
        cases = [json.loads(line) for line in path.read_text().splitlines()]
    failures, jax_count = compare(cases, options.jax)
    for each in failures:
        print(each)
    print(f"{len(cases)} cases against NumPy {np.__version__}"
          + (f", {jax_count} of them against JAX" if options.jax else "")
          + f": {len(failures)} differ")
    head, mark, _ = DOCUMENT.read_text().partition("<!-- table -->\n")
    whole = head + mark + table_of(cases)
    if options.table:
        DOCUMENT.write_text(whole)
    elif DOCUMENT.read_text() != whole:
        print(f"{DOCUMENT.name} lists other operations: run compare.py with --table")
        sys.exit(1)
    sys.exit(1 if failures else 0)


main()
