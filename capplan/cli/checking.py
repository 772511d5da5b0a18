"""Commands that ask about a plan: one that somebody proposes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.shared import AsJson, BookFolder, Parameters, ScenarioFile, answer, app, overrides, say
from capplan.errors import CapplanError


@app.command("check-plan")
def check_plan(
    book: BookFolder,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV of purchases (offer_id, lots, quarter), such as a report's purchases.csv.")
    ],
    parameter: Parameters = None,
    scenario: ScenarioFile = None,
    broken_code: Annotated[int, typer.Option("--broken-code", min=0, max=125, help="Exit code where a constraint is broken.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check a plan from anywhere against BOOK: what it breaks and by how much, what it costs, and how far it is from the proven plan."""
    from capplan.answers.proposed import checked_purchases
    from capplan.book.book import load_book
    from capplan.book.proposed import PURCHASES, read_proposed
    from capplan.text import readable

    loaded = load_book(book)
    chosen = loaded.scenario_with(**overrides(parameter, scenario))
    proposed = read_proposed(files)
    if proposed.kind != PURCHASES:
        raise CapplanError(f"{files[0].name} holds a {proposed.kind}; purchases are checked: a CSV with offer_id, lots and quarter")
    say(f"capplan: planning {loaded.name} to hold {', '.join(file.name for file in files)} against it")
    found = checked_purchases(loaded, chosen, proposed)
    tables = {"rows": found.rows, "broken": found.broken, "costs": found.costs, "lots": found.lots}
    shown = "\n".join(
        [
            found.headline,
            *(f"  {'breaks' if row.forbids else 'but'}: {row.words}" for row in found.broken.itertuples()),
            readable(found.costs).to_string(index=False),
        ]
    )
    answer(as_json, found.headline, chosen.model_dump(mode="json"), tables, list(found.notes), shown)
    if broken_code and not found.in_order:
        raise typer.Exit(broken_code)
