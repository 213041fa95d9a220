#!/usr/bin/env python3
"""Prints 'N passed, N failed, N skipped' over the single tests of a meson test log: GoogleTest's
own counts where a program is one of its, else one a program. usage: summary.py testlog.json

Exits with 1 when a test failed or none ran at all."""
import json
import pathlib
import re
import sys


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


def main() -> int:
    log = pathlib.Path(sys.argv[1])
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    passed, failed, skipped = map(sum, zip((0, 0, 0), *(counts(json.loads(x)) for x in lines)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
