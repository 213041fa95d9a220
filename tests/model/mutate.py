#!/usr/bin/env python3
"""Breaks every access of the protocol templates, one at a time, and lists what no scenario notices.

usage: mutate.py BUILD [--only TEXT] [--list] [--bound N] [--random N] [--seconds N] [--jobs N]
  BUILD    a build folder whose model tests are up to date (ninja -C BUILD)
  --only   mutants whose name contains TEXT, as "lane.hpp" or "drop"
  --list   prints the mutants, and breaks nothing

A mutant is an access, FILE:LINE:COLUMN, and what becomes of it: a weaker order, a store that is
left out or comes after the thread's next access (which swaps the two), a read-modify-write in two
steps, a barrier that does nothing. Model tests write down what their scenarios access, and plant
the mutant that HEDDLE_MODEL_MUTANT names (accesses.hpp), so one build serves all. A mutant is
caught when a model test fails; one that takes too long is told apart. survivors.txt holds those
that are known, each with its argument, by function and text of the line, since lines move. Exits
with 1 when others survive. By hand: it takes an hour or two.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATES = HERE.parent.parent / "scheduler/protocol"
RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = range(6)  # as std::memory_order has them

Access = collections.namedtuple("Access", "file line column kind order followed")


def mutations(access):
    """What can be left out of an access."""
    if access.kind in ("light", "heavy"):
        return [f"no_{access.kind}"]
    found = []
    if access.order in (ACQUIRE, ACQ_REL):
        found.append("no_acquire")
    if access.order in (RELEASE, ACQ_REL):
        found.append("no_release")
    if access.order == SEQ_CST:
        found += ["no_seq_cst", "relaxed"]
    if access.kind in ("store", "both"):
        found.append("drop")
    if access.kind == "store" and access.followed:
        found.append("late")
    if access.kind == "both":
        found.append("no_exchange")
    return found


def programs(build):
    found = sorted(p for p in (build / "tests/model").glob("model_*")
                   if p.is_file() and os.access(p, os.X_OK))
    if not found:
        sys.exit(f"mutate: no model tests in {build} (expected some: ninja -C {build})")
    return found


def run(program, settings, seconds):
    """'held', 'caught' or 'late'."""
    environment = os.environ | {"HEDDLE_MODEL_BOUND": "0"} | settings
    command = [program, "--gtest_brief=1", "--gtest_fail_fast"]
    try:
        done = subprocess.run(command, timeout=seconds, env=environment, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "late"
    if done.returncode == 2:
        sys.exit(f"mutate: {program} refuses {settings}")
    return "caught" if done.returncode else "held"


def accesses_of(program):
    """What its scenarios access in the templates, with how it is followed."""
    with tempfile.NamedTemporaryFile("r", prefix="heddle-accesses-") as out:
        run(program, {"HEDDLE_MODEL_ACCESSES": out.name, "HEDDLE_MODEL_RANDOM": "2000"}, 600)
        found = []
        for line in out.read().splitlines():
            place, kind, order, followed = line.split()
            file, row, column = place.split(":")
            found.append(Access(file, int(row), int(column), kind, int(order), followed == "1"))
    return found


def function_at(file, line):
    """Name of the function that a line of a template is in."""
    text = (TEMPLATES / file).read_text(encoding="utf-8").splitlines()
    for at in range(line - 1, -1, -1):
        match = re.match(r"  (?:\[\[nodiscard\]\] )?(?:static |explicit |constexpr )*"
                         r"(?:[\w:<>,&* ]+ )?[&*]?(\w+)\(", text[at])
        if match and not text[at].rstrip().endswith(";"):
            return match.group(1)
    return "?"


def key(access, mutation):
    """As survivors.txt has it, which has 100 columns: it stays when lines move."""
    text = (TEMPLATES / access.file).read_text(encoding="utf-8").splitlines()[access.line - 1]
    place = f"{access.file} {function_at(access.file, access.line)} {mutation}"
    return f"{place}: {text.strip()}"[:100].rstrip()


def known_survivors():
    """Key to argument: a line without indentation, then indented prose."""
    known, last = {}, None
    for line in (HERE / "survivors.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith(" "):
            known[last] += " " + line.strip()
        else:
            last = line.strip()
            known[last] = ""
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--bound", default="2")
    parser.add_argument("--random", default="20000")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    reach = collections.defaultdict(list)  # access to the programs that make it
    followed = set()
    for program in programs(args.build):
        for access in accesses_of(program):
            place = access._replace(followed=False)
            reach[place].append(program)
            if access.followed:
                followed.add(place)
    mutants = [(access, mutation) for access in sorted(reach)
               for mutation in mutations(access._replace(followed=access in followed))
               if args.only in f"{access.file}:{access.line} {key(access, mutation)}"]
    if args.list:
        print(*(f"{a.file}:{a.line}:{a.column}:{m}  {key(a, m)}" for a, m in mutants), sep="\n")
        return 0

    depth = {"HEDDLE_MODEL_BOUND": args.bound, "HEDDLE_MODEL_RANDOM": args.random}

    def try_out(mutant):
        access, mutation = mutant
        name = f"{access.file}:{access.line}:{access.column}:{mutation}"
        results = []
        for program in reach[access]:
            results.append(run(program, depth | {"HEDDLE_MODEL_MUTANT": name}, args.seconds))
            if results[-1] == "caught":
                break
        return name, "caught" if "caught" in results else "late" if "late" in results else "held"

    known, ends, new = known_survivors(), collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, (name, end) in zip(mutants, pool.map(try_out, mutants)):
            explained = end != "caught" and key(*mutant) in known
            ends["explained" if explained else end] += 1
            if end != "caught" and not explained:
                new.append(key(*mutant))
                print(f"{'survives' if end == 'held' else 'takes too long'}: {name}  {new[-1]}",
                      flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())),
          f"of {len(mutants)} mutants")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
