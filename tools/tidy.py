#!/usr/bin/env python3
"""Checks what compilers do not: floors and rooms (tidy_includes.py), columns, lengths, dead files,
comments at atomic orderings, commented-out code, what installed headers show (tidy_face.py), and
documents (tidy_documents.py).

usage: tidy.py [--root DIR] [--self-test | --cited]
Prints one line per finding, `file:line: rule: found (expected ...)`, and exits with 1 if there is
any, but for the lengths of files and functions, which are advice. --self-test plants a violation
of each rule and fails unless each is caught. --cited prints, clause by clause, the tests whose
comments cite it: the raw material of docs/clauses.md.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

from tidy_documents import (ROWS, check_clauses, check_documents, check_file_tables,
                            check_operations, check_settings, check_tests_named, clauses_of,
                            lines_of, tests_of)
from tidy_face import check_face, check_names
from tidy_includes import Finding, INCLUDE, SOURCE, check_floors, check_rooms, resolve

COLUMNS_MAX = 100
PROSE_COLUMNS_MAX = 120  # markdown; tables, links and code blocks are free
INSTALLED = ("include/heddle/", "devices/device.hpp")
DATA = ("tests/golden/",)  # .txt files there are what programs print
# Advice: a file holds one thing, and may be as long as that is.
FILE_LINES_LONG = 600
FUNCTION_LINES_LONG = 100
ADVICE = ("file-length", "function-length")
ORDER_COMMENT_REACH = 3  # lines above an ordering in which its comment may be

ENVIRONMENT_READERS = ("runtime/settings/environment.cpp", "tools/", "tests/")
BUILD_FILES = ("meson.build", "meson_options.txt", "CMakeLists.txt", ".build")
TEXT = SOURCE + BUILD_FILES + (".py", ".md", ".txt", ".in", ".yml", ".sh")
SELF = ("tools/tidy.py", "tests/tidy/")  # spell out what they forbid


class Tree:
    """The files of the project, read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.files = {path: (self.root / path).read_text(encoding="utf-8", errors="replace")
                      for path in self.list_files() if path.endswith(TEXT)}

    def list_files(self):
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"],
                text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()
            return sorted(path for path in set(listed) if (self.root / path).is_file())
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if not f.startswith((".", "build", "obj-"))]
            found += [str((pathlib.Path(folder) / n).relative_to(self.root)) for n in names]
        return sorted(found)

    def with_suffix(self, *suffixes):
        return [(path, text) for path, text in self.files.items() if path.endswith(suffixes)]


# Strings, character literals and comments; blanked before code is looked at. A quote after a digit
# or letter separates digits (1'000'000).
TOKENS = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''
    r"|//[^\n]*|/\*.*?\*/", re.DOTALL)


def code_only(text):
    """`text` with comments and literals blanked; lines stay where they are."""
    return TOKENS.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


# --- rules on one file ---


def check_columns(tree):
    for path, text in tree.files.items():
        if path.startswith(DATA) and path.endswith(".txt"):
            continue
        prose = path.endswith(".md")
        limit = PROSE_COLUMNS_MAX if prose else COLUMNS_MAX
        fenced = False
        for number, line in lines_of(text):
            fenced ^= prose and line.lstrip().startswith("```")
            if prose and (fenced or line.lstrip().startswith("|") or "](" in line or "://" in line):
                continue
            if len(line) > limit:
                yield Finding(path, number, "columns", f"{len(line)} (expected at most {limit})")


def check_file_length(tree):
    for path, text in tree.with_suffix(*SOURCE, ".py"):
        count = len(text.splitlines())
        if count > FILE_LINES_LONG:
            yield Finding(path, count, "file-length", f"{count} lines: does it hold one thing?")


def strip_templates(head):
    """`head` without leading template<...> parameter lists."""
    while (match := re.match(r"\s*template\s*<", head)):
        depth, at = 1, match.end()
        while at < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            at += 1
        head = head[at:]
    return head.strip()


def opens_function(head):
    """Whether a `{` after `head` (the text since the last `;`, `{` or `}`) opens a function."""
    head = strip_templates(head)
    if "(" not in head or re.search(r"(?<![=!<>])=(?!=)\s*[^)]*$", head):
        return False
    return not re.match(r"(\w+\s+)*(class|struct|union|enum|namespace|concept)\b", head)


