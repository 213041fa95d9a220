#!/usr/bin/env python3
"""Models whose result is known: a model says the same as long as its sources are the same, and
verified.txt has a line for each that passed: a hash of its sources, how deep it looked, when.

usage: verified.py changed         names the models whose sources are not those of their line
       verified.py hashes          says what the sources of each are now
       verified.py record TESTLOG HASHES
                                   writes a line for each model that passed in a log of meson, and
                                   whose sources are still those of before the run
       verified.py files NAME      names the sources of a model
The sources of a model are its file, what that includes from this project, the list of the models
and how they are compiled, and, of Spin's, its check."""
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VERIFIED = HERE / "verified.txt"
PREFIXES = ("model_", "spin_")
HEADER = """# Models that passed, each with a hash of its sources (verified.py writes this file).
# MODEL | hash of sources | preemptions | random schedules | schedules or states | date
"""
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ONE_BY_ONE = ("HEDDLE_MODEL_MUTANT", "HEDDLE_MODEL_ACCESSES", "GTEST_FILTER")
SEEN = {"model_": r"^(\d+) schedules to context bound", "spin_": r"holds, (\d+) states"}


def roots(name):
    """The files that a model begins with."""
    kind, stem = name.split("_", maxsplit=1)
    if kind == "model":
        return [HERE / f"{stem}.cpp", HERE / "meson.build", ROOT / "scheduler" / "barrier.cpp"]
    return [HERE / "spin" / file for file in (f"{stem}.pml", "check.py", "meson.build")]


def sources(name):
    """All its files, as paths from the project's root, in order."""
    found, left = set(), roots(name)
    while left:
        path = left.pop().resolve()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            left += [path.parent / included, ROOT / included, ROOT / "include" / included]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def hash_of(name):
    digest = hashlib.sha256()
    for path in sources(name):
        data = (ROOT / path).read_bytes()
        digest.update(f"{path} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def read_lines():
    text = VERIFIED.read_text(encoding="utf-8") if VERIFIED.exists() else ""
    rows = ([part.strip() for part in line.split("|")] for line in text.splitlines()
            if line.strip() and not line.startswith("#"))
    return {name: rest for name, *rest in rows}


def changed(names):
    """Those of the models among `names` that have no line of their present sources."""
    lines = read_lines()
    return {name for name in names if name.startswith(PREFIXES) and
            lines.get(name, [""])[0] != hash_of(name)}


def all_models():
    models = [f"model_{path.stem}" for path in HERE.glob("*_test.cpp")]
    spin = (HERE / "spin" / "meson.build").read_text(encoding="utf-8")
    models += [f"spin_{name}" for name in re.findall(r"^    '(\w+)': \[", spin, re.MULTILINE)]
    return sorted(models)


def usual(name):
    """What the environment says of the depth, else what explore.hpp does."""
    text = (HERE / "explore.hpp").read_text(encoding="utf-8")
    found = re.search(rf'depth\("{name}", ([\d\']+)\)', text).group(1).replace("'", "")
    return os.environ.get(name, found), found


def record(log, before):
    """Writes the lines of the models that passed, unless they looked less deep than usual, or at a
    part alone: one mutant, or what a filter left."""
    if any(name in os.environ for name in ONE_BY_ONE):
        return
    bound, random = usual("HEDDLE_MODEL_BOUND"), usual("HEDDLE_MODEL_RANDOM")
    if any(int(asked) < int(found) for asked, found in (bound, random)):
        return
    lines = read_lines()
    today = datetime.date.today().isoformat()
    for test in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        name = test["name"].split(" / ")[-1]
        if not name.startswith(PREFIXES) or test["result"] != "OK":
            continue
        out = test.get("stdout", "") or ""
        kind = name.split("_")[0] + "_"
        depth = [bound[0], random[0]] if kind == "model_" else ["-", "-"]
        seen = sum(map(int, re.findall(SEEN[kind], out, re.MULTILINE)))
        if seen > 0 and before.get(name) == hash_of(name):
            lines[name] = [hash_of(name), *depth, str(seen), today]
    known = {name: rest for name, rest in lines.items() if all(p.is_file() for p in roots(name))}
    VERIFIED.write_text(HEADER + "".join(
        f"{name:<24} | {' | '.join(rest)}\n" for name, rest in sorted(known.items())),
        encoding="utf-8")


def main():
    what, *rest = sys.argv[1:]
    if what == "record":
        before = pathlib.Path(rest[1]).read_text(encoding="utf-8").splitlines()
        record(pathlib.Path(rest[0]), dict(line.split() for line in before))
    elif what == "hashes":
        print("\n".join(f"{name} {hash_of(name)}" for name in all_models()))
    elif what == "files":
        print("\n".join(sources(rest[0])))
    else:
        print("\n".join(sorted(changed(all_models()))))


if __name__ == "__main__":
    main()
