#!/usr/bin/env python3
"""Prints 'N passed, N failed, N skipped' over the single tests of a meson test log, and each
skipped one with its reason: GoogleTest's own where a program is one of its, else one a program.
Names the programs that took longer than tests/budgets.txt gives them, and those without a budget.
usage: summary.py testlog.json [plain | asan | tsan]

Exits with 1 when a test failed, none ran at all, or, where the variable CI is set, one was skipped
that tests/skips.txt does not expect to be skipped on this machine, or a program has no budget or
went beyond it."""
import ctypes.util
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tiers import BUDGETS, budget_of, read_budgets

SKIPS = BUDGETS.parent / "skips.txt"
LARGE_TEST_BYTES = 9 << 30


def answers(*command):
    """Whether the command ends well."""
    try:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        return False


def first_number(path, pattern):
    match = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8"))
    return int(match.group(1)) if match else 0


def processor_has(*flags):
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return all(re.search(rf"\b{flag}\b", text) for flag in flags)


def has_gccjit():
    asked = subprocess.run(["gcc", "-print-file-name=include/libgccjit.h"], text=True, check=False,
                           stdout=subprocess.PIPE)
    return os.path.isabs(asked.stdout.strip())


def has_nvrtc():
    return ("HEDDLE_TEST_NVRTC" in os.environ or
            any(pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so*")) or
            ctypes.util.find_library("nvrtc") is not None)


def has_pocl():
    return (pathlib.Path("/etc/OpenCL/vendors/pocl.icd").exists() and
            ctypes.util.find_library("OpenCL") is not None)


# What a machine may lack. Asked of the machine, not of the test: a test that skips where it could
# run is not excused.
CONDITIONS = {
    "no-clang": lambda: not (shutil.which("clang-19") or shutil.which("clang")),
    "no-root": lambda: os.geteuid() != 0,
    "no-mount": lambda: not answers("unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp"),
    "no-seccomp": lambda: not pathlib.Path("/proc/sys/kernel/seccomp/actions_avail").exists(),
    "no-vectors": lambda: not processor_has("avx2", "fma"),
    "no-gccjit": lambda: not has_gccjit(),
    "little-memory": lambda: (first_number("/proc/meminfo", r"MemAvailable: *(\d+) kB") << 10) <
                             LARGE_TEST_BYTES,
    "no-nvrtc": lambda: not has_nvrtc(),
    "no-pocl": lambda: not has_pocl(),
    "no-valgrind": lambda: not shutil.which("valgrind"),
    "no-spin": lambda: not shutil.which("spin"),
    "one-processor": lambda: len(os.sched_getaffinity(0)) < 2,
}


def counts(test):
    """(passed, failed, skipped) of one line of the log."""
    out = test.get("stdout", "") or ""
    ended = {word: sum(map(int, re.findall(rf"^\[ *{word} *\] (\d+) test", out, re.MULTILINE)))
             for word in ("PASSED", "FAILED", "SKIPPED")}
    fine = test["result"] in ("OK", "SKIP", "EXPECTEDFAIL")
    if "[==========]" in out and re.search(r"^\[ *(PASSED|FAILED) *\] \d+ test", out, re.MULTILINE):
        # One that dies after its last test (a leak, a sanitizer's report) failed all the same.
        died = not fine and not ended["FAILED"]
        return ended["PASSED"], ended["FAILED"] + died, ended["SKIPPED"]
    return test["result"] in ("OK", "EXPECTEDFAIL"), not fine, test["result"] == "SKIP"


def skips(test):
    """(name, reason) of each skipped test of one line of the log."""
    out = test.get("stdout", "") or ""
    found = [(name, reason.strip() or "(no reason)") for name, reason in re.findall(
        r"^\[ RUN +\] (\S+)\n(?:(?!\[ RUN)[^\n]*\n)*?[^\n]*: Skipped\n((?:(?!\[)[^\n]*\n)*)", out,
        re.MULTILINE)]
    if not found and test["result"] == "SKIP":
        said = (out + "\n" + (test.get("stderr", "") or "")).strip().splitlines()
        found = [(test["name"].split(" / ")[-1], said[-1].strip() if said else "(no reason)")]
    return found


def read_rules(text):
    """(condition, patterns of tests, pattern of reasons) a line."""
    rules = []
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        condition, tests, reason = (part.strip() for part in line.split("|"))
        if condition not in CONDITIONS:
            sys.exit(f"{SKIPS}: '{condition}' is no condition; there are {', '.join(CONDITIONS)}")
        rules.append((condition, [pattern.strip() for pattern in tests.split(",")], reason))
    return rules


def is_expected(name, reason, rules):
    return any(fnmatch.fnmatchcase(reason.splitlines()[0], said) and CONDITIONS[condition]()
               for condition, tests, said in rules
               if any(fnmatch.fnmatchcase(name, test) for test in tests))


def tell_budgets(tests, build, budgets) -> int:
    """How many programs have no budget, or went beyond it."""
    wrong = 0
    for test in sorted(tests, key=lambda test: test["name"]):
        budget = budget_of(test["name"], build, budgets)
        if budget is None:
            wrong += 1
            print(f"no budget: {test['name']}: give it a row in tests/budgets.txt")
        elif test.get("duration", 0) > budget[1]:
            wrong += 1
            print(f"over budget: {test['name']}: {test['duration']:.0f} s of {budget[1]:.0f} s")
    return wrong


def main(log, rules, strict, build="plain", budgets=None) -> int:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    tests = [json.loads(line) for line in lines]
    passed, failed, skipped = map(sum, zip((0, 0, 0), *map(counts, tests)))
    told = [skip for test in tests for skip in skips(test)]
    left_out = sorted(set(told))
    unexpected = [skip for skip in left_out if not is_expected(*skip, rules)]
    for name, reason in left_out:
        mark = " (not expected here: see tests/skips.txt)" if (name, reason) in unexpected else ""
        print(f"skipped: {name}: {reason.splitlines()[0]}{mark}")
    beyond = tell_budgets(tests, build, budgets) if budgets is not None else 0
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if strict and (unexpected or len(told) != skipped):
        print(f"CI is set; {len(unexpected)} skipped tests were not expected to be, and "
              f"{skipped - len(told)} do not say which they are")
        return 1
    return 1 if failed or not passed or (strict and beyond) else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), read_rules(SKIPS.read_text(encoding="utf-8")),
                  bool(os.environ.get("CI")), *sys.argv[2:3],
                  budgets=read_budgets(BUDGETS.read_text(encoding="utf-8"))))
