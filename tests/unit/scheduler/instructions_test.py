#!/usr/bin/env python3
"""A task costs no more instructions, from submit() to its end, than the limit: counted by valgrind,
as the difference between two runs, so neither start nor machine matter.

usage: instructions_test.py PROGRAM LIMIT
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NOT_RUN = 77  # to meson
TASKS = (100_000, 300_000)


def instructions(program, tasks, folder):
    profile = pathlib.Path(folder) / f"{tasks}.out"
    ended = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", program, str(tasks)],
        text=True, capture_output=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return int(re.search(r"Collected : (\d+)", ended.stderr).group(1))


def main():
    program, limit = sys.argv[1], float(sys.argv[2])
    if shutil.which("valgrind") is None:
        print("not run: there is no valgrind (Debian: valgrind)")
        return NOT_RUN
    with tempfile.TemporaryDirectory() as folder:
        few, many = (instructions(program, tasks, folder) for tasks in TASKS)
    each = (many - few) / (TASKS[1] - TASKS[0])
    print(f"{each:.1f} instructions for a task from submit to its end (at most {limit:g})")
    assert each <= limit, "see 'Where the time goes' in scheduler/README.md"
    return 0


if __name__ == "__main__":
    sys.exit(main())