def functions(text):
    """(first line, last line) of each outermost function body. As clang-format leaves it, a `{`
    that touches what is before it initialises something; it ends nothing and opens nothing."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
                  lambda m: re.sub(r"[^\n]", " ", m.group()), code_only(text), flags=re.MULTILINE)
    head_at, line, start, opened = 0, 1, 0, []
    for at, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            head = code[head_at:at]
            kind = "value" if not head[-1:].isspace() and head else "scope"
            if kind == "scope" and "function" not in opened and opens_function(head):
                kind, start = "function", line - head.lstrip().count("\n")
            opened.append(kind)
            if kind != "value":
                head_at = at + 1
        elif char == "}" and opened:
            kind = opened.pop()
            if kind == "function":
                yield start, line
            if kind != "value":
                head_at = at + 1
        elif char == ";":
            head_at = at + 1


def check_function_length(tree):
    for path, text in tree.with_suffix(*SOURCE):
        for first, last in functions(text):
            if last - first + 1 > FUNCTION_LINES_LONG:
                yield Finding(path, first, "function-length",
                              f"{last - first + 1} lines: does it do one thing?")


ORDER = re.compile(r"memory_order(?:_|::)(?:relaxed|consume|acquire|release|acq_rel|seq_cst)")


def check_orders(tree):
    for path, text in tree.with_suffix(*SOURCE):
        if path.startswith("tests/model/"):  # play the part of the code around what is modelled
            continue
        lines, code = text.splitlines(), code_only(text).splitlines()
        for number, line in lines_of("\n".join(code)):
            if "atomic_thread_fence" in line:
                yield Finding(path, number, "fence",
                              "a standalone fence (expected an ordering on an access)")
            if not ORDER.search(line):
                continue
            near = range(max(0, number - 1 - ORDER_COMMENT_REACH), number)
            if not any("//" in lines[k] or "/*" in lines[k] for k in near):
                yield Finding(path, number, "order-comment",
                              f"{ORDER.search(line).group()} without a comment (expected the access"
                              f" it pairs with, here or within {ORDER_COMMENT_REACH} lines above)")


def check_headers(tree):
    for path, text in tree.with_suffix(".hpp", ".h"):
        if not re.search(r"^#pragma once$|^#ifndef HEDDLE_\w+_H$", text, re.MULTILINE):
            yield Finding(path, 1, "include-guard", "none (expected #pragma once)")
    for path, text in tree.with_suffix(*SOURCE, *BUILD_FILES, ".py"):
        start = re.sub(r"\A#!.*\n", "", text)
        if not start.startswith(("//", "/*", "#", '"""', "project(", "option(")):
            yield Finding(path, 1, "header-comment",
                          "none (expected what the file owns and which thread may call it)")
        elif path.endswith(SOURCE) and not start.startswith(("//", "/*")):
            yield Finding(path, 1, "header-comment",
                          f"{start.splitlines()[0]!r} (expected a comment first)")


PUBLIC = ("include/heddle/", "devices/device.hpp")


def check_cited_files(tree):
    """Comments of installed headers may cite what is installed beside them, and nothing else."""
    for path, text in tree.with_suffix(*SOURCE):
        if not path.startswith(PUBLIC):
            continue
        for number, line in lines_of(text):
            comment = line[line.find("//"):] if "//" in line else ""
            for cited in re.findall(r"[\w./-]+\.(?:hpp|cpp|h|md)\b", comment):
                installed = (f"include/{cited}" in tree.files or
                             cited in ("heddle/devices/device.hpp", "share/doc/heddle/contract.md"))
                if not installed:
                    yield Finding(path, number, "cited", f"{cited} (expected an installed file)")
            for row in re.findall(r"\bO\d+\b|\breference \d[A-F]\b|\b3[A-F]\b", comment):
                yield Finding(path, number, "cited", f"{row} (expected a clause of the contract)")


