"""The commands: every one is one call into the library."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from capplan.book.plain_yaml import read_scenarios
from capplan.cli.shared import (
    AsJson,
    BookFolder,
    Given,
    Out,
    Parameters,
    ScenarioFile,
    answer,
    answer_view,
    app,
    brief,
    grouped,
    named_pairs,
    overrides,
    say,
)
from capplan.errors import CapplanError

prices = typer.Typer(no_args_is_help=True, help="List prices of providers among the reference facts.")
app.add_typer(prices, name="prices")


@dataclass(frozen=True)
class Watched:
    """Who hears of a scheduled run, and how."""

    told: Annotated[
        str,
        typer.Option(
            "--notify",
            metavar="COMMAND|URL",
            help="Told about success, failure or a changed decision: JSON on its standard input, or by POST.",
        ),
    ] = ""
    changed_code: Annotated[
        int, typer.Option("--changed-code", min=0, max=125, help="Exit code where other contracts are signed than in the report before.")
    ] = 0


@app.command()
@grouped
def plan(
    book: BookFolder,
    *,
    given: Given,
    out: Annotated[
        str, typer.Option("--out", help="Folder the reports go to, or a store's address, such as s3://bucket/plans.")
    ] = "reports",
    as_json: AsJson = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the decision with its page, tables and workbook: no search for flips, no notebook.")
    ] = False,
    thorough: Annotated[bool, typer.Option("--thorough", help="Prove the plan within 0.05 % and rehearse it on unseen paths.")] = False,
    watched: Watched,
) -> None:
    """Make the quarterly plan of BOOK and leave the report (the main job)."""
    from capplan.answers.headline import verdicts_said
    from capplan.outputs.run.scheduled import scheduled_plan

    if quick and thorough:
        raise CapplanError("--quick and --thorough were both given; give one of them, or none")
    report, where = scheduled_plan(
        book, given.values(), out, "quick" if quick else "thorough" if thorough else "usual", told=watched.told, say=say
    )
    if as_json:
        answer(as_json, report.plan.headline, report.scenario, report.tables, list(report.warnings))
    else:
        # What waiting is made of stands on the page.
        verdicts = [f"  {row.about}: {row.words}" for row in verdicts_said(report.plan).itertuples()]
        brief(report.plan.headline, verdicts, f"{where}/plan.html", report.warnings)
    if report.changed and watched.changed_code:
        raise typer.Exit(watched.changed_code)


@app.command()
def trace(
    report: Annotated[Path, typer.Argument(help="Folder of a finished report.")],
    figure: Annotated[str, typer.Argument(help="A cell, such as 'plan.xlsx!P&L!D12', or the id of a figure on the page.")],
    as_json: AsJson = False,
) -> None:
    """Show the lines, prices, contracts, assumptions and sources behind a figure of REPORT."""
    from capplan.outputs.run.trace import trace_figure

    found = trace_figure(report, figure)
    tables = {"lines": found.lines, "prices": found.prices, "assumptions": found.assumptions}
    whole = "\n\n".join([found.headline, *(frame.to_string(index=False) for frame in tables.values() if len(frame))])
    answer(as_json, found.headline, {}, tables, [], whole)


@app.command()
@grouped
def run(
    question: Annotated[str, typer.Argument(help="Question to answer: the stem of a notebook, such as demand or plan.")],
    book: BookFolder,
    *,
    given: Given,
    out: Out = Path("reports"),
    as_json: AsJson = False,
) -> None:
    """Run one notebook on BOOK without a person, and keep the executed notebook."""
    from capplan.outputs.run.report import answer_question

    found = answer_question(question, book, given.values(), out, say)
    answer_view(as_json, found.view, found.scenario, "answer", f"Notebook: {found.path}")


@app.command()
def questions(as_json: AsJson = False) -> None:
    """List the questions that `capplan run` answers."""
    from capplan.outputs.run.notebooks import asked_by, notebooks

    asked = {name: asked_by(path) for name, path in notebooks().items()}
    typer.echo(json.dumps(asked) if as_json else "\n".join(f"{name:<12} {text}" for name, text in asked.items()))


@app.command()
def check(
    book: BookFolder,
    parameter: Parameters = None,
    scenario: ScenarioFile = None,
    untrusted: Annotated[bool, typer.Option("--untrusted", help="Read BOOK in a process with limits of memory, time and files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check all tables of BOOK and whether a plan can start, and list every fault at once."""
    if untrusted:
        from capplan.cli.untrusted import check_untrusted

        given = [part for each in parameter or [] for part in ("-p", each)] + (["--scenario", str(scenario)] if scenario else [])
        check_untrusted([*given, *(["--json"] if as_json else []), "--", str(book)])
        return
    from capplan.answers.readiness import require_ready
    from capplan.book.book import load_book

    loaded = load_book(book)
    chosen = loaded.scenario.replaced(**overrides(parameter, scenario))
    require_ready(loaded.with_changes(chosen.changes), chosen)
    headline = f"{loaded.name}: its {len(loaded.own)} tables are in order, and a plan can start ({', '.join(loaded.own)})."
    answer(as_json, headline, chosen.model_dump(mode="json"), {}, list(loaded.notes))


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make.")],
    source: Annotated[
        str | None,
        typer.Option("--from", help="Example book to start from: api_first, enterprise or on_prem; without it the book is empty."),
    ] = None,
    as_of: Annotated[str, typer.Option("--as-of", help="Day the plan is made (YYYY-MM-DD); empty = the day after the last usage.")] = "",
) -> None:
    """Make a new book, empty or as a copy of an example."""
    from capplan.book.book import new_book

    typer.echo(new_book(folder, source, as_of))


