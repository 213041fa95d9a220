#!/usr/bin/env python3
"""Each run takes the tests of its tier, and a model runs when its sources changed by a byte.
usage: tiers_test.py TOOLS_FOLDER MODEL_FOLDER"""
import pathlib
import shutil
import sys
import tempfile

sys.path[:0] = sys.argv[1:3]
import tiers  # noqa: E402 (found there)
import verified  # noqa: E402

BUDGETS = """# a comment
unit | quick 10 | long 20 | -
unit long | long 30 | - | -
unit * | quick 5 | quick 5 | quick 5
model_* | long 60 | - | -
"""
NAMES = ["unit", "unit long", "unit x", "model_a", "model_b", "new"]


def take_what_is_asked():
    """A test's own row goes before a pattern; one without a row is run, and so told of."""
    budgets = tiers.read_budgets(BUDGETS)
    for build, tier, expected in (
            ("plain", "quick", ["unit", "unit x", "new"]),
            ("plain", "long", ["unit long", "new"]),
            ("plain", "all", ["unit", "unit long", "unit x", "model_b", "new"]),
            ("plain", "models", ["model_b"]),
            ("asan", "quick", ["unit x", "new"]),
            ("asan", "long", ["unit", "new"]),
            ("tsan", "all", ["unit x", "model_b", "new"])):
        found = tiers.chosen(NAMES, build, tier, budgets, {"model_b"})
        assert found == expected, (build, tier, found)
    assert tiers.budget_of("heddle:unit / unit long", "plain", budgets) == ("long", 30)
    assert tiers.budget_of("heddle:unit / unit long", "tsan", budgets) is None
    for wrong in ("x | soon 10 | - | -", "x | quick | - | -"):
        try:
            tiers.read_budgets(wrong)
        except SystemExit as end:
            assert "expected a tier" in str(end)
        else:
            raise AssertionError(f"{wrong} was read")


def run_models_again():
    """In a copy, where a model includes a header that includes another."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in (("tests/model/explore.hpp", 'depth("HEDDLE_MODEL_BOUND", 2)'
                            ' depth("HEDDLE_MODEL_RANDOM", 100\'000)'),
                           ("tests/model/a_test.cpp", '#include "scheduler/a.hpp"\n'),
                           ("tests/model/b_test.cpp", ""), ("tests/model/meson.build", ""),
                           ("scheduler/barrier.cpp", ""),
                           ("scheduler/a.hpp", '#include "b.hpp"\n'), ("scheduler/b.hpp", "")):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        verified.ROOT, verified.HERE = root, root / "tests" / "model"
        verified.VERIFIED = verified.HERE / "verified.txt"
        names = ["model_a_test", "model_b_test"]
        assert verified.changed(names) == set(names)
        log = root / "log"
        log.write_text('{"name": "heddle:model / model_a_test", "result": "OK", "stdout": '
                       '"7 schedules to context bound 2, 5 random"}\n'
                       '{"name": "heddle:model / model_b_test", "result": "FAIL"}\n',
                       encoding="utf-8")
        before = {name: verified.hash_of(name) for name in names}
        verified.record(log, before | {"model_a_test": "changed meanwhile"})
        assert verified.changed(names) == set(names)
        verified.record(log, before)
        assert verified.changed(names) == {"model_b_test"}
        assert "| 2 | 100000 | 7 |" in verified.VERIFIED.read_text(encoding="utf-8")
        (root / "scheduler" / "b.hpp").write_text("\n", encoding="utf-8")
        assert verified.changed(names) == set(names)
        (root / "scheduler" / "b.hpp").write_text("", encoding="utf-8")
        assert verified.changed(names) == {"model_b_test"}
        shutil.rmtree(root / "scheduler")
        assert verified.changed(names) == set(names)


def main():
    take_what_is_asked()
    # The list that is used can be read, and names both tiers.
    rows = tiers.read_budgets(tiers.BUDGETS.read_text(encoding="utf-8")).values()
    assert {row["plain"][0] for row in rows if row["plain"]} == set(tiers.TIERS)
    run_models_again()


if __name__ == "__main__":
    main()
