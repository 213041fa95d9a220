#!/usr/bin/env python3
"""Breaks the runtime's checks one by one, and lists those that no test notices.

usage: ./dev mutate [--list] [--only PATTERN] [--sample N] [--jobs N] [--suites a,b]
                    [--tier quick | all] [--programs PATTERN]

The checks of SOURCES are found by their form: an if that refuses, one operand of its condition, a
return before a refusal, a call of a function that refuses. Rules that refuse nothing, as those of
hazards, have no such form: tests/rules.txt lists them. A copy of the tree in build/mutate holds all
mutants in one build; MUTANT_ALIVE chooses the one that is alive. Each test runs once to learn which
checks it reaches; then each mutant meets the tests that reach it, until one fails, and that of a
rule the test that is named for it.

Exits with 1 unless each survivor is explained in tests/mutants.txt. By hand: it takes an hour or
two. What was learned is kept in build/mutate/results.json."""
import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import tiers
from mutate_source import Rewriter, read_rules
from tiers import introspect, targets_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutate"
EXPLAINED = ROOT / "tests" / "mutants.txt"
RULES = ROOT / "tests" / "rules.txt"
SOURCES = ("runtime/*/*.cpp", "runtime/*/*.hpp", "devices/*.cpp", "devices/*.hpp", "jit/code/*.cpp",
           "jit/loop/verify*.cpp", "jit/loop/signature.cpp")
# Tests that take minutes each, and look for what no single check keeps.
TEDIOUS = ("soak", "large", "fuzz long", "random * long", "tools long")
HEADER = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
#include <type_traits>
namespace heddle_mutants {
struct State {
  unsigned alive = ~0u;
  unsigned char* seen = nullptr;
  State() {
    if (const char* n = std::getenv("MUTANT_ALIVE")) alive = unsigned(std::atoi(n));
    if (const char* path = std::getenv("MUTANTS_SEEN")) {
      const int fd = open(path, O_RDWR | O_CLOEXEC);
      void* at = fd < 0 ? MAP_FAILED : mmap(nullptr, %d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) seen = static_cast<unsigned char*>(at);
      if (fd >= 0) close(fd);
    }
  }
};
inline bool look(unsigned k) {
  static const State state;
  if (state.seen != nullptr) __atomic_store_n(state.seen + k, 1, __ATOMIC_RELAXED);
  return state.alive != k;
}
/// Whether check k is as it was written.
constexpr bool keeps(unsigned k) { return std::is_constant_evaluated() || look(k); }
}  // namespace heddle_mutants
"""


def write_if_changed(path, data):
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def make_copy():
    """The tree with all mutants in build/mutate/source; returns them."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], text=True,
                            check=True, stdout=subprocess.PIPE).stdout.splitlines()
    files = sorted(path for path in set(listed) if (ROOT / path).is_file())
    copy, mutants = WORK / "source", []
    header = copy / "heddle_mutants.hpp"
    rules = collections.defaultdict(list)
    for rule in read_rules(RULES.read_text(encoding="utf-8")):
        rules[rule.path].append(rule)
    for path in files:
        data = (ROOT / path).read_bytes()
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in SOURCES):
            rewriter = Rewriter(path, data.decode(), len(mutants))
            text = rewriter.run(rules.pop(path, ()))
            if rewriter.mutants:
                data = f'#include "{header}"\n#line 1\n{text}'.encode()
                mutants += rewriter.mutants
        write_if_changed(copy / path, data)
        shutil.copymode(ROOT / path, copy / path)
    if rules:
        raise ValueError(f"tests/rules.txt names no file whose checks are broken: {min(rules)}")
    write_if_changed(header, (HEADER % max(len(mutants), 1)).encode())
    for path in set(map(pathlib.Path, collect(copy))) - {copy / f for f in files} - {header}:
        path.unlink()
    return mutants


def collect(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def holds_mutants(program):
    """Whether it has checks of its own, or links the library, which has."""
    data = pathlib.Path(program).read_bytes()
    return b"MUTANTS_SEEN" in data or b"libheddle.so" in data


def build(suites, tier, pattern):
    """Builds what the chosen tests need; returns their programs: command and environment each."""
    folder = WORK / "build"
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, WORK / "source", "--buildtype=plain",
                        "-Doptimization=1"], check=True)
    # Brings what is told of the build up to its files.
    subprocess.run(["ninja", "-C", folder, "build.ninja"], check=True, stdout=subprocess.DEVNULL)
    chosen = [test for test in introspect(folder, "--tests")
              if test["protocol"] == "gtest" and fnmatch.fnmatchcase(test["name"], pattern) and
              any(suite.split(":")[-1] in suites for suite in test["suite"])]
    names = tiers.chosen([test["name"] for test in chosen], "plain", tier,
                         tiers.read_budgets(tiers.BUDGETS.read_text(encoding="utf-8")), ())
    chosen = [test for test in chosen if test["name"] in names and not any(
        fnmatch.fnmatchcase(test["name"], tedious) for tedious in TEDIOUS)]
    subprocess.run(["nice", "ninja", "-C", folder, *targets_of(folder, chosen)], check=True)
    programs = {}
    for test in chosen:
        if holds_mutants(test["cmd"][0]):
            env = {k: v for k, v in test["env"].items() if not k.startswith("GTEST_")}
            # Halves of a program, which a variable of GoogleTest tells apart, are one here.
            programs.setdefault((*test["cmd"], *sorted(env.items())), (test["cmd"], env))
    return programs


