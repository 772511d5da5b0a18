"""The runner of changes: what it calls noticed, survived, stale and broken, and that it puts back what it changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.run import ROOT, Mutant, Runner, judged, keep, read_kept, read_mutants

AREAS = {
    *("ledger", "pricing", "procurement", "portfolio", "demand", "serving"),
    *("cluster", "split", "crossover", "outputs", "ingest", "reports"),
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "capplan").mkdir()
    (tmp_path / "capplan" / "__init__.py").write_text("def total(a, b):\n    return a + b\n")
    (tmp_path / "test_sums.py").write_text("from capplan import total\n\n\ndef test_total():\n    assert total(2, 2) == 4\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow', 'browser', 'office']\n")
    return tmp_path


def by_hand(tests, reached):
    """The exit code that pytest would give, at once; None for a test that would never end."""
    file = Path(reached[0])
    assert reached[1] == [2]
    if not (file.parents[1] / tests[0]).exists():
        return 4, ""
    made = {}
    try:
        exec(file.read_text(), made)
    except SyntaxError:
        return 2, ""
    return (None if "while" in file.read_text() else int(made["total"](2, 2) != 4)), "it"


@pytest.mark.parametrize(
    ("old", "new", "tests", "reason", "verdict"),
    [
        ("a + b", "a - b", "test_sums.py", "", "noticed"),
        ("a + b", "a +", "test_sums.py", "", "noticed"),
        ("return a + b", "while True: pass", "test_sums.py", "", "noticed"),
        ("a + b", "a * b", "test_sums.py", "", "survived"),
        ("a + b", "b + a", "test_sums.py", "the same", "accepted"),
        ("a / b", "a * b", "test_sums.py", "", "stale"),
        ("a", "b", "test_sums.py", "", "stale"),
        ("a + b", "a - b", "test_nothing.py", "", "broken"),
    ],
)
def test_verdicts_and_what_was_changed_is_put_back(project, old, new, tests, reason, verdict):
    file = project / "capplan" / "__init__.py"
    before = file.read_text()
    assert judged(Mutant("outputs", "capplan/__init__.py", old, new, tests, reason), project, by_hand)[0] == verdict
    assert file.read_text() == before


def test_what_was_found_holds_until_the_file_or_its_tests_change(project, tmp_path):
    mutant = Mutant("outputs", "capplan/__init__.py", "a + b", "a - b", "test_sums.py::test_total")
    first, kept = mutant.digest(project), tmp_path / "elsewhere" / "kept.jsonl"
    assert read_kept(kept) == {}
    for verdict in ("broken", "noticed"):
        keep(kept, {"digest": first, "verdict": verdict})
    with kept.open("a") as file:
        file.write('{"digest": "cut')
    assert read_kept(kept) == {first: {"digest": first, "verdict": "noticed"}}
    seen = {first}
    for file in ("capplan/__init__.py", "test_sums.py"):
        (project / file).write_text((project / file).read_text() + "# more\n")
        seen.add(mutant.digest(project))
    assert len(seen) == 3


@pytest.mark.slow
def test_a_test_of_a_copy_sees_the_copy_and_the_one_that_reaches_the_change_comes_first(project):
    (project / "test_sums.py").write_text(
        "import time\nfrom pathlib import Path\nfrom capplan import total\n\n\ndef test_quick():\n    pass\n\n\n"
        "def test_total():\n    time.sleep(0.05)\n    assert total(2, 2) == 4\n\n\n"
        "def test_last():\n    Path('order').write_text('last')\n"
    )
    mutant = Mutant("outputs", "capplan/__init__.py", "a + b", "a - b", "test_sums.py")
    with Runner(project, {mutant.file: [2]}) as runner:
        assert runner(["test_sums.py"])[0] == 0
        assert (project / "order").exists()
        (project / "order").unlink()
        assert judged(mutant, project, runner) == ("noticed", "test_sums.py::test_total")
        # it was run before the others, and they no more
        assert not (project / "order").exists()
        assert runner.passes("test_sums.py::test_total")
        assert not runner.passes("test_sums.py::test_none_of_this_name")


def test_the_table_reaches_every_part_of_the_product():
    mutants = read_mutants()
    assert len(mutants) >= 150
    assert {mutant.area for mutant in mutants} == AREAS
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        for name in (mutant.file, *mutant.tests.split()):
            file, _, test = name.partition("::")
            assert (ROOT / file).is_file(), mutant
            assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), mutant
