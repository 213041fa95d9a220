#!/usr/bin/env python3
"""Runs a program and compares what it prints with a file: check_output.py EXPECTED PROGRAM"""
import difflib
import subprocess
import sys

expected_path, program = sys.argv[1:]
run = subprocess.run([program], capture_output=True, text=True, check=False)
with open(expected_path, encoding="utf-8") as file:
    expected = file.read()
if run.returncode != 0 or run.stderr:
    sys.exit(f"{program}: exit status {run.returncode}, stderr:\n{run.stderr}")
if run.stdout != expected:
    lines = difflib.unified_diff(expected.splitlines(), run.stdout.splitlines(), expected_path,
                                 program, lineterm="")
    sys.exit("\n".join(lines))
