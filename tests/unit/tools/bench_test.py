#!/usr/bin/env python3
"""heddle-bench works: short runs end well, its JSON parses, misuse is explained. Not timed.

usage: bench_test.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def run(program, *arguments):
    return subprocess.run([program, *arguments], text=True, capture_output=True, timeout=300)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        ended = run(program, "--seconds", "0.05", "--pairs", "1", "--json", str(path), "submit",
                    "hop")
        assert ended.returncode == 0, ended.stderr
        results = json.loads(path.read_text())["results"]
    assert {r["name"] for r in results} == {"submit", "hop"}, results
    assert all(r["pairs"] + r["dropped"] >= 1 for r in results), results
    assert "submit+run" in ended.stdout, ended.stdout

    unknown = run(program, "sbmit")
    assert unknown.returncode == 2, unknown
    assert "no workload 'sbmit'" in unknown.stderr and "round-trip" in unknown.stderr, unknown

    unwritable = run(program, "--json", "/nonexistent/results.json", "submit")
    assert unwritable.returncode == 1 and "/nonexistent" in unwritable.stderr, unwritable


if __name__ == "__main__":
    main()
