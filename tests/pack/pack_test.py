#!/usr/bin/env python3
"""The folder of `./dev pack cuda` runs on the stand-ins, without a C compiler for heddle, and tells
of a step that fails.

usage: pack_test.py PACK_CUDA BUILD_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

STEPS = ("machine", "rules", "conformance", "fuzz", "graphs", "digits", "figures", "stress")


def run(folder, standins, *arguments, **environment):
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "HEDDLE_CC": "/nowhere/cc"}
    report = folder / "report.txt"
    ended = subprocess.run(
        [folder / "run-gpu", "--quick", "--standin", standins, "--report", report, *arguments],
        env=bare | environment, text=True, capture_output=True, timeout=280)
    assert report.read_text(encoding="utf-8") == ended.stdout, "the report is what was printed"
    return ended


def main():
    pack, build = sys.argv[1:]
    standins = pathlib.Path(build) / "tests" / "cuda_standin"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "pack"
        told = subprocess.run([sys.executable, pack, build, folder], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        print(told)
        assert " MB; needs glibc 2." in told, told

        ended = run(folder, standins)
        print(ended.stdout, ended.stderr)
        assert ended.returncode == 0, ended.returncode
        for step in STEPS:
            assert any(line.startswith(f"{step} ") and " passed " in line
                       for line in ended.stdout.splitlines()), step
        figures = json.loads((folder / "report.txt.json").read_text(encoding="utf-8"))["results"]
        assert all(row["pairs"] + row["dropped"] > 0 for row in figures), figures
        assert len({row["workload"] for row in figures}) == 10, figures

        ended = run(folder, standins, "--only", "digits", HEDDLE_COMPILE_HELPER="/nowhere")
        assert ended.returncode == 1, ended
        assert "digits       FAILED" in ended.stdout, ended.stdout
        assert "conformance" not in ended.stdout, ended.stdout


if __name__ == "__main__":
    main()
