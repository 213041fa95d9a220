#!/usr/bin/env python3
"""Runs JAX's own cases of operations (jax._src.internal_test_util.test_harnesses) as graphs of
heddle, and compares the results with those of JAX on the CPU: jax_cases.py PROGRAM [PATTERN]

jax_primitives.py translates JAX's traces into the text of graphs, and PROGRAM (run_graphs) runs the
graphs. PATTERN selects the cases whose names contain the text. Whole numbers, truth values, and
floats that are moved, chosen or rounded once have to be equal; other floats have to be near JAX's,
by the precision of their type. NaN equals NaN, and 0 equals -0. The script exits with 1 if a case
differs."""

import argparse
import collections
import os
import struct
import subprocess
import sys
import time
import types
import unittest
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import ml_dtypes
import numpy as np

from graph_text import GraphText, Missing
from jax_primitives import INEXACT, TABLE

TYPES = {"bool": np.dtype(bool), "bf16": np.dtype(ml_dtypes.bfloat16),
         **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
         **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
         **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}}
NAMES = {dtype: name for name, dtype in TYPES.items()}
# The error bounds of compare.py, relative to the larger one of the element and the array's mean.
PRECISION = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 1e-12}
# Primitives that call a jaxpr with their operands, and the parameter that holds the jaxpr.
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
         "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "remat": "jaxpr",
         "checkpoint": "jaxpr"}
# Cases in which heddle promises another value, and the reason.
OTHER_RULES = {"top_k_sort_inf_nan": "NaN of either sign is above all numbers, a negative NaN of "
                                     "JAX's top_k below"}


def load_harnesses():
    """JAX's cases. The module of the cases imports abseil, which only JAX's tests use: empty
    modules take the place of abseil."""
    for name in ("absl", "absl.testing", "absl.testing.absltest", "absl.testing.parameterized"):
        module = sys.modules.setdefault(name, types.ModuleType(name))
        module.TestCase, module.TestLoader = unittest.TestCase, unittest.TestLoader
        outer, _, last = name.rpartition(".")
        if outer:
            setattr(sys.modules[outer], last, module)
    from jax._src import config
    config.parse_flags_with_absl = lambda: None
    jax.config.update("jax_enable_x64", True)
    from jax._src.internal_test_util import test_harnesses
    return test_harnesses.all_harnesses


def type_of(aval):
    """heddle's name of the dtype, and the shape. A key of random numbers becomes a u64."""
    if str(aval.dtype) == "key<fry>":
        return "u64", aval.shape
    try:
        return NAMES[np.dtype(aval.dtype)], aval.shape
    except (KeyError, TypeError):
        raise Missing(f"dtype {aval.dtype}") from None


class Translation:
    """The graph of a closed jaxpr. Constants of the jaxpr are parameters behind the arguments."""

    def __init__(self, closed):
        self.graph = GraphText()
        self.equations = []  # names and parameters
        jaxpr = closed.jaxpr
        known = {v: self.graph.parameter(*type_of(v.aval))
                 for v in (*jaxpr.invars, *jaxpr.constvars)}
        self.results = self.block(jaxpr, known)
        self.text = self.graph.text(self.results)

    def block(self, jaxpr, known):
        for eqn in jaxpr.eqns:
            operands = [self.read(v, known) for v in eqn.invars]
            known.update(zip(eqn.outvars, self.equation(eqn, operands)))
        return [self.read(v, known) for v in jaxpr.outvars]

    def read(self, v, known):
        if not hasattr(v, "val"):
            return known[v]
        dtype, dims = type_of(v.aval)
        return self.graph.constant(np.asarray(v.val).item(), dtype, dims)

    def inner(self, closed, operands):
        """The results of a jaxpr within the jaxpr, whose nodes join the graph."""
        jaxpr, consts = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
        if any(np.ndim(each) for each in consts):
            raise Missing("a call with constant arrays")
        known = dict(zip(jaxpr.invars, operands))
        for v, value in zip(jaxpr.constvars, consts):
            known[v] = self.graph.constant(np.asarray(value).item(), *type_of(v.aval))
        return self.block(jaxpr, known)

    def equation(self, eqn, operands):
        name = eqn.primitive.name
        outs = [type_of(v.aval) for v in eqn.outvars]
        if name in CALLS:
            return self.inner(eqn.params[CALLS[name]], operands)
        if name == "custom_linear_solve":
            lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
            first = lengths.matvec + lengths.vecmat
            own = operands[first:first + lengths.solve] + operands[sum(lengths):]
            return self.inner(jaxprs.solve, own)
        if name not in TABLE:
            raise Missing(f"primitive {name}")
        self.equations.append((name, eqn.params))
        params = types.SimpleNamespace(**eqn.params, outs=outs)
        found = TABLE[name](self.graph, params, *operands)
        found = found if isinstance(found, list) else [found]
        for node, out in zip(found, outs):
            assert (node.dtype, node.dims) == out, (name, node, out)
        return found


