#!/usr/bin/env python3
"""Packs what checks heddle on a GPU, for a machine that has NVIDIA's driver and CUDA toolkit, and
nothing of heddle's: programs, their libraries, and run-gpu, which runs them.

usage: pack_cuda.py BUILD_DIR FOLDER
BUILD_DIR holds the target `pack-cuda`, built. FOLDER is made anew.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

BYTES_MAX = 60_000_000
# Each target of meson, and its name in the pack, where programs find their helper beside them.
PROGRAMS = {"heddle": "heddle", "heddle-bench-cuda": "heddle-bench-cuda",
            "heddle-compile-nvrtc": "heddle-compile", "conformance_test": "conformance_test",
            "cuda_fuzz_test": "cuda_fuzz_test", "graph_fuzz_test": "graph_fuzz_test",
            "driver_rules_test": "driver_rules_test"}
# Every machine with a glibc and a C++ program has these.
ON_EVERY_MACHINE = re.compile(r"(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libgcc_s"
                              r"|libstdc\+\+)[.-]")


def output_of(*command):
    return subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE).stdout


def introspect(build, what):
    return json.loads(output_of("meson", "introspect", build, what))


def libraries_of(program):
    """{name: file} of the libraries that a program loads when it starts."""
    found = {}
    for line in output_of("ldd", program).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not ON_EVERY_MACHINE.match(match.group(1)):
            found[match.group(1)] = match.group(2)
    return found


def strip_into(file, target):
    subprocess.run(["strip", "-o", target, os.path.realpath(file)], check=True)


def newest(files, prefix):
    """The newest version of a library's symbols that the files need: "2.34" for GLIBC."""
    versions = {tuple(map(int, version.split(".")))
                for file in files
                for version in re.findall(rf"\b{prefix}_([0-9.]+)",
                                          output_of("objdump", "-T", file))}
    return ".".join(map(str, max(versions)))


def pack(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    targets = {target["name"]: target["filename"][0] for target in introspect(build, "--targets")}
    for target, name in PROGRAMS.items():
        for library, file in libraries_of(targets[target]).items():
            strip_into(file, binaries / library)
        strip_into(targets[target], binaries / name)
    # The tests of conformance that meson leaves out on a GPU.
    arguments = next(test["cmd"] for test in introspect(build, "--tests")
                     if test["name"] == "conformance on cuda")
    (binaries / "conformance.not").write_text(
        arguments[1].removeprefix("--gtest_filter=-") + "\n", encoding="utf-8")
    here = pathlib.Path(__file__).resolve().parent
    shutil.copy(here / "run-gpu", folder)
    commit = output_of("git", "-C", here, "describe", "--always", "--dirty").strip()
    files = [file for file in binaries.iterdir() if not file.suffix == ".not"]
    needs = f"glibc {newest(files, 'GLIBC')}, libstdc++ with GLIBCXX_{newest(files, 'GLIBCXX')}"
    (folder / "about.txt").write_text(f"heddle {commit}; needs {needs} or later\n",
                                      encoding="utf-8")
    return needs


def main():
    build, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    needs = pack(build, folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB; needs {needs} or later")
    if size > BYTES_MAX:
        sys.exit(f"{folder} is larger than {BYTES_MAX / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
