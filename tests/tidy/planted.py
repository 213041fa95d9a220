"""What tools/tidy.py must catch: a clean tree, and one violation of each rule planted in it. Run by
tidy.py --self-test."""
import pathlib
import shutil
import tempfile


def clean_tree(tidy):
    """Files without a finding."""
    return {
        "include/heddle/a.hpp": "// Owns a.\n#pragma once\n",
        "include/heddle/devices.hpp": '// Owns b.\n#pragma once\n#include "heddle/a.hpp"\n',
        "jit/meson.build": "# Floor 2.\nx = files('a.cpp')\n",
        "jit/a.hpp": "// Owns c.\n#pragma once\nnamespace n {\nstruct Twin {\n};\n"
                     "}  // namespace n\n",
        "jit/a.cpp": '// Implements c.\n#include "jit/a.hpp"\n#include "heddle/devices.hpp"\n'
                     "// n = 1 means a wait;\n// f(n) is of one thread;\n// if (rarely) ever\n"
                     "int f() {\n  // relaxed: a count.\n"
                     "  return n.load(std::memory_order_relaxed);\n}\n"
                     "const char* text = \"getenv { ( \"; int big = 1'000'000;\n",
        "scheduler/meson.build": "# Floor 1.\nx = files('s.cpp')\n",
        "scheduler/s.cpp": '// Implements s.\n#include "heddle/a.hpp"\n',
        "tests/meson.build": "# Tests.\ntest('alone', x)\nx = files('t.cpp')\n",
        "tests/t.cpp": '// Tests.\n#include "heddle/graph_ops.hpp"\n// S1\nTEST(Suite, Works) {}\n'
                       "TEST(SuiteTest, Works) {}\n",
        "README.md": "# Words\n| " + "wide " * 50 + "|\nsee [b](jit/a.cpp)\n"
                     "| `HEDDLE_LOG` | warn | `how` |\n"
                     "<!-- jit/a.hpp -->\n```cpp\n  #pragma once\n```\n```\n[](int x) {}\n```\n",
        "runtime/settings/config.cpp": "// Reads.\n"
                              'constexpr V v[] = {{"HEDDLE_LOG", "warn", "how", x}};\n',
        "runtime/meson.build": "# Floor 3.\nx = files('settings/config.cpp')\n",
        "include/heddle/graph_ops.hpp": "// Owns d.\n#pragma once\nNode made(const Node& x);\n",
        "docs/operations-of-graphs.md": "| `made` | `SuiteTest.Works` |\n",
        "docs/contract.md": "S1  Works.\nB2  Works as\n    well. Open: all of it.\n",
        "docs/clauses.md": "| S1 | `Suite.Works` |\n| B2 | open: all of it |\n" +
                           "".join(f"| {row} | `Suite.Works` |\n" for row in tidy.ROWS[:-2]) +
                           "| O57 | decided: not here |\n| O58 | `meson test alone` |\n"
                           "| case | shown by |\n| --- | --- |\n| no memory | `Suite.Works` |\n",
    }


