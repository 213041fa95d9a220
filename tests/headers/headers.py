#!/usr/bin/env python3
"""Compiles accepted.cpp with every warning as an error, and refused.cpp, where each line that ends
in "// refused: PATTERN" must be refused, in words of that pattern. The scheduler's header does
without exceptions, and each header says in one line where the language is too old.
usage: headers.py SOURCE_ROOT COMPILER"""
import pathlib
import re
import shlex
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
            "-Wmissing-field-initializers", "-Werror"]
CLANG_WARNINGS = ["-Wmissing-designated-field-initializers"]

NO_EXCEPTIONS = """#include <heddle/scheduler.hpp>
int main() {
  heddle::Scheduler scheduler;
  auto device = scheduler.new_device("device");
  const heddle::Status status = device.submit("task", [] {}).wait();
  return status.ok() ? 0 : static_cast<int>(status.to_string().size());
}
"""


def compile_file(compiler, root, name, flags):
    return subprocess.run(
        [*compiler, "-std=c++20", "-fsyntax-only", "-fno-diagnostics-color", f"-I{root}/include",
         *flags, root / "tests" / "headers" / name],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def main():
    root, compiler = pathlib.Path(sys.argv[1]), shlex.split(sys.argv[2])
    known = subprocess.run([*compiler, "--version"], text=True, stdout=subprocess.PIPE, check=True)
    extra = CLANG_WARNINGS if "clang" in known.stdout else []
    accepted = compile_file(compiler, root, "accepted.cpp", WARNINGS + extra)
    if accepted.returncode != 0 or accepted.stdout:
        sys.exit("accepted.cpp is not accepted:\n" + accepted.stdout)

    def compile_text(text, *flags):
        return subprocess.run([*compiler, f"-I{root}/include", "-fsyntax-only",
                               "-fno-diagnostics-color", *flags, "-x", "c++", "-"],
                              input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False).stdout

    told = compile_text(NO_EXCEPTIONS, "-std=c++20", "-fno-exceptions", "-Wall", "-Werror")
    if told:
        sys.exit("the scheduler needs exceptions:\n" + told)
    for header in sorted((root / "include" / "heddle").glob("*.hpp")):
        text = header.read_text(encoding="utf-8")
        if not re.search(r"#include [\"<]heddle/\w+\.hpp", text) and header.name != "requires.hpp":
            sys.exit(f"{header.name} includes no other header (expected: heddle/requires.hpp)")
    told = compile_text("#include <heddle/heddle.hpp>\n", "-std=c++17")
    errors = re.findall(r"error: .*", told)
    if len(errors) != 2 or "heddle needs C++20: compile with -std=c++20" not in errors[0]:
        sys.exit(f"as C++17: expected one line of what is needed in:\n{told}")

    limits = ["-ferror-limit=0"] if extra else ["-fmax-errors=0"]
    refused = compile_file(compiler, root, "refused.cpp",
                           ["-Wall", "-Werror=unused-result", *limits])
    wrong = []
    source = (root / "tests" / "headers" / "refused.cpp").read_text(encoding="utf-8")
    wanted = {number: match[1] for number, line in enumerate(source.splitlines(), start=1)
              if (match := re.search(r"// refused: (.*)$", line))}
    # A template's error names the line that asks for it some lines above or below.
    lines, told = refused.stdout.splitlines(), {}
    for at, line in enumerate(lines):
        for number in re.findall(r"refused\.cpp:(\d+):", line):
            told.setdefault(int(number), []).extend(lines[max(at - 6, 0):at + 6])
    for number, text in wanted.items():
        if number not in told:
            wrong.append(f"refused.cpp:{number}: is accepted (expected: {text})")
        elif not any(re.search(text, line) for line in told[number]):
            wrong.append(f"refused.cpp:{number}: expected '{text}' in:\n" +
                         "\n".join(told[number]))
    if not wanted or wrong:
        sys.exit("\n".join(wrong) or "refused.cpp expects nothing")
    print(f"headers: ok, {len(wanted)} lines refused")


if __name__ == "__main__":
    main()