def check_words(tree):
    unfinished = re.compile(r"\b(TODO|FIXME|XXX)\b")
    machine = re.compile(r"(?<![\w.}*])/(work|root|farm)/")
    for path, text in tree.files.items():
        for number, line in lines_of(text):
            if "\t" in line:
                yield Finding(path, number, "tab", "a tab (expected spaces)")
            if path.startswith(SELF):
                continue
            if (match := unfinished.search(line)):
                yield Finding(path, number, "unfinished", f"{match.group()} (expected done work)")
            if (match := machine.search(line)):
                yield Finding(path, number, "machine-path",
                              f"{match.group()} (expected nothing of one machine)")


# A statement in a comment: return, an assignment, a call, a condition, a directive. A sentence that
# happens to end in a semicolon is none of these.
STATEMENT = re.compile(
    r"//\s*(?:(?:return|throw|delete|break|continue)\b[^;]*;|"
    r"[\w:<>,*& ]*[\w\])]\s*[-+*/|&]?=(?:(?!\w \w)[^=;])+;|"
    r"[\w:.>-]+\([^;]*\);|(?:\} else )?(?:if|for|while|switch) \(.*\)\s*\{?|"
    r"#\s*(?:include|define|ifdef|ifndef|endif|if|else)\b.*)\s*")


def check_commented_code(tree):
    for path, text in tree.with_suffix(*SOURCE):
        for number, line in lines_of(text):
            if STATEMENT.fullmatch(line.strip()):
                yield Finding(path, number, "commented-code",
                              f"{line.strip()!r} (expected code or prose)")


def check_environment(tree):
    for path, text in tree.with_suffix(*SOURCE):
        if path.startswith(ENVIRONMENT_READERS):
            continue
        for number, line in lines_of(code_only(text)):
            if (match := re.search(r"\b(secure_)?getenv\b", line)):
                yield Finding(path, number, "environment",
                              f"{match.group()} (expected in {ENVIRONMENT_READERS[0]} alone)")


# --- rules on the whole tree ---

def check_installed(tree):
    return check_face({path: code_only(text) for path, text in tree.with_suffix(".hpp")
                       if path.startswith(INSTALLED)})


def check_type_names(tree):
    return check_names({path: code_only(text) for path, text in tree.with_suffix(*SOURCE)
                        if not path.startswith(("tests/", "examples/"))})


def check_dead_files(tree):
    built, included = set(), set()
    for path, text in tree.with_suffix(*BUILD_FILES, ".py"):
        for name in re.findall(r"[\w./-]+\.(?:cpp|hpp|h)\b|'[\w/-]+'", text):
            name = name[1:-1] + ".cpp" if name[0] == "'" else name
            built.add(os.path.normpath(os.path.join(os.path.dirname(path), name)))
    for path, text in tree.with_suffix(*SOURCE):
        included |= {resolve(tree, path, m.group(2)) for m in INCLUDE.finditer(text)}
    for path in tree.files:
        if path.endswith(".cpp") and path not in built:
            yield Finding(path, 1, "dead-file", "named by no build file (expected one)")
        if path.endswith((".hpp", ".h")) and path not in included | built:
            yield Finding(path, 1, "dead-file", "included by nobody (expected somebody)")


RULES = [check_columns, check_file_length, check_function_length, check_orders, check_headers,
         check_cited_files, check_words, check_commented_code, check_environment, check_floors,
         check_rooms, check_installed, check_type_names, check_dead_files, check_documents,
         check_clauses, check_file_tables, check_settings, check_tests_named, check_operations]


def findings(root):
    tree = Tree(root)
    return [finding for rule in RULES for finding in rule(tree)]


def print_cited(root):
    cited, tree = collections.defaultdict(list), Tree(root)
    for name, (_, comment) in tests_of(tree).items():
        for clause in re.findall(r"\b([A-Z]\d+)\b", comment):
            cited[clause].append(name)
    for clause in clauses_of(tree):
        print(clause, *cited[clause])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="check the rules themselves")
    parser.add_argument("--cited", action="store_true", help="print which tests cite each clause")
    args = parser.parse_args()
    if args.self_test:
        sys.path.insert(0, str(pathlib.Path(args.root) / "tests" / "tidy"))
        import planted  # pylint: disable=import-outside-toplevel
        return planted.self_test(sys.modules[__name__])
    if args.cited:
        return print_cited(args.root)
    found = findings(args.root)
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.text}")
    wrong = sum(finding.rule not in ADVICE for finding in found)
    if wrong:
        print(f"tidy: {wrong} findings", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