@dataclasses.dataclass(frozen=True)
class Test:
    program: tuple
    name: str


class Runner:
    def __init__(self, programs, mutants):
        self.programs, self.mutants = programs, mutants
        self.seconds, self.reach = {}, {}

    def start(self, program, tests, seconds_max, **env):
        """Exit status of some tests of a program; None when its time was over."""
        env = os.environ | {"HEDDLE_CACHE": "off"} | self.programs[program][1] | env
        with tempfile.TemporaryDirectory(prefix="heddle-mutant-") as folder:
            child = subprocess.Popen(
                [self.programs[program][0][0], f"--gtest_filter={':'.join(tests)}",
                 "--gtest_fail_fast"], cwd=folder,
                env=env | {"TMPDIR": folder}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                return child.wait(seconds_max)
            except subprocess.TimeoutExpired:
                return None
            finally:
                try:
                    os.killpg(child.pid, 9)
                except ProcessLookupError:
                    pass
                child.wait()

    def tests_of(self, program):
        command, env = self.programs[program]
        listed = subprocess.run([*command, "--gtest_list_tests"], text=True, check=True,
                                env=os.environ | env, stdout=subprocess.PIPE).stdout
        suite = ""
        for line in listed.splitlines():
            name = line.split("#")[0].strip()
            if line.startswith(" "):
                yield Test(program, suite + name)
            elif name.endswith("."):
                suite = name

    def learn(self, test):
        """Runs a test with no mutant alive: how long it takes, and which checks it reaches."""
        with tempfile.NamedTemporaryFile() as seen:
            seen.truncate(max(len(self.mutants), 1))
            start = time.monotonic()
            status = self.start(test.program, [test.name], 300, MUTANTS_SEEN=seen.name)
            reached = pathlib.Path(seen.name).read_bytes()
        if status != 0:
            print(f"left out, as it fails by itself: {test.name} ({status})", flush=True)
            return
        self.seconds[test] = time.monotonic() - start
        self.reach[test] = {k for k, byte in enumerate(reached) if byte}

    def killer(self, mutant):
        """The tests among which one fails with the mutant alive; None: all pass."""
        reaching = [test for test in self.reach if mutant.number in self.reach[test] and
                    mutant.may_be_killed_by(test.name)]
        # Tests that reach little know best what they look at.
        reaching.sort(key=lambda test: (len(self.reach[test]), self.seconds[test]))
        batch = 1
        while reaching:
            some, reaching = reaching[:batch], reaching[batch:]
            batch = min(4 * batch, 64)
            by_program = collections.defaultdict(list)
            for test in some:
                by_program[test.program].append(test)
            for program, tests in by_program.items():
                patience = 20 + 10 * sum(self.seconds[test] for test in tests)
                if self.start(program, [test.name for test in tests], patience,
                              MUTANT_ALIVE=str(mutant.number)) != 0:
                    return [test.name for test in tests]
        return None


def read_explained(text):
    """(pattern of paths, pattern of names, why) a line."""
    lines = filter(None, (line.split("#")[0].strip() for line in text.splitlines()))
    return [tuple(part.strip() for part in line.split(" | ")) for line in lines]


def explanation(mutant, explained):
    for path, name, why in explained:
        if fnmatch.fnmatchcase(mutant.path, path) and fnmatch.fnmatchcase(mutant.name, name):
            return why
    return None


def run_all(mutants, chosen, options):
    runner = Runner(build(options.suites.split(","), options.tier, options.programs), mutants)
    tests = [test for program in runner.programs for test in runner.tests_of(program)
             if any(mutant.may_be_killed_by(test.name) for mutant in chosen)]
    print(f"{len(chosen)} of {len(mutants)} mutants, {len(tests)} tests", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(runner.learn, tests))
        results = {}
        for mutant, killer in zip(chosen, pool.map(runner.killer, chosen)):
            reached = sum(mutant.number in reach for reach in runner.reach.values())
            results[mutant.number] = {"mutant": str(mutant), "reached": reached, "killer": killer}
            if killer is None:
                print(f"survives {reached} tests: {mutant}", flush=True)
    (WORK / "results.json").write_text(json.dumps(list(results.values()), indent=1),
                                       encoding="utf-8")
    return [mutant for mutant in chosen if results[mutant.number]["killer"] is None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true", help="the mutants, and nothing else")
    parser.add_argument("--only", default="*", help="those whose 'path:line: name' this matches")
    parser.add_argument("--sample", type=int, help="so many of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--suites", default="unit,device", help="meson suites whose tests run")
    parser.add_argument("--tier", default="all", choices=("quick", "all"),
                        help="the tier whose tests run (tests/budgets.txt)")
    parser.add_argument("--programs", default="*", help="meson tests whose name this matches")
    options = parser.parse_args()
    mutants = make_copy()
    chosen = [m for m in mutants if fnmatch.fnmatchcase(str(m), f"*{options.only}*")]
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(options.seed).sample(chosen, options.sample),
                        key=lambda mutant: mutant.number)
    if options.list:
        print("\n".join(map(str, chosen)), f"\n{len(chosen)} mutants")
        return 0
    survivors = run_all(mutants, chosen, options)
    explained = read_explained(EXPLAINED.read_text(encoding="utf-8"))
    open_ones = [mutant for mutant in survivors if explanation(mutant, explained) is None]
    print(f"{len(chosen) - len(survivors)} killed, {len(survivors)} survive, "
          f"{len(open_ones)} of these without an explanation in tests/mutants.txt")
    for mutant in open_ones:
        print(f"  {mutant}")
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
