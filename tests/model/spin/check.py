#!/usr/bin/env python3
"""Checks designs with Spin: each model holds in all its states, and each of its mutants does not.

usage: check.py MODEL.pml [MUTANT...]
A mutant is a macro that the model leaves something out for. Needs spin and a C compiler (cc, or
what CC says). Prints the number of states of each; exits with 1 unless all is as it should be, and
with 77 (skipped) where there is no spin.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Acceptance cycles under weak fairness; NFAIR: for up to 14 processes.
GENERATE = ["spin", "-a"]
COMPILE = [*os.environ.get("CC", "cc").split(), "-O1", "-w", "-DNFAIR=3", "-o", "pan", "pan.c"]
RUN = ["./pan", "-a", "-f", "-m1000000"]


def explore(model, mutant):
    """Whether `model` with `mutant` (None: as it is) holds, and its number of states."""
    with tempfile.TemporaryDirectory() as folder:
        generate = GENERATE + ([f"-D{mutant}"] if mutant else []) + [str(model)]
        for command in (generate, COMPILE, RUN):
            done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
        if "max search depth too small" in done.stdout:
            sys.exit(f"{' '.join(RUN)}: too shallow\n{done.stdout}")
    errors = re.search(r"errors: (\d+)", done.stdout)
    states = re.search(r"(\d+(?:\.\d+e\+\d+)?) states, stored", done.stdout)
    if not errors or not states:
        sys.exit(f"{' '.join(RUN)}: cannot be read\n{done.stdout}")
    return errors.group(1) == "0", int(float(states.group(1)))


def main():
    if shutil.which("spin") is None:
        print("no spin here")
        return 77
    model = pathlib.Path(sys.argv[1]).resolve()
    wrong = 0
    for mutant in [None, *sys.argv[2:]]:
        holds, states = explore(model, mutant)
        expected = mutant is None
        wrong += holds != expected
        print(f"{model.stem} {mutant or '(as it is)'}: {'holds' if holds else 'fails'}, {states} "
              f"states{'' if holds == expected else ': WRONG'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
