#!/usr/bin/env python3
"""heddle-bench works: short runs end well, its JSON parses, each goal has its row, misuse is
explained. Not timed.

usage: bench_test.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile

WORKLOADS = ["idle", "footprint", "submit", "hop", "fan", "pooled", "fiber", "open"]


def run(program, *arguments):
    return subprocess.run([program, *arguments], text=True, capture_output=True, timeout=300)


def check_result(result):
    assert result["pairs"] + result["dropped"] >= 1, result
    if "anchor" in result:
        assert result["pairs"] == 0 or result["ratio"]["median"] > 0, result
    if "goal" in result and result["pairs"] > 0:
        goal = result["goal"]
        assert goal["met"] == (goal["reached"] <= goal["at_most"]), result


def check_run(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        ended = run(program, "--seconds", "0.01", "--pairs", "1", "--json", str(path), *WORKLOADS)
        assert ended.returncode == 0, ended.stderr
        results = json.loads(path.read_text())["results"]
    assert {r["name"] for r in results} == set(WORKLOADS), results
    for result in results:
        check_result(result)
    memory = [r for r in results if r["name"] == "footprint"]
    assert memory and all(r["unit"] == "bytes" and "anchor" not in r for r in memory), memory
    # stdout is the table and nothing else, whatever rivals have to say.
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("workload"), ended.stdout
    assert len(lines) == 1 + len(results) + 2, ended.stdout


def check_list(program):
    """--list fails when a goal is for no row; rows and goals are those that are measured."""
    listed = run(program, "--list")
    assert listed.returncode == 0, listed.stderr
    for expected in ("submit+run, 1 producer: heddle against bare flag ring, goal <= 1.3",
                     "idle, 16 devices: heddle, threaded, goal <= 0.1 %",
                     "fiber switch: heddle against bare context, goal <= 30 ns"):
        assert expected in listed.stdout.splitlines(), listed.stdout


def check_misuse(program):
    unknown = run(program, "sbmit")
    assert unknown.returncode == 2, unknown
    assert "no workload 'sbmit'" in unknown.stderr and "round-trip" in unknown.stderr, unknown

    unwritable = run(program, "--json", "/dev/null/results.json", "submit")
    assert unwritable.returncode == 1 and "/dev/null" in unwritable.stderr, unwritable


def main():
    program = sys.argv[1]
    check_run(program)
    check_list(program)
    check_misuse(program)


if __name__ == "__main__":
    main()