def planted(tidy, clean):
    """(what, rule, file, line, content): each breaks one rule of the clean tree."""
    start = "// Owns c.\n#pragma once\n"
    body = "".join(f"  g({n});\n" for n in range(tidy.FUNCTION_LINES_LONG))
    clauses, rows = clean["docs/clauses.md"], 2 + len(tidy.ROWS)
    return [
        ("wide source", "columns", "jit/a.hpp", 3, start + "//" + "x" * 99 + "\n"),
        ("wide prose", "columns", "README.md", 1, "word " * 25 + "\n"),
        ("wide build file", "columns", "jit/meson.build", 2, clean["jit/meson.build"][:11] +
         "x = files('a.cpp')" + " " * 90 + "#\n"),
        ("long file", "file-length", "jit/a.hpp", 603, start + "int x;\n" * 601),
        ("long function", "function-length", "jit/a.hpp", 3, start + "int f() {\n" + body + "}\n"),
        ("long template member", "function-length", "jit/a.hpp", 4, start +
         "class A {\n  template <class T> A(T t) : t_{1} {\n" + body + "}\n};\n"),
        ("bare order", "order-comment", "jit/a.hpp", 7, start + "// relaxed: a count\n" +
         "int a;\n" * 3 + "auto x = n.load(std::memory_order_relaxed);\n"),
        ("fence", "fence", "jit/a.hpp", 4, start +
         "// seq_cst: pairs with nothing\nstd::atomic_thread_fence(std::memory_order_seq_cst);\n"),
        ("no guard", "include-guard", "jit/a.hpp", 1, "// Owns c.\n"),
        ("no header comment", "header-comment", "jit/a.hpp", 1, "#pragma once\n"),
        ("foreign file", "cited", "include/heddle/a.hpp", 3, start + "struct A;  // jit/a.hpp\n"),
        ("foreign row", "cited", "include/heddle/a.hpp", 3, start + "int a;  // as asked (O12)\n"),
        ("tab", "tab", "jit/a.hpp", 3, start + "\tint x;\n"),
        ("unfinished", "unfinished", "README.md", 1, "TO" + "DO: more\n"),
        ("machine path", "machine-path", "README.md", 1, "see /wo" + "rk/main\n"),
        ("commented call", "commented-code", "jit/a.hpp", 3, start + "// f(1, g());\n"),
        ("commented assignment", "commented-code", "jit/a.hpp", 3, start + "// int x = 1;\n"),
        ("commented loop", "commented-code", "jit/a.hpp", 3, start + "  // for (;;) {\n"),
        ("dead link", "link", "README.md", 2, "# Words\n[b](jit/gone.cpp)\n"),
        ("false quote", "quote", "README.md", 4,
         "<!-- jit/a.hpp -->\n```cpp\n#pragma once\nint gone;\n```\n"),
        ("environment", "environment", "jit/a.hpp", 3, start + 'auto x = getenv("X");\n'),
        ("higher floor", "floors", "scheduler/s.cpp", 2, '// s\n#include "jit/a.hpp"\n'),
        ("upward from the vocabulary", "floors", "include/heddle/a.hpp", 3,
         start + '#include "scheduler/s.cpp"\n'),
        ("sibling", "floors", "devices/d.hpp", 3, start + '#include "jit/a.hpp"\n'),
        ("later room", "rooms", "jit/value/v.hpp", 3, start + '#include "jit/a.hpp"\n'),
        ("no room", "rooms", "jit/attic/a.hpp", 1, start),
        ("unknown include", "floors", "jit/a.hpp", 3, start + '#include "jit/none.hpp"\n'),
        ("conformance looks inside", "floors", "tests/device/c.hpp", 3,
         start + '#include "jit/a.hpp"\n'),
        ("inside of a handle", "face", "include/heddle/a.hpp", 7, start +
         "struct Inner;\nclass A {\n public:\n  friend struct Inner;\n  Inner& state() const;\n\n"
         " private:\n  Inner* state_;\n};\n"),
        ("handle from its inside", "face", "include/heddle/a.hpp", 6, start +
         "namespace n {\nstruct Inner;\n}\nstruct A { explicit A(n::Inner* inner); };\n"),
        ("two types of one name", "twins", "include/heddle/devices.hpp", 4,
         clean["include/heddle/devices.hpp"] + "namespace n { class Twin {}; } struct Twin {};\n"),
        ("two types of one name inside", "twins", "jit/b.hpp", 4,
         clean["jit/a.hpp"]),
        ("dead source", "dead-file", "jit/b.cpp", 1, "// Implements b.\n"),
        ("dead header", "dead-file", "jit/b.hpp", 1, start),
        ("another default", "settings", "README.md", 4,
         clean["README.md"].replace("| warn |", "| info |")),
        ("missing variable", "settings", "README.md", 12,
         clean["README.md"].replace("| `HEDDLE_LOG` | warn | `how` |\n", "\n")),
        ("operation without a row", "operations", "include/heddle/graph_ops.hpp", 3,
         clean["include/heddle/graph_ops.hpp"].replace("made", "other")),
        ("test that is gone", "test-name", "docs/operations-of-graphs.md", 1,
         clean["docs/operations-of-graphs.md"].replace("Works", "Gone")),
        ("missing test", "clauses", "docs/clauses.md", 1,
         clauses.replace("Suite.Works", "Suite.Gone", 1)),
        ("missing test of a case", "clauses", "docs/clauses.md", rows + 3,
         clauses.replace("| no memory | `Suite.Works`", "| no memory | `Suite.Gone`")),
        ("missing meson test", "clauses", "docs/clauses.md", rows,
         clauses.replace("test alone", "test gone")),
        ("open unsaid", "clauses", "docs/clauses.md", 1,
         clauses.replace("Suite.Works`", "Suite.Works`. open: a part", 1)),
        ("open no more", "clauses", "docs/clauses.md", 2,
         clauses.replace("open: all of it", "`Suite.Works`")),
        ("file that lies elsewhere", "file-table", "jit/README.md", 4,
         "# jit\n| file | owns |\n| --- | --- |\n| `a.*`, `gone.*` | c |\n"),
        ("missing row", "clauses", "docs/clauses.md", 1, clauses.split("\n", 1)[1]),
        ("new clause", "clauses", "docs/clauses.md", 1, clauses.replace("| B2 |", "| B1 |")),
        ("empty clause", "clauses", "docs/clauses.md", rows - 1,
         clauses.replace("decided: not here", "-")),
    ]


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def self_test(tidy):
    """0 when every planted violation is found, and none in the clean tree."""
    clean, failed = clean_tree(tidy), 0
    with tempfile.TemporaryDirectory(prefix="heddle-tidy-") as folder:
        root = pathlib.Path(folder)
        cases = [("clean tree", None, "README.md", 0, clean["README.md"]), *planted(tidy, clean)]
        for what, rule, path, line, text in cases:
            shutil.rmtree(root)
            write(root, clean | {path: text})
            found = tidy.findings(root)
            caught = not found if rule is None else any(
                (f.rule, f.path, f.line) == (rule, path, line) for f in found)
            print(f"{'ok' if caught else 'FAILED'}: {what}")
            if not caught:
                print(*found, sep="\n")
                failed = 1
    return failed
