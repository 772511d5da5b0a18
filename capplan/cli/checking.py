"""Commands that ask about a plan: one that somebody proposes, and why the own one is as it is."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.shared import AsJson, BookFolder, Given, answer, app, grouped, say
from capplan.errors import CapplanError


class Asked(Enum):
    """What can be asked about a plan."""

    why = "why"
    why_not = "why-not"
    what_binds = "what-binds"
    wait = "wait"


@app.command("check-plan")
@grouped
def check_plan(
    book: BookFolder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV of purchases (offer_id, lots, quarter), such as a report's purchases.csv; or of a placement (task_id, nodes, start).",
        ),
    ],
    *,
    given: Given,
    broken_code: Annotated[int, typer.Option("--broken-code", min=0, max=125, help="Exit code where a constraint is broken.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check a plan from anywhere against BOOK: what it breaks and by how much, what it costs, and how far it is from the proven plan."""
    from capplan.answers.proposed import checked_placement, checked_purchases
    from capplan.book.book import load_book
    from capplan.book.proposed import PLACEMENT, read_proposed
    from capplan.text import readable

    loaded = load_book(book)
    chosen = loaded.scenario_with(**given.values())
    proposed = read_proposed(files)
    say(f"capplan: planning {loaded.name} to hold {', '.join(file.name for file in files)} against it")
    check = checked_placement if proposed.kind == PLACEMENT else checked_purchases
    found = check(loaded, chosen, proposed)
    words = [(row.words, getattr(row, "forbids", True)) for row in found.broken.itertuples()]
    said = [f"  {'breaks' if forbids else 'but'}: {text}" for text, forbids in words]
    shown = "\n".join([found.headline, *said, readable(found.costs).to_string(index=False)])
    answer(as_json, found.headline, chosen.model_dump(mode="json"), found.tables, list(found.notes), shown)
    if broken_code and not found.in_order:
        raise typer.Exit(broken_code)


@app.command()
@grouped
def explain(
    place: Annotated[Path, typer.Argument(metavar="BOOK|REPORT", help="Folder of a book, which is planned for it, or of a report.")],
    question: Annotated[
        Asked,
        typer.Argument(metavar="QUESTION", help="why or why-not (an offer, contract, accelerator or alternative), what-binds or wait."),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What `why` and `why-not` ask about, such as an offer or 'renew CONTRACT'.")
    ] = "",
    *,
    given: Given,
    as_json: AsJson = False,
) -> None:
    """Answer from the plan's own tables: why or why not an offer or a renewal, what binds, what would make us wait."""
    from capplan.outputs.run.explain import explain_place

    named = question in (Asked.why, Asked.why_not)
    if named != bool(name.strip()):
        told = f"needs a name: capplan explain PLACE {question.value} OFFER" if named else "takes no name"
        raise CapplanError(f"{question.value} {told}")
    found = explain_place(place, question.value, name, given.values(), say)
    pairs = zip(found.sentences["words"], found.traces, strict=True)
    lines = [line for words, ids in pairs for line in (words, *([f"  trace: {ids}"] if ids else []))]
    answer(as_json, found.headline, {}, {"sentences": found.sentences, "figures": found.figures}, [], "\n".join(lines))
