"""Write FORMULATION.md: the whole purchase program, one line a constraint."""

from __future__ import annotations

from pathlib import Path

from capplan.questions.procurement.program.formulation import formulation

if __name__ == "__main__":
    Path(__file__).resolve().parents[1].joinpath("FORMULATION.md").write_text(formulation(), encoding="utf-8")
