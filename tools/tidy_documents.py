"""Whether documents quote and link what exists, docs/clauses.md tests above all, and README.md's
table of the environment is the code's. Part of tidy.py."""
import collections
import itertools
import re

from tidy_includes import Finding

CLAUSE = re.compile(r"^([A-Z]\d+) +\S", re.MULTILINE)
ROWS = [f"O{n}" for n in range(1, 59)]  # of the inventory, see docs/contract.md

def lines_of(text):
    return enumerate(text.splitlines(), start=1)


TEST = re.compile(r"^[ \t]*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)"
                  r"\(\s*(\w+)\s*,\s*(\w+)", re.MULTILINE)


def tests_of(tree):
    """Full name to (path, the comment right above and on its first lines) of every GoogleTest."""
    found = {}
    for path, text in tree.with_suffix(".cpp"):
        if not path.startswith("tests/"):
            continue
        for match in TEST.finditer(text):
            is_comment = re.compile(r"\s*//").match
            above = itertools.takewhile(is_comment, reversed(text[:match.start()].splitlines()))
            below = itertools.takewhile(is_comment, text[match.end():].splitlines()[1:])
            found[f"{match.group(1)}.{match.group(2)}"] = (path, "\n".join([*above, *below]))
    return found


def clauses_of(tree):
    """Names of the contract's clauses, in its order, then of the inventory's rows."""
    return CLAUSE.findall(tree.files.get("docs/contract.md", "")) + ROWS


CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
QUOTE = re.compile(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def check_documents(tree):
    """Relative links lead somewhere; a block under `<!-- FILE -->` holds lines of it, in order."""
    for path, text in tree.with_suffix(".md"):
        folder = (tree.root / path).parent
        prose = CODE_BLOCK.sub(lambda m: "\n" * m.group().count("\n"), text)
        for match in LINK.finditer(prose):
            if not (folder / match.group(1)).exists():
                yield Finding(path, prose.count("\n", 0, match.start()) + 1, "link",
                              f"{match.group(1)} (expected a file or folder of the project)")
        for match in QUOTE.finditer(text):
            number = text.count("\n", 0, match.start(2)) + 1
            source = folder / match.group(1)
            rest = iter(source.read_text(encoding="utf-8").splitlines() if source.exists() else [])
            for offset, line in enumerate(match.group(2).splitlines()):
                if line and not any(line.strip() == other.strip() for other in rest):
                    yield Finding(path, number + offset, "quote", f"{line.strip()!r} (expected "
                                  f"lines of {match.group(1)}, in order)")
                    break


CLAUSE_TEXT = re.compile(r"^([A-Z]\d+) +\S.*?(?=^[A-Z]\d+ |^#|\Z)", re.MULTILINE | re.DOTALL)


def open_clauses_of(tree):
    """Clauses of which the contract says what is still missing."""
    return {match.group(1) for match in CLAUSE_TEXT.finditer(tree.files.get("docs/contract.md", ""))
            if re.search(r"\bOpen:", match.group())}


def check_clauses(tree):
    path = "docs/clauses.md"
    if path not in tree.files:
        yield Finding(path, 1, "clauses", "no such file (expected the table of clauses and tests)")
        return
    tests = tests_of(tree)
    meson = {name for _, text in tree.with_suffix("meson.build")
             for name in re.findall(r"\btest\('([\w-]+)'", text)}
    budgets = tree.files.get("tests/budgets.txt", "")
    meson |= set(re.findall(r"^([\w-]+) *\|", budgets, re.MULTILINE))
    seen, unfinished = collections.Counter(), open_clauses_of(tree)
    for number, line in lines_of(tree.files[path]):
        row = re.match(r"\|\s*([^|]*?)\s*\|(.*)\|\s*$", line)
        if not row or row.group(2).strip() in ("shown by", "---"):
            continue
        clause, entry = row.groups()  # also a bad input or a weak point, in words
        seen[clause] += 1
        names = re.findall(r"`(\w+\.\w+)`", entry)
        runs = re.findall(r"`meson test ([\w-]+)`", entry)
        for name in names:
            if name not in tests:
                yield Finding(path, number, "clauses", f"{clause} names {name} (expected a test)")
        for name in runs:
            if name not in meson:
                yield Finding(path, number, "clauses",
                              f"{clause} names meson test {name} (expected one that exists)")
        if not names and not runs and not re.search(r"(decided|open): \w", entry):
            yield Finding(path, number, "clauses", f"{clause} has nothing (expected tests, "
                          "'decided: why' or 'open: what is missing')")
        told = "open:" in entry
        if re.fullmatch(r"[A-NP-Z]\d+", clause) and told != (clause in unfinished):
            yield Finding(path, number, "clauses", f"{clause} is {'' if told else 'not '}open "
                          "(expected as in docs/contract.md, whose clause says 'Open: ...')")
    for clause in clauses_of(tree):
        if seen[clause] != 1:
            yield Finding(path, 1, "clauses", f"{clause} has {seen[clause]} rows (expected 1)")


TEST_NAME = re.compile(r"`(\w+Test\.\w+)`")
OPERATION = re.compile(r"^(?:  friend )?(?:Node|TopK|std::vector<Node>) (\w+)\(", re.MULTILINE)
OPERATIONS = "docs/operations-of-graphs.md"


def check_tests_named(tree):
    """Tests that documents name exist; docs/clauses.md has a rule of its own."""
    tests = tests_of(tree)
    for path, text in tree.with_suffix(".md"):
        if path == "docs/clauses.md":
            continue
        for number, line in lines_of(text):
            for name in TEST_NAME.findall(line):
                if name not in tests:
                    yield Finding(path, number, "test-name", f"{name} (expected a test)")


def check_operations(tree):
    """Each operation on nodes is in a first cell of the table of operations and tests."""
    cells = re.findall(r"^\| (`.*?) \| ", tree.files.get(OPERATIONS, ""), re.MULTILINE)
    said = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    for path in ("include/heddle/graph.hpp", "include/heddle/graph_ops.hpp"):
        text = tree.files.get(path, "")
        for match in OPERATION.finditer(text):
            if match.group(1) not in said | {"operator"}:
                yield Finding(path, text.count("\n", 0, match.start()) + 1, "operations",
                              f"{match.group(1)} (expected a row in {OPERATIONS})")


FILE_TABLE = re.compile(r"^\| files? \| owns? \|\n(?:\|.*\n)+", re.MULTILINE)


def check_file_tables(tree):
    """A table of files names them as they lie below its folder; `a.*` is a.hpp and a.cpp."""
    for path, text in tree.with_suffix(".md"):
        folder = path.rpartition("/")[0]
        for table in FILE_TABLE.finditer(text):
            number = text.count("\n", 0, table.start()) + 1
            for offset, line in enumerate(table.group().splitlines()):
                for name in re.findall(r"`([\w/-]+\.[\w*]+)`", line.split(" | ")[0]):
                    wanted = f"{folder}/{name}"
                    there = (any(wanted[:-1] + end in tree.files for end in ("cpp", "hpp"))
                             if name.endswith(".*") else wanted in tree.files)
                    if not there:
                        yield Finding(path, number + offset, "file-table",
                                      f"{name} (expected a file below {folder or 'the root'})")


VARIABLE = re.compile(r'\{"(HEDDLE_\w+)", "([^"]*)",\s*"([^"]*)",')
VARIABLE_ROW = re.compile(r"^\| `(HEDDLE_\w+)` \|(.*)\|(.*)\|$", re.MULTILINE)


def check_settings(tree):
    """README.md's table of variables says what `heddle info` says, in its order."""
    config, readme = "runtime/settings/config.cpp", tree.files.get("README.md", "")
    expected = VARIABLE.findall(tree.files.get(config, ""))
    found = [(name, *(cell.strip().replace("`", "") for cell in cells))
             for name, *cells in VARIABLE_ROW.findall(readme)]
    for was, wanted in itertools.zip_longest(found, expected):
        if was != wanted:
            at = readme.find(f"| `{was[0]}` |") if was else len(readme)
            yield Finding("README.md", readme.count("\n", 0, at) + 1, "settings",
                          f"{was and ' | '.join(was)} (expected {wanted and ' | '.join(wanted)}, "
                          f"as in {config})")
            return
