#!/usr/bin/env python3
"""Prints 'N passed, N failed, N skipped' over the single tests of a meson test log (GoogleTest's own counts)."""
import json
import re
import sys


def main() -> int:
    passed = failed = skipped = 0
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            out = test.get("stdout", "") or ""
            ok = re.findall(r"^\[  PASSED  \] (\d+) test", out, re.M)
            bad = re.findall(r"^\[  FAILED  \] (\d+) test", out, re.M)
            skip = re.findall(r"^\[  SKIPPED \] (\d+) test", out, re.M)
            if ok or bad:
                passed += sum(map(int, ok))
                failed += sum(map(int, bad))
                skipped += sum(map(int, skip))
                if test["result"] not in ("OK", "SKIP") and not bad:
                    failed += 1  # died after its summary: a leak, a sanitizer report
            elif test["result"] == "OK":
                passed += 1
            elif test["result"] == "SKIP":
                skipped += 1
            else:
                failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
