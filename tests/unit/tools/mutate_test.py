#!/usr/bin/env python3
"""./dev mutate finds checks by their form, and rules by their text, and breaks the chosen one
alone; its runner tells which tests reach a check, and which mutants none of them notices, or not
the one that is named. Each rule of tests/rules.txt is in its file.
usage: mutate_test.py TOOLS_FOLDER COMPILER..."""
import fnmatch
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import mutate  # noqa: E402 (found there)
from mutate_source import Mutant, Rewriter, Rule, read_rules  # noqa: E402

SOURCE = r"""#include <cstdio>
#include <cstdlib>
#include <optional>
struct Refusal {};
[[noreturn]] void refuse(const char*) { throw Refusal(); }
std::optional<int> half(int n) { return n % 2
                                            == 0 ? std::optional(n / 2) : std::nullopt; }
void require_small(int n) {
  if (n < 100) return;
  throw Refusal();  // "if (n)" in a comment, { and in a string: "if (x) throw"
}
int check(int n) {
  if (n == 1) throw Refusal();
  if (n == 2 || n == 3) {
    refuse("a { in (text");
  }
  if (const int twice = 2 * n; twice == 8) refuse("four");
  if (auto even = half(n - 5); even && *even == 1) refuse("seven");
  require_small(n);
  if (n == 50) std::puts("no refusal");
  return n;
}
"""
RULES = """# of even numbers
@ sample.cpp
- n % 2
  == 0
+ false
! Check.7
+ true
! Check.9
"""
MAIN = r"""
#ifdef PROGRAM  // speaks as GoogleTest does; a test is a number that must be refused, or not
#include <cstring>
int main(int argc, char** argv) {
  const char* tests = nullptr;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--gtest_list_tests") == 0)
      return std::puts("Check.\n  1\n  2\n  3\n  4\n  7\n  100\n  9"), 0;
    if (std::strncmp(argv[k], "--gtest_filter=", 15) == 0) tests = argv[k] + 15;
  }
  int failed = 0;
  for (const char* at = tests; at != nullptr; at = std::strchr(at + 1, ':')) {
    const int n = std::atoi(std::strchr(at, '.') + 1);
    bool refused = false;
    try { check(n); } catch (const Refusal&) { refused = true; }
    failed |= refused != (n != 9);
  }
  return failed;
}
#endif
"""


def refusal(act):
    try:
        act()
    except ValueError as error:
        return str(error)
    return ""


def look_at_rules():
    """Those of the tree are there, once each; what is none is told."""
    rules = read_rules(mutate.RULES.read_text(encoding="utf-8"))
    for path in {rule.path for rule in rules}:
        assert any(fnmatch.fnmatchcase(path, pattern) for pattern in mutate.SOURCES), path
        source = (mutate.ROOT / path).read_text(encoding="utf-8")
        Rewriter(path, source, 0).run([rule for rule in rules if rule.path == path])

    def mutants_of(old):
        Rewriter("sample.cpp", SOURCE, 0).run([Rule("sample.cpp", old, "0", "A.B")])
    assert "0 places" in refusal(lambda: mutants_of("n % 3")), "gone"
    assert "4 places" in refusal(lambda: mutants_of("return")), "ambiguous"
    assert "a check begins" in refusal(lambda: mutants_of("n == 2")), "of a check"
    assert "line 1 is none" in refusal(lambda: read_rules("x == 1"))
    assert "line 2 ends no" in refusal(lambda: read_rules("@ a.cpp\n! A.B"))
    ruled = Mutant(0, "sample.cpp", 1, "rule", "0", "A.B")
    assert ruled.may_be_killed_by("A.B") and ruled.may_be_killed_by("Modes/A.B/threaded")
    assert not ruled.may_be_killed_by("A.Both") and not ruled.may_be_killed_by("Modes/A.Both/x")


def main():
    compiler = sys.argv[2:]
    look_at_rules()
    rewriter = Rewriter("sample.cpp", SOURCE, 0)
    text = rewriter.run(read_rules(RULES))
    names = [mutant.name for mutant in rewriter.mutants]
    assert names == ["always: n < 100", "never: n == 1", "part: n == 2", "part: n == 3",
                     "never: twice == 8", "never: even && *even == 1",
                     "call: require_small(n)", "rule: n % 2 == 0 => false",
                     "rule: n % 2 == 0 => true"], names
    assert [m.line for m in rewriter.mutants] == [9, 13, 14, 14, 17, 18, 19, 6, 6], rewriter.mutants

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        header, source, program = (folder / n for n in ("mutants.hpp", "sample.cpp", "program"))
        header.write_text(mutate.HEADER % len(names), encoding="utf-8")
        source.write_text(f'#include "{header}"\n{text}{MAIN}', encoding="utf-8")
        subprocess.run([*compiler, "-std=c++20", "-DPROGRAM", source, "-o", program], check=True)
        runner = mutate.Runner({(program,): ([program], {})}, rewriter.mutants)
        tests = list(runner.tests_of((program,)))
        assert [test.name for test in tests] == [f"Check.{n}" for n in (1, 2, 3, 4, 7, 100, 9)]
        for test in tests:
            runner.learn(test)
        reach = {test.name: runner.reach[test] for test in tests}
        assert reach["Check.1"] == {1}, reach
        assert reach["Check.3"] == {1, 2, 3}, reach
        assert reach["Check.9"] == set(range(9)), reach
        # Each is killed by the test of its number, alone or with others.
        for mutant, killer in zip(rewriter.mutants, (100, 1, 2, 3, 4, 7, 100, 7)):
            killed_by = runner.killer(mutant)
            assert killed_by and f"Check.{killer}" in killed_by, (mutant, killed_by)
        assert runner.killer(rewriter.mutants[8]) is None  # not by the test that is named
        # Without that test it survives, and only an explanation excuses it.
        del runner.reach[tests[0]]
        assert runner.killer(rewriter.mutants[1]) is None
    explained = mutate.read_explained("# why\nsample.cpp | never: n == 1 | nobody asks\n")
    assert mutate.explanation(rewriter.mutants[1], explained) == "nobody asks"
    assert mutate.explanation(rewriter.mutants[2], explained) is None
    assert mutate.read_explained(mutate.EXPLAINED.read_text(encoding="utf-8")) is not None


if __name__ == "__main__":
    os.environ.pop("MUTANT_ALIVE", None)
    main()
