"""What the commands share: the application, kinds of arguments, assumptions from the command line, and one way to answer."""

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from capplan import __version__
from capplan.book.plain_yaml import NotYamlError, read_overrides, read_yaml
from capplan.errors import CapplanError, ScenarioError, reachable
from capplan.notes import ToDo


class Commands(TyperGroup):
    """The commands; what the system says of a place that was named is said as one message."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with reachable():
            return super().invoke(ctx)


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

BookFolder = Annotated[Path, typer.Argument(metavar="BOOK", help="Folder of the book.")]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="Override an assumption; repeat for more.")
]
ScenarioFile = Annotated[Path | None, typer.Option("--scenario", help="YAML file of assumptions to override.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a machine-readable answer on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder the reports go to.")]


def _version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"capplan {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.", callback=_version, is_eager=True)] = False,
) -> None:
    """Capacity planning and economics of AI infrastructure: from a book of inputs to a dated purchase plan."""


def say(text: str) -> None:
    """Show progress, apart from the answer on standard output."""
    typer.echo(text, err=True)


def overrides(parameters: list[str] | None, scenario_file: Path | None) -> dict[str, Any]:
    """Collect the assumptions given on the command line; -p wins over the file."""
    values = read_overrides(scenario_file) if scenario_file is not None else {}
    for text in parameters or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ScenarioError(f"-p {text}: write it as name=value, for example -p risk_weight=0.3")
        try:
            values[name.strip()] = read_yaml(value)
        except NotYamlError as error:
            raise ScenarioError(f"-p {text[:80]}: the value cannot be read ({error}); quote texts with special characters") from error
    return values


@dataclass(frozen=True)
class Given:
    """The options that state assumptions."""

    parameter: Parameters = None
    scenario: ScenarioFile = None

    def values(self) -> dict[str, Any]:
        """Return the assumptions that they state together."""
        return overrides(self.parameter, self.scenario)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in the place of each argument that is a group of options (a dataclass), the options of the group."""
    taken = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in taken if is_dataclass(one.annotation)}

    @functools.wraps(command)
    def parted(**options: Any) -> None:
        made = {name: group(**{one.name: options.pop(one.name) for one in fields(group)}) for name, group in groups.items()}
        command(**options, **made)

    flat: list[inspect.Parameter] = []
    for one in taken:
        own = fields(one.annotation) if one.name in groups else []
        flat += [inspect.Parameter(part.name, one.KEYWORD_ONLY, default=part.default, annotation=part.type) for part in own]
        flat += [] if one.name in groups else [one.replace(kind=one.KEYWORD_ONLY)]
    parted.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    parted.__annotations__ = {one.name: one.annotation for one in flat}
    return parted


def records_of(frame: Any) -> list[dict[str, Any]]:
    """Return a table as records of plain values: numbers to their last digit, moments in ISO 8601, what is missing or endless as null."""
    import pandas as pd

    from capplan.records import records

    def plain(value: Any) -> Any:
        value = value.item() if hasattr(value, "item") else value
        if (pd.api.types.is_scalar(value) and pd.isna(value)) or value in (float("inf"), float("-inf")):
            return None
        return value.isoformat(timespec="milliseconds") if hasattr(value, "hour") else value

    return [{str(name): plain(value) for name, value in row.items()} for row in records(frame)]


def answer(
    as_json: bool, headline: str, scenario: Mapping[str, Any], tables: Mapping[str, Any], warnings: list[str], plain: str | None = None
) -> None:
    """Print the answer: one JSON object, or the headline with the warnings."""
    if as_json:
        records = {name: records_of(frame) for name, frame in tables.items()}
        typer.echo(json.dumps({"headline": headline, "scenario": scenario, "tables": records, "warnings": warnings}, default=str))
        return
    for warning in warnings:
        say(f"note: {warning}")
    typer.echo(plain or headline)


def answer_view(as_json: bool, view: Any, scenario: Mapping[str, Any], first: str, kept: str) -> None:
    """Print what a view shows, its table under the name `first`, and where it is kept."""
    answer(as_json, view.headline, scenario, {first: view.table, **view.details}, list(view.notes), f"{view.headline}\n{kept}")


#: Notes that ask for something to be done and are printed; all stand on the page.
MOST_NOTES = 7


def brief(headline: str, verdicts: Sequence[str], page: str, warnings: Sequence[str]) -> None:
    """Print what a person needs who does not open the page: headline, verdicts, where the page is; and apart what is to be done."""
    from capplan.text import counted

    to_do = [warning for warning in warnings if isinstance(warning, ToDo)][:MOST_NOTES]
    for warning in to_do:
        say(f"to do: {warning}")
    more = len(warnings) - len(to_do)
    if more:
        say(f"{counted(more, 'more note')} {'stands' if more == 1 else 'stand'} on the page and in run.json.")
    typer.echo("\n".join([headline, *verdicts, f"Report: {page}"]))


def named_pairs(texts: list[str] | None, flag: str) -> dict[str, str]:
    """Split name=value texts of a flag."""
    wrong = [text for text in texts or [] if "=" not in text]
    if wrong:
        raise CapplanError(f"{flag} {wrong[0]}: write it as name=value")
    return dict(text.split("=", 1) for text in texts or [])
