#!/usr/bin/env python3
"""Says which tests of a build a run takes, and what has to be built for them. tests/budgets.txt has
the tier of each test; a model runs where its sources are not those of tests/model/verified.txt.

usage: tiers.py tests | targets BUILD_DIR plain | asan | tsan [quick | long | all | models]
       tiers.py tests | targets BUILD_DIR plain | asan | tsan like PATTERN | single
  quick   (the default) what ./dev test runs      long    what only --all runs
  all     both; of the models those that changed  models  these alone
  like    tests of any tier whose names contain PATTERN
  single  GoogleTest's programs, each once for each environment: one filter then picks single tests
Prints a name a line: of tests, as `meson test` takes them, or of files, as ninja does."""
import fnmatch
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "tests" / "budgets.txt"
BUILDS = ("plain", "asan", "tsan")
TIERS = ("quick", "long")
sys.path.insert(0, str(ROOT / "tests" / "model"))
import verified  # noqa: E402 (found there)


def read_budgets(text):
    """{pattern of tests: {build: (tier, seconds), None where it does not run}}"""
    budgets = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, *cells = (part.strip() for part in line.split("|"))
        row = {}
        for build, cell in zip(BUILDS, cells, strict=True):
            tier, *seconds = cell.split()
            if cell != "-" and (tier not in TIERS or len(seconds) != 1):
                sys.exit(f"{BUDGETS}: '{cell}' of {name} (expected a tier of {', '.join(TIERS)} "
                         "and seconds, or -)")
            row[build] = None if cell == "-" else (tier, float(seconds[0]))
        budgets[name] = row
    return budgets


def row_of(name, budgets):
    """The row of a test: the one of its own name, else the first whose pattern it matches."""
    name = name.split(" / ")[-1]
    return budgets.get(name) or next(
        (row for pattern, row in budgets.items() if fnmatch.fnmatchcase(name, pattern)), None)


def budget_of(name, build, budgets):
    """(tier, seconds) of a test in a build; None where it has none there."""
    row = row_of(name, budgets)
    return row and row[build]


def chosen(names, build, tier, budgets, changed):
    """The names that a run takes. Those without a row are taken, so that the run tells of them."""
    found = []
    for name in names:
        row = row_of(name, budgets)
        is_model = name.startswith(verified.PREFIXES)
        if tier == "models" or (is_model and row is not None):
            take = is_model and tier in ("all", "models") and name in changed
        else:
            take = row is None or (row[build] and tier in ("all", row[build][0]))
        if take:
            found.append(name)
    return found


def introspect(folder, what):
    return json.loads(subprocess.run(["meson", "introspect", folder, what], text=True, check=True,
                                     stdout=subprocess.PIPE).stdout)


def targets_of(folder, tests):
    """The files that these tests need built."""
    files = {target["id"]: target["filename"][0] for target in introspect(folder, "--targets")}
    return sorted({os.path.relpath(files[each], pathlib.Path(folder).resolve())
                   for test in tests for each in test["depends"]})


def whole_programs(tests):
    """GoogleTest's programs, once for each environment; but for those of which single tests run
    nowhere: a filter on top of theirs would bring these back."""
    alike = {}
    for test in tests:
        if test["protocol"] == "gtest" and "heddle:model" not in test["suite"]:
            alike.setdefault((test["cmd"][0], *sorted(test["env"].items())), []).append(test)
    return [group[-1]["name"] for group in alike.values() if len(group) > 1 or
            not any(word.startswith("--gtest_filter=-") for word in group[0]["cmd"])]


def main():
    what, folder, build, *rest = sys.argv[1:]
    tier, *pattern = rest or ["quick"]
    tests = introspect(folder, "--tests")
    names = [test["name"] for test in tests]
    if tier == "like":
        names = [name for name in names if pattern[0] in name]
    elif tier == "single":
        names = whole_programs(tests)
    else:
        names = chosen(names, build, tier, read_budgets(BUDGETS.read_text(encoding="utf-8")),
                       verified.changed(names))
    lines = names if what == "tests" else targets_of(
        folder, [test for test in tests if test["name"] in names])
    print("\n".join(lines))


if __name__ == "__main__":
    main()
