#!/usr/bin/env python3
"""Compares what heddle's operations on graphs give with NumPy, and with JAX where that is wanted:
compare.py PROGRAM [--table] [--jax]

PROGRAM (graph_cases) writes what went in and came out. Whole numbers and truth values have to be
equal, and so have floats that only go elsewhere; others near what double gives of the same numbers,
by the precision of their type. NumPy's expressions come from PROGRAM, with the helpers of
numpy_words.py, JAX's from jax_words.py. --table writes the table of operations and element types;
without it the table in docs/ must be that one. Exits with 77 where there is no NumPy."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("no NumPy here: nothing is compared")
    sys.exit(77)

import jax_words
import numpy_words

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "operations-of-graphs.md"
# NumPy has no bf16; every float is converted to f64 anyway.
NAMES = {"f16": "float16", "bf16": "float32", "f32": "float32", "f64": "float64", "bool": "bool",
         **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
         **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}}
# Error bounds relative to the largest nearby result: several roundings of the type.
PRECISION = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 1e-12}

# Operations that only move elements keep their values.
EXACT = ("layout", "indexing", "order")
INEXACT = ("iota", "scatter, add", "scatter, multiply")


def array_of(words):
    """The array; floats as f64."""
    dtype = np.dtype(NAMES[words["dtype"]])
    values = [float(v) if isinstance(v, str) else v for v in words["values"]]
    kind = np.dtype(np.float64) if dtype.kind == "f" else dtype
    return np.array(values, dtype=kind).reshape(words["shape"])


def differs(found, wanted, dtype, exact):
    """What is wrong with an answer; None: nothing."""
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if found.dtype.kind != "f":
        same = found == wanted
    else:
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        limit = {"f16": 65504.0}.get(dtype)
        if limit:  # values that fit double but not the type
            same |= (np.abs(wanted) > limit) & (np.abs(found) == np.inf)
        if not exact:
            finite = np.abs(wanted[np.isfinite(wanted)])
            scale = np.maximum(np.abs(np.nan_to_num(wanted, posinf=0, neginf=0)),
                               np.mean(finite) if finite.size else 1)
            same |= np.abs(found - wanted) <= PRECISION[dtype] * scale
    if same.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return f"element {at} is {found[at]}, not {wanted[at]}"


def in_jax(case, arrays, jax_names):
    """What JAX computes of the case."""
    expression = jax_words.WORDS.get(case["op"], case["numpy"])
    letters = dict(zip("abcdef", [jax_names["np"].asarray(each) for each in arrays]))
    result = eval(expression, {**jax_names, **letters, "dtype": case["dtype"]})
    if not isinstance(result, jax_names["jax"].Array):
        raise TypeError(f"{expression} is no array of JAX")
    return np.asarray(result)


def compare(cases, jax_names):
    """What differs, and how many cases JAX computed, where its names are given."""
    failures = []
    jax_count = 0
    for case in cases:
        arrays = [array_of(each) for each in case["in"]]
        found = array_of(case["out"])
        out = case["out"]["dtype"], case["family"] in EXACT and not case["op"].startswith(INEXACT)
        what = " ".join(filter(None, [case["shape"], case["op"], "of", case["dtype"]]))
        letters = dict(zip("abcdef", arrays))
        with np.errstate(all="ignore"):
            wanted = eval(case["numpy"], {**numpy_words.WORDS, **letters, "dtype": case["dtype"]})
            if wrong := differs(found, wanted, *out):
                failures.append(f"{what}, {case['numpy']} in NumPy: {wrong}")
            if not jax_names or case["op"] in jax_words.MISSING:
                continue
            try:
                wrong = differs(found, in_jax(case, arrays, jax_names), *out)
                jax_count += 1
            except Exception as error:  # of any kind: no case is skipped
                wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if wrong:
            failures.append(f"{what}, in JAX: {wrong}")
    return failures, jax_count


def in_words(op, expression):
    """How the table says what JAX computes."""
    if op in jax_words.MISSING:
        return f"no: {jax_words.MISSING[op]}"
    words = jax_words.WORDS.get(op)
    return "the same" if words in (None, expression) else code(words)


def code(expression):
    return f"`{expression.replace('|', chr(92) + '|')}`"


def table_of(cases):
    """Operations by element types, as docs/ has it."""
    types = ["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
             "bool"]
    shapes = ["scalar", "empty"]
    rows = {}
    for case in cases:
        row = rows.setdefault((case["family"], case["op"]), (case["numpy"], set()))
        row[1].add(case["shape"] or case["dtype"])
    lines = [" | ".join(["| operation | NumPy | JAX", *types, *shapes]) + " |",
             "| --- | --- | --- |" + " --- |" * len(types + shapes)]
    for (_, op), (expression, known) in rows.items():
        marks = " | ".join("yes" if each in known else "" for each in types + shapes)
        lines.append(f"| {op} | {code(expression)} | {in_words(op, expression)} | {marks} |")
    return "\n".join(lines) + "\n"


def jax_version():
    import jax
    return jax.__version__


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
    ops = {case["op"] for case in cases}
    for gone in (jax_words.WORDS.keys() | jax_words.MISSING.keys()) - ops:
        sys.exit(f"jax_words.py has {gone}, which is no operation here")
    failures, jax_count = compare(cases, jax_words.names() if options.jax else None)
    for each in failures:
        print(each)
    print(f"{len(cases)} cases of {len(ops)} rows against NumPy {np.__version__}: "
          f"{len(failures)} differences")
    if options.jax:
        print(f"{jax_count} of them computed by JAX {jax_version()} too; JAX has no")
        for op, why in jax_words.MISSING.items():
            print(f"  {op} ({sum(case['op'] == op for case in cases)} cases): {why}")
    head, mark, _ = DOCUMENT.read_text().partition("<!-- table -->\n")
    whole = head + mark + table_of(cases)
    if options.table:
        DOCUMENT.write_text(whole)
    elif DOCUMENT.read_text() != whole:
        print(f"{DOCUMENT.name} lists other operations: run compare.py with --table")
        sys.exit(1)
    sys.exit(1 if failures else 0)


main()