@app.command()
def start(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Bills, logs, job tables, price sheets, lists of contracts, tables; folders and patterns too."
        ),
    ],
    book: Annotated[Path, typer.Option("--book", help="Folder of the book to make.")] = Path("mybook"),
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="WORKLOAD=MODEL", help="Model that serves a workload counted in requests or tokens; repeat for more."
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="NAME=VALUE", help="Option for reading, such as timezone=Europe/Berlin.")
    ] = None,
    parameter: Parameters = None,
    as_json: AsJson = False,
) -> None:
    """Make a first book of the files you have, and a first plan in seconds, with all that was assumed."""
    from capplan.outputs.run.start import start as begin

    def ask(question: str, answers: Sequence[str]) -> str:
        say(f"{question} {', '.join(answers)}")
        return str(typer.prompt("Model", err=True))

    there = sys.stdin.isatty() and sys.stderr.isatty()
    found = begin(
        files,
        book,
        models=named_pairs(model, "--model"),
        options=overrides(option, None),
        values=overrides(parameter, None),
        ask=ask if there else None,
        say=say,
    )
    answer(
        as_json,
        found.plan.headline,
        found.plan.scenario.model_dump(mode="json"),
        {"assumed": found.assumed, "gaps": found.gaps},
        list(found.notes),
        found.text,
    )


