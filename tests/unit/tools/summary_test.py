#!/usr/bin/env python3
"""The summary of a run tells what was skipped and why, and CI fails on a skip that is not expected
on this machine. usage: summary_test.py TOOLS_FOLDER"""
import contextlib
import io
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import summary  # noqa: E402 (found there)

GTEST = """[==========] Running 4 tests from 2 test suites.
[ RUN      ] FineTest.Passes
a line: with colons
[       OK ] FineTest.Passes (0 ms)
[ RUN      ] DiskTest.NeedsAMount
seed 17
../tests/disk_test.cpp:7: Skipped
cannot mount here

[  SKIPPED ] DiskTest.NeedsAMount (0 ms)
[ RUN      ] All/DiskTest.Other/clang
../tests/disk_test.cpp:9: Skipped
there is no clang here
[  SKIPPED ] All/DiskTest.Other/clang (0 ms)
[ RUN      ] DiskTest.Silent
../tests/disk_test.cpp:11: Skipped

[  SKIPPED ] DiskTest.Silent (0 ms)
[==========] 4 tests from 2 test suites ran. (0 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 3 tests, listed below:
[  SKIPPED ] DiskTest.NeedsAMount
[  SKIPPED ] All/DiskTest.Other/clang
[  SKIPPED ] DiskTest.Silent
"""
RULES = """# a comment
no-mount | OtherTest.*, DiskTest.Needs* | cannot mount*
no-clang | *DiskTest.*/clang | there is no clang here
no-clang | DiskTest.Silent | (no reason)
no-spin | spin model | no spin here
"""
PROGRAM = {"name": "heddle:slow / spin model", "result": "SKIP", "stdout": "no spin here\n"}


def outcome(tests, lacking, strict=True, rules=RULES, **budgets):
    """Exit status and text of a summary on a machine that lacks that."""
    conditions = dict(summary.CONDITIONS)
    for name in conditions:
        summary.CONDITIONS[name] = lambda name=name: name in lacking
    with tempfile.TemporaryDirectory() as folder, io.StringIO() as out:
        log = pathlib.Path(folder) / "testlog.json"
        log.write_text("\n".join(map(json.dumps, tests)), encoding="utf-8")
        with contextlib.redirect_stdout(out):
            status = summary.main(log, summary.read_rules(rules), strict, **budgets)
        text = out.getvalue()
    summary.CONDITIONS.update(conditions)
    return status, text


def tell_budgets():
    """A program that is slower than its budget is told, and fails in CI, as one without does."""
    budgets = summary.read_budgets("# a comment\nx *| quick 2 | long 8 | -\n")
    slow = {"name": "heddle:unit / x 1", "result": "OK", "stdout": "", "duration": 3.2}
    for build, strict, status, said in (("plain", True, 1, "over budget: heddle:unit / x 1: 3 s"),
                                        ("plain", False, 0, "over budget: heddle:unit / x 1: 3 s"),
                                        ("asan", True, 0, ""), ("tsan", True, 1, "no budget: "),
                                        ("tsan", False, 0, "no budget: ")):
        ended = outcome([slow], (), strict=strict, build=build, budgets=budgets)
        assert ended[0] == status and said in ended[1], (build, ended)
        assert ended[1].count("budget") == (1 if build == "plain" else 2 if said else 0), ended


def main():
    gtest = {"name": "heddle:unit / disk", "result": "OK", "stdout": GTEST}
    everything = ("no-mount", "no-clang", "no-spin")
    status, text = outcome([gtest, PROGRAM], everything)
    assert status == 0, text
    for line in ("skipped: DiskTest.NeedsAMount: cannot mount here\n",
                 "skipped: All/DiskTest.Other/clang: there is no clang here\n",
                 "skipped: DiskTest.Silent: (no reason)\n",
                 "skipped: spin model: no spin here\n", "1 passed, 0 failed, 4 skipped\n"):
        assert line in text, (line, text)
    assert "not expected" not in text, text

    # Where the machine lacks nothing, the same skips are told apart, and fail in CI alone.
    status, text = outcome([gtest, PROGRAM], ("no-clang", "no-spin"))
    assert status == 1 and "DiskTest.NeedsAMount: cannot mount here (not expected" in text, text
    assert text.count("(not expected") == 1, text
    assert outcome([gtest, PROGRAM], ("no-clang", "no-spin"), strict=False)[0] == 0
    # Another reason than the expected one, and no rule at all.
    assert outcome([gtest | {"stdout": GTEST.replace("cannot mount", "tired")}], everything)[0] == 1
    assert outcome([gtest], everything, rules="")[0] == 1
    # Nothing is skipped: nothing to expect. A failure stays one.
    fine = {"name": "x", "result": "OK", "stdout": ""}
    assert outcome([fine], ())[0] == 0
    assert outcome([fine, {"name": "y", "result": "FAIL", "stdout": ""}], ())[0] == 1
    assert outcome([], ())[0] == 1
    tell_budgets()
    # The list that is used can be read.
    assert summary.read_rules(summary.SKIPS.read_text(encoding="utf-8"))
    assert summary.read_budgets(summary.BUDGETS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
