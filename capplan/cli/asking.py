"""The command that takes a question in plain words."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from capplan.cli.shared import AsJson, BookFolder, Given, Out, answer, app, grouped, say


@app.command()
@grouped
def ask(
    book: BookFolder,
    question: Annotated[
        str, typer.Argument(metavar='"QUESTION"', help="In English, in quotes: what if spot doubles and base-8b slips a quarter?")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Answer without asking for approval, where all of it was understood.")] = False,
    *,
    given: Given,
    out: Out = Path("reports"),
    as_json: AsJson = False,
) -> None:
    """Read a question in plain words as typed what-ifs, show them, and answer after approval; what is unclear is asked back."""
    from capplan.answers.ask.model import ask_model, model_of, record_of, with_model
    from capplan.answers.ask.reader import Reader
    from capplan.answers.ask.shown import asked_back, reading_text, understood
    from capplan.book.book import load_book
    from capplan.outputs.lab.answering import answer_reading
    from capplan.outputs.lab.asked_record import keep_record
    from capplan.outputs.run.report import folder_name

    loaded = load_book(book)
    chosen = loaded.scenario_with(**given.values())
    reading = Reader(loaded, chosen).read(question)
    readers: list[dict[str, Any]] = [{"reader": "embedded grammar"}]
    model, proposed = model_of(os.environ), 0
    if model is not None:
        say(f"capplan: {model.name} at {model.address} reads it, too ...")
        second = ask_model(model, reading, loaded, chosen)
        reading, proposed = with_model(reading, second), len(second.proposed)
        readers.append(record_of(model, second))
        for line in (f"Model: {second.outcome}.", *second.remarks, *(f"Read by the model alone: {item}" for item in second.proposed)):
            say(line)
    tables = {"understood": understood(reading, loaded, chosen), "asked_back": asked_back(reading)}
    say(reading_text(reading, loaded, chosen))
    there = sys.stdin.isatty() and sys.stderr.isatty()
    unclear = bool(reading.doubts) or not reading.what_ifs
    approved = (yes and not unclear and not proposed) or (
        bool(reading.what_ifs) and there and not yes and typer.confirm(_prompt(unclear), err=True)
    )
    if not approved:
        keep_record(out / folder_name(book), reading, loaded, None, readers)
        alone = "a model alone read some of it, which a person approves"
        why = (
            "not all of it was understood: say it differently" if unclear else alone if proposed else "it was not approved (or give --yes)"
        )
        answer(as_json, f"Nothing was run: {why}.", {}, tables, [])
        raise typer.Exit(2 if unclear or proposed else 0)
    found = answer_reading(reading, loaded, chosen, say)
    keep_record(out / folder_name(book), reading, loaded, found, readers)
    answer(
        as_json,
        found.sentences[0],
        found.scenario.model_dump(mode="json"),
        {**tables, **found.tables},
        list(found.notes) if as_json else [],
        "\n".join(found.lines),
    )


def _prompt(unclear: bool) -> str:
    return "Answer what was understood, without the rest?" if unclear else "Answer this?"