class Runner:
    """The program that runs graphs."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self, text, arrays):
        """Sends a case; result() gives the answer."""
        parts = [text.encode(), len(arrays)]
        for array in arrays:
            dims = ",".join(map(str, array.shape))
            parts += [f"{NAMES[array.dtype]}[{dims}]".encode(), array.tobytes()]
        for part in parts:
            self.process.stdin.write(struct.pack("=Q", part) if isinstance(part, int)
                                     else struct.pack("=Q", len(part)) + part)
        self.process.stdin.flush()

    def number(self):
        data = self.process.stdout.read(8)
        if len(data) < 8:
            sys.exit(f"the runner ended with {self.process.wait()}")
        return struct.unpack("=Q", data)[0]

    def bytes(self):
        return self.process.stdout.read(self.number())

    def result(self):
        """Arrays, or the text of an error."""
        count = self.number()
        if count == 2 ** 64 - 1:
            return self.bytes().decode()
        arrays = []
        for _ in range(count):
            name, _, dims = self.bytes().decode()[:-1].partition("[")
            dims = [int(n) for n in dims.split(",") if n]
            arrays.append(np.frombuffer(self.bytes(), TYPES[name]).reshape(dims))
        return arrays


def difference(found, wanted, exact):
    """The first element that differs, in words; None: no element does."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
    same = found == wanted
    if NAMES[found.dtype] in PRECISION:
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        same = (a == b) | np.isnan(a) & np.isnan(b)
        if not exact:
            finite = np.abs(b[np.isfinite(b)])
            scale = np.maximum(np.abs(np.nan_to_num(b, posinf=0, neginf=0)),
                               finite.mean() if finite.size else 1)
            same |= np.abs(a - b) <= PRECISION[NAMES[found.dtype]] * scale
    if np.all(same):
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return f"element {list(at)} is {found[at]}, not {wanted[at]}"


def with_open_order(equations, inputs, results):
    """The results in an order of their own where JAX leaves the order open: among equal elements of
    approx_top_k, and among equal keys of a sort that is not stable."""
    (name, params), *others = equations or [("", {})]
    if others:
        return results
    if name == "approx_top_k":
        return [results[0], np.take_along_axis(inputs[0], np.int64(results[1]), -1)]
    if name == "sort" and not params["is_stable"] and len(results) > params["num_keys"]:
        axis = params["dimension"]
        order = np.lexsort(results[::-1], axis)
        return [*results[:params["num_keys"]],
                *(np.take_along_axis(each, order, axis) for each in results)]
    return results


def first_line(error):
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:60] if lines else ''}"


class Cases:
    """Runs cases, and counts what became of them."""

    def __init__(self, runner):
        self.runner = runner
        self.equal = 0
        self.different = 0
        self.reasons = collections.Counter()

    def case(self, harness):
        for start, reason in OTHER_RULES.items():
            if harness.fullname.startswith(start):
                self.reasons[f"another rule: {reason}"] += 1
                return
        if not harness.filter("cpu"):
            self.reasons["JAX: unimplemented on CPU"] += 1
            return
        args = harness.dyn_args_maker(np.random.RandomState(0))
        try:
            closed = jax.make_jaxpr(harness.dyn_fun)(*args)
        except Exception as error:  # of any kind: JAX refuses the case
            self.reasons[f"JAX: {first_line(error)}"] += 1
            return
        try:
            translation = Translation(closed)
        except Missing as missing:
            self.reasons[f"graphs: {missing}"] += 1
            return
        except Exception as error:  # of any kind: the translation is wrong
            self.fail(harness.fullname, f"the translation: {first_line(error)}")
            return
        inputs = [np.asarray(x).astype(v.aval.dtype) for x, v in
                  zip(jax.tree.leaves(args), closed.jaxpr.invars, strict=True)]
        self.runner.start(translation.text, inputs + [np.asarray(x) for x in closed.consts])
        self.compare(harness, args, inputs, translation.equations)

    def compare(self, harness, args, inputs, equations):
        """JAX computes while the runner does."""
        try:
            wanted = [np.asarray(x) for x in jax.tree.leaves(jax.jit(harness.dyn_fun)(*args))]
        except Exception as error:  # of any kind: JAX refuses the case
            wanted = first_line(error)
        found = self.runner.result()
        if isinstance(wanted, str):
            self.reasons[f"JAX: {wanted}"] += 1
        elif isinstance(found, str):
            self.fail(harness.fullname, found)
        else:
            found, wanted = (with_open_order(equations, inputs, each)
                             for each in (found, wanted))
            exact = INEXACT.isdisjoint(name for name, _ in equations)
            self.judge(harness.fullname, found, wanted, exact)

    def judge(self, name, found, wanted, exact):
        """Reports the first result that differs."""
        for k, (each, other) in enumerate(zip(found, wanted, strict=True)):
            if wrong := difference(each, other, exact):
                self.fail(name, f"result {k}: {wrong}")
                return
        self.equal += 1

    def fail(self, name, text):
        self.different += 1
        print(f"{name}: {text}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.time()
    cases = Cases(Runner(options.program))
    harnesses = [each for each in load_harnesses() if options.pattern in each.fullname]
    for harness in harnesses:
        cases.case(harness)
    ran = cases.equal + cases.different
    print(f"{len(harnesses)} cases of JAX {jax.__version__} in {time.time() - began:.0f} s: {ran} "
          f"ran, {cases.equal} equal, {cases.different} different; the others did not run:")
    for reason, count in cases.reasons.most_common():
        print(f"  {count:5} {reason}")
    sys.exit(1 if cases.different else 0)


main()