@app.command()
def ingest(
    format_: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT", help="auto, requests, rates, jobs, slurm, telemetry, prices, contracts or focus; nothing = list what came in."
        ),
    ] = None,
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE...", help="Files, folders, or patterns in quotes.")] = None,
    into: Annotated[Path | None, typer.Option("--into", help="Book that receives the tables; without it the files are only read.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", metavar="NAME=VALUE", help="Option of the format, such as workload=chat; repeat for more."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put the files in the place of all earlier ones of their format.")] = False,
    undo: Annotated[str | None, typer.Option("--undo", metavar="FILE", help="Take a file back, by name or number.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn foreign files into tables of a book: parts are added, each job and row counts once, a restated bill replaces."""
    from capplan.ingest.command import ingest_command

    found = ingest_command(format_, files or [], into, overrides(option, None), replace=replace, undo=undo)
    answer(as_json, found.headline, {}, found.tables, list(found.notes))


@prices.command("import")
def import_prices(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Public price sheets of providers.")],
    into: Annotated[Path, typer.Option("--into", help="Folder of reference facts, with prices/PROVIDER.csv.")] = Path("data/reference"),
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="MACHINE", help="Add its offers where the facts have none; all = every machine.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="NAME=VALUE", help="Option of price sheets, such as as_of=2026-11-01.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Renew list prices from a provider's public sheet: one file a provider, checked as a whole, or nothing."""
    from capplan.ingest.price_file import import_prices as renew

    found = renew(files, into, overrides(option, None), add or ())
    answer(as_json, found.headline, {}, found.tables, list(found.notes))


@app.command()
@grouped
def sweep(
    book: BookFolder,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="FIELD=VALUES",
            help="Assumption, 'changes=a what-if with [values]', or 'scenario=files', and its values: a,b,c or low:high:count; repeat.",
        ),
    ] = None,
    sample: Annotated[
        str,
        typer.Option(
            "--sample",
            metavar="KIND:N",
            help="Not every combination, but sobol:N, N evenly spread points of the ranges, or saltelli:N, N x (ranges + 2) points that"
            " show which share of the cost's variance each assumption causes.",
        ),
    ] = "",
    *,
    given: Given,
    out: Annotated[Path, typer.Option("--out", help="Folder the sweep goes to; the same command goes on where it was stopped.")] = Path(
        "reports/sweep"
    ),
    most: Annotated[int, typer.Option("--most", min=1, help="Points that are taken at most.")] = 2000,
    as_json: AsJson = False,
) -> None:
    """Decide at many points at once: what moves the cost, where the decision changes, which decision stands."""
    from capplan.sweep import write_sweep

    found = write_sweep(book, vary or [], sample, given.values(), out, most, say)
    tables = {"points": found.points, "decisions": found.decisions, "regrets": found.regrets}
    answer(as_json, found.headline, given.values(), tables, [], f"{found.headline}\nSweep: {out}/sweep.html")


@app.command()
def compare(
    book: BookFolder,
    scenarios: Annotated[
        list[Path] | None, typer.Argument(metavar="SCENARIO.yaml...", help="Files of assumptions; the others are held against the first.")
    ] = None,
    parameter: Parameters = None,
    others: Annotated[
        bool, typer.Option("--others/--no-others", help="Also show waiting a quarter and keeping every budget, under the first scenario.")
    ] = True,
    out: Out = Path("reports"),
    as_json: AsJson = False,
) -> None:
    """Plan BOOK under several scenarios and set them side by side: money, what is owed, service, signatures, and why they differ."""
    from capplan.outputs.run.compare import write_comparison

    found = write_comparison(book, read_scenarios(scenarios or []), overrides(parameter, None), out, others=others, say=say)
    tables = {name: getattr(found, name) for name in ("measures", "signed", "why", "assumed")}
    answer(as_json, found.headline, {}, tables, list(found.notes), f"{found.headline}\nComparison: {found.folder}/comparison.html")


@app.command()
def accept(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="Folder of a finished report.")],
    reason: Annotated[str, typer.Option(help="Why this plan is right; kept beside it.")],
    into: Annotated[Path, typer.Option(help="Folder of the accepted plan.")] = Path("reports/sample"),
) -> None:
    """Accept a plan as the one that later ones are compared with."""
    from capplan.outputs.run.accepted import accept as keep

    typer.echo(keep(report, reason, into))


@app.command()
@grouped
def review(
    book: BookFolder,
    plan_: Annotated[
        str, typer.Option("--plan", metavar="REPORT", help="Report or accepted plan to review; without it the book's accepted plan.")
    ] = "",
    bill: Annotated[
        list[str] | None,
        typer.Option("--bill", metavar="FILE", help="FOCUS export to review it by, beside the bills of the book; repeat for more."),
    ] = None,
    *,
    given: Given,
    out: Out = Path("reports"),
    as_json: AsJson = False,
) -> None:
    """Hold the accepted plan of BOOK against what was billed and used since: what moved spend, and how well the forecast held."""
    from capplan.outputs.run.review import write_review

    found = write_review(book, {**given.values(), **({"reviewed_plan": plan_} if plan_ else {})}, bill or [], out, say)
    answer_view(as_json, found.view, found.scenario, "bridge", f"Review: {found.path}")


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="REPORT", help="Report or accepted plan: the earlier one.")],
    after: Annotated[Path, typer.Argument(metavar="REPORT", help="The later one.")],
    as_json: AsJson = False,
) -> None:
    """Say what moved planned spend from one plan to another."""
    from capplan.book.accepted import read_accepted
    from capplan.questions.review import plans_apart, told

    earlier, later = read_accepted(before), read_accepted(after)
    table = plans_apart(earlier, later)
    sentence = told(table, later.currency)
    rows = "\n".join(f"  {row.meaning:<55} {row.amount:>18,.2f}" for row in table.itertuples())
    answer(as_json, sentence, {}, {"bridge": table}, [], f"{sentence}\n{rows}")


@app.command()
def export(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="kueue (ClusterQueues and cohorts; kueue-v1beta1 for older ones) or slurm (partitions).")
    ],
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="Folder with the answer to `capplan run split BOOK`.")],
    file: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="File to write; without it the text is printed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the recommended split of a fleet as quotas for a scheduler."""
    from capplan.outputs.export.quotas import export_quotas

    found = export_quotas(format_, report)
    if file is not None:
        try:
            file.write_text(found.text, encoding="utf-8")
        except OSError as error:
            raise CapplanError(f"{file} cannot be written: {error}") from error
    answer(
        as_json,
        found.headline,
        {},
        {"quotas": found.quotas},
        [],
        found.text.rstrip("\n") if file is None else f"{found.headline}\nWritten to {file}",
    )
