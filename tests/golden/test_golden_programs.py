"""The program of each kind of constraint, written out whole: as accepted, and solved from the file by another way."""

from __future__ import annotations

from pathlib import Path

import highspy
import pytest

from capplan.optimize.two_stage import solve_two_stage
from tests.cases.golden_programs import CASES, FOLDER, SHOWS, lp_text


@pytest.mark.parametrize("name", CASES)
def test_the_program_is_the_accepted_one_and_its_file_has_the_same_optimum(name: str, tmp_path: Path) -> None:
    text, program = lp_text(name, tmp_path)
    accepted = (FOLDER / f"{name}.lp").read_text(encoding="utf-8")
    assert text == accepted, f"tests/golden/{name}.lp differs; if the change is meant, write it anew: python -m tests.cases.golden_programs"
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.readModel(str(FOLDER / f"{name}.lp"))
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    own = solve_two_stage(program, 0.0, 0.2, 1e-9, method="l_shaped")
    assert own.upper == pytest.approx(solver.getInfo().objective_function_value, rel=1e-7, abs=1e-3)


def test_every_file_belongs_to_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.lp")} == set(CASES) == set(SHOWS)
