"""The page of the formulation: current, whole, and each line beside a program that a person can read."""

from __future__ import annotations

import inspect
import subprocess
import sys

from capplan.questions.procurement.program import formulation, limit_rows
from capplan.questions.procurement.program.ways_to_serve import Sources
from tests.cases.golden_programs import CASES
from tests.conftest import ROOT


def test_the_page_is_current() -> None:
    assert (ROOT / "FORMULATION.md").read_text(encoding="utf-8") == formulation.formulation(), "run python tools/formulation.py"


def test_every_rule_has_a_line_and_every_program_belongs_to_one() -> None:
    listed = [function for function, _ in (*formulation.FIRST, *formulation.SECOND)]
    assert len(set(listed)) == len(listed)
    assert set(limit_rows.LIMITS.values()) <= set(listed)
    adding = {function for name, function in inspect.getmembers(Sources, inspect.isfunction) if "add_row(" in inspect.getsource(function)}
    assert adding <= set(listed)
    named = {name for _, golden in (*formulation.FIRST, *formulation.SECOND) for name in golden}
    assert named == set(CASES)
    assert all(golden for _, golden in (*formulation.FIRST, *formulation.SECOND))


def test_the_command_writes_the_page(tmp_path) -> None:
    (tmp_path / "tools").mkdir()
    file = tmp_path / "tools" / "formulation.py"
    file.write_text((ROOT / "tools" / "formulation.py").read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run([sys.executable, str(file)], check=True)
    assert (tmp_path / "FORMULATION.md").read_text(encoding="utf-8") == formulation.formulation()
