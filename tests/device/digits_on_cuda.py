"""The demo learns the same on two virtual devices of a GPU that stands in for one as on a CPU.

usage: digits_on_cuda.py HEDDLE
"""

import re
import subprocess
import sys


def learned(backend):
    run = subprocess.run(
        [sys.argv[1], "demo", "digits", "--backend", backend, "--devices", "2", "--epochs", "2"],
        check=True, capture_output=True, text=True)
    found = dict(re.findall(r"^(final loss|test loss|test accuracy) +([0-9.]+)", run.stdout, re.M))
    print(backend, found)
    return {name: float(value) for name, value in found.items()}


on_cpu, on_gpu = learned("cc"), learned("cuda")
assert len(on_gpu) == 3, "the demo tells what it learned"
assert on_gpu["test accuracy"] > 0.8
for name, value in on_cpu.items():  # sums are taken in another order
    assert abs(on_gpu[name] - value) <= 0.02 * value, name
