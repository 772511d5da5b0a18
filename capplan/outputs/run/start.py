"""From the files a company has to a first book and a first quick plan, with all that was assumed."""

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from capplan.answers.finished_plan import Plan
from capplan.answers.gaps import rank_gaps
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.readiness import readiness
from capplan.book.book import Book, load_book, reference_tables
from capplan.book.places import shipped
from capplan.book.reader import read_table
from capplan.book.tables.registry import TABLES
from capplan.errors import CapplanError, nearest, refused
from capplan.ingest import expanded, ingest
from capplan.ingest.forms import form_of
from capplan.ingest.known import geography_of
from capplan.ingest.machines import Recogniser, hours_of_unit
from capplan.ingest.writing import write_tables
from capplan.text import money

#: Assumptions of a first plan: few paths and a wider gap, so that it is there in seconds. `capplan plan` takes the book's own.
QUICK: dict[str, Any] = {"plan_paths": 20, "paths": 60, "gap_share": 0.005, "flip_search": False}
#: Accelerator of work in accelerator-hours where nothing says on which it runs.
USUAL_ACCELERATOR = "H100"
SECONDS_PER_HOUR = 3600
#: On demand can be had at least as many times as much of one accelerator as work used at once so far; a judgement, and a line of book.yaml.
TIMES_OF_PAST_USE = 2
Ask = Callable[[str, Sequence[str]], str]


@dataclass(frozen=True)
class Started:
    """A first book and its first plan.

    Args:
        book: Folder of the book.
        plan: First plan, made quickly.
        assumed: What was assumed: assumption, value, and the cell or line that changes it.
        gaps: Tables the book does not have, with the dollars each could move, largest first.
        notes: What each file was taken for and what was found in it.
    """

    book: Path
    plan: Plan
    assumed: pd.DataFrame = field(repr=False)
    gaps: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """The answer as a reader wants it: the plan, what it rests on, and what to add next."""
        lines = [f"First plan, made quickly: {self.plan.headline}", "", "Assumed; each line names what changes it:"]
        lines += [f"  - {row.assumption}: {row.value}  [{row.change}]" for row in self.assumed.itertuples()]
        if len(self.gaps):
            first = self.gaps.iloc[0]
            moves = (
                f"moves the cost by {money(float(first['change_usd']), signed=True)}"
                if abs(first["change_usd"]) < float("inf")
                else "leaves no plan"
            )
            lines += ["", f"Next best table: {self.book / (first['table'] + '.csv')}. If {first['supposed']}, it {moves}."]
        return "\n".join([*lines, "", f"The whole plan with its report: capplan plan {self.book}"])


def start(
    files: Sequence[str | Path],
    folder: Path,
    *,
    models: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    ask: Ask | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Started:
    """Make a first book of a company's files, and plan it quickly.

    Args:
        files: Bills, logs, job tables, price sheets, lists of contracts, and tables of a book by their names; files, folders and patterns.
        folder: Book to make; it appears whole or not at all.
        models: Model by workload that is measured in requests or tokens: its speed comes from public measurements.
        options: Options for reading, such as timezone; each format takes those it has.
        values: Assumptions to override, for this plan only.
        ask: Puts a question with its possible answers to somebody; None where nobody is there.
        say: Told about progress.

    Raises:
        CapplanError: If a file cannot be read, the folder is not empty, or the book lacks what a plan needs; it says what to add.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CapplanError(f"{folder} exists already and is not empty; choose another name")
    with refused(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    notes: list[str] = []
    assumed: list[tuple[str, str, str]] = []
    with refused(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".start-") as scratch:
        draft = Path(scratch) / "book"
        draft.mkdir()
        (draft / "book.yaml").write_text(yaml.safe_dump({"name": folder.resolve().name}), encoding="utf-8")
        _read_all(expanded(list(files)), draft, dict(options or {}), notes, say)
        _speeds(draft, dict(models or {}), ask, assumed)
        _write_settings(draft, folder.resolve().name, assumed)
        book = load_book(draft)
        missing = readiness(book, book.scenario)
        if missing:
            raise CapplanError("these files are not enough for a plan: " + "; ".join(missing).replace(str(draft), str(folder)))
        if folder.exists():
            folder.rmdir()
        shutil.move(str(draft), folder)
    book = load_book(folder)
    scenario = book.scenario.replaced(**{**QUICK, **dict(values or {})})
    plan = quarterly_plan(book, scenario, say)
    gaps = rank_gaps(asked_book(book, scenario), scenario, say)
    frame = pd.DataFrame([*assumed, *_assumed_by_book(book, folder)], columns=["assumption", "value", "change"])
    return Started(folder, plan, frame, gaps, tuple(notes))


def _read_all(files: list[Path], draft: Path, options: dict[str, Any], notes: list[str], say: Callable[[str], None]) -> None:
    """Read each file as what it is: tables of a book first, since others may name what is in them."""
    tables = [path for path in files if _is_table(path)]
    for path in sorted(tables, key=lambda path: list(TABLES).index(path.stem)):
        say(f"reading {path.name} as the table {path.stem}")
        shutil.copyfile(path, draft / path.name)
        notes.append(f"{path.name} is the table {path.stem}.")
    others = [path for path in files if path not in tables and path.name != "book.yaml"]
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in others:
        taken = form_of(path, options)
        groups.setdefault((taken.format, repr(taken.options)), []).append(path)
    for paths in groups.values():
        say("reading " + ", ".join(path.name for path in paths[:4]) + (" ..." if len(paths) > 4 else ""))
        found = ingest("auto", paths, draft, **options)
        notes += [*found.notes, found.headline]


def _is_table(path: Path) -> bool:
    return path.suffix == ".csv" and path.stem in TABLES and not read_table(path, path.stem)[1]


def _accelerators_at_hand(draft: Path) -> tuple[dict[str, pd.Series], pd.Series]:
    """Return the accelerator-hours each account was billed for by accelerator, and the accelerators one has under contract or owns."""
    known = reference_tables()
    recogniser = Recogniser(known["skus"], known["accelerators"])
    found = {}
    for table, name in (("billing", "machine"), ("commitments", "sku"), ("assets", "sku")):
        frame = read_table(draft / f"{table}.csv", table)[0] if (draft / f"{table}.csv").is_file() else pd.DataFrame({name: []})
        if table == "billing" and len(frame):
            frame = frame[(frame["bucket"] == "machine_hours") & (frame["quantity"] > 0)]
        machines = {text: recogniser.find(str(text)) for text in frame[name].unique()}
        of = frame[name].map(lambda text, machines=machines: getattr(machines[text], "accelerator", None))
        count = frame[name].map(lambda text, machines=machines: getattr(machines[text], "count", 0.0)).astype(float)
        found[table] = frame.assign(accelerator=of, count=count).dropna(subset=["accelerator"])
    bill = found.pop("billing")
    if len(bill):
        units = {unit: hours_of_unit(unit) or (0.0, False) for unit in bill["quantity_unit"].unique()}
        each = bill["count"].where(~bill["quantity_unit"].map(lambda unit: units[unit][1]), 1.0)
        bill = bill.assign(hours=bill["quantity"] * bill["quantity_unit"].map(lambda unit: units[unit][0]) * each)
    hours = {account: _largest(part, part["hours"]) for account, part in bill.groupby("account")} if len(bill) else {}
    held = pd.concat([part for part in found.values() if len(part)] or [pd.DataFrame({"accelerator": [], "machines": [], "count": []})])
    return hours, _largest(held, held["machines"] * held["count"])


def _largest(rows: pd.DataFrame, amount: pd.Series) -> pd.Series:
    return amount.groupby(rows["accelerator"]).sum().sort_values(ascending=False, kind="stable")


def _speeds(draft: Path, models: dict[str, str], ask: Ask | None, assumed: list[tuple[str, str, str]]) -> None:
    """State how fast workloads run that have no speed yet: accelerator-hours as they are, other work by a model's public measurements."""
    if not (draft / "workloads.csv").is_file():
        return
    workloads, _ = read_table(draft / "workloads.csv", "workloads")
    stated = set(read_table(draft / "speeds.csv", "speeds")[0]["workload"]) if (draft / "speeds.csv").is_file() else set()
    unknown = [name for name in models if name not in set(workloads["workload"])]
    if unknown:
        raise CapplanError(f"--model names the workload {unknown[0]!r}, which no file has; {nearest(unknown[0], workloads['workload'])}")
    billed, held = _accelerators_at_hand(draft)
    peak = reference_tables()["accelerators"].set_index("accelerator")["bf16_tflops"].astype(float)
    rows: list[dict[str, Any]] = []
    for row in workloads[~workloads["workload"].isin(stated) & (workloads["host"] != "api")].itertuples():
        if row.unit == "accelerator_hours":
            mine = billed.get(row.workload, held)
            chosen = list(mine.index) or [USUAL_ACCELERATOR]
            speed = {name: float(round(peak.get(name) / peak.get(chosen[0]), 2)) if len(chosen) > 1 else 1.0 for name in chosen}
            rows += [
                {"workload": row.workload, "accelerator": name, "work_per_accelerator_hour": speed[name], "basis": basis}
                for name, basis in zip(chosen, ("stated", *["modelled"] * len(chosen)), strict=False)
            ]
            where = (
                "as its bills say"
                if row.workload in billed
                else "the accelerators of contracts and machines"
                if len(mine)
                else "no file says which, so the most usual"
            )
            others = "".join(f"; an hour on one {name} counts {speed[name]:g} of that, the ratio of their peaks" for name in chosen[1:])
            assumed.append((f"{row.workload} runs on", f"{chosen[0]} ({where}){others}", f"speeds.csv, rows of {row.workload}"))
        else:
            rows += _measured_speeds(draft, str(row.workload), str(row.unit), models, ask, assumed)
    if rows:
        write_tables({"speeds": pd.DataFrame(rows)}, draft)


def _measured_speeds(
    draft: Path, workload: str, unit: str, models: dict[str, str], ask: Ask | None, assumed: list[tuple[str, str, str]]
) -> list[dict[str, Any]]:
    """Take the speed of a workload from public measurements of the model that is served."""
    runs, _ = read_table(shipped("data") / "reference" / "serving_runs.csv", "serving_runs")
    known = sorted(runs["model"].unique())
    model = models.get(workload) or next((name for name in known if _plain(name) == _plain(workload)), "")
    if not model and ask is not None:
        model = ask(f"Which model is most like the one that serves {workload}?", known)
    if not model:
        raise CapplanError(
            f"{workload} is counted in {unit}, and nothing says which model serves it: give --model {workload}=MODEL, one of"
            f" {', '.join(known)}"
        )
    if model not in known:
        raise CapplanError(f"--model {workload}={model}: no public measurement of it comes with capplan; {nearest(model, known)}")
    runs = runs[runs["model"] == model]
    per_request, said = _tokens_per_request(draft, workload, unit, runs)
    # where a run states no throughput, it is what its requests in progress write
    written = runs["output_tokens_per_second"].fillna(runs["concurrency"] / runs["token_seconds"])
    best = (written / runs["accelerators"]).groupby(runs["accelerator"]).median()
    assumed.append(
        (
            f"{workload} is served like {model}",
            (
                f"{', '.join(f'{rate * SECONDS_PER_HOUR / per_request:,.0f} {unit} an hour on one {name}' for name, rate in best.items())}"
                f" (median of public runs; {said})"
            ),
            f"speeds.csv, rows of {workload}; or --model {workload}=...",
        )
    )
    return [
        {
            "workload": workload,
            "accelerator": name,
            "work_per_accelerator_hour": float(rate) * SECONDS_PER_HOUR / per_request,
            "basis": "modelled",
        }
        for name, rate in best.items()
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _tokens_per_request(draft: Path, workload: str, unit: str, runs: pd.DataFrame) -> tuple[float, str]:
    """Return how many output tokens one unit of the workload needs, and whence that is known."""
    if unit == "output_tokens":
        return 1.0, "the unit is output tokens"
    per_request, inputs = float(runs["output_tokens"].median()), float(runs["input_tokens"].median())
    said = f"{per_request:,.0f} output tokens a request, as in those runs"
    if (draft / "requests.csv").is_file():
        frame, _ = read_table(draft / "requests.csv", "requests")
        sums = frame[frame["workload"] == workload][["requests", "input_tokens", "output_tokens"]].sum()
        if sums["requests"] and sums["output_tokens"]:
            per_request, inputs = sums["output_tokens"] / sums["requests"], sums["input_tokens"] / sums["requests"]
            said = f"{per_request:,.0f} output tokens a request, as in the log"
    shares = {"requests": per_request, "input_tokens": per_request / inputs, "tokens": per_request / (inputs + per_request)}
    if unit not in shares:
        raise CapplanError(
            f"{workload} is counted in {unit}; its speed cannot follow from tokens. Write speeds.csv and give it with the other files"
        )
    return shares[unit], said


def _write_settings(draft: Path, name: str, assumed: list[tuple[str, str, str]]) -> None:
    """Write into book.yaml what follows from the files, so that each has a line that changes it."""
    first = load_book(draft)
    entries: dict[str, Any] = {
        "name": name,
        "as_of": first.scenario.as_of.isoformat() if hasattr(first.scenario.as_of, "isoformat") else str(first.scenario.as_of),
    }
    entries |= {
        "first_quarter": first.scenario.first_quarter,
        "horizon_quarters": first.scenario.horizon_quarters,
        "providers": list(first.scenario.providers),
    }
    regions = [first.get(table)["region"] for table in ("usage", "commitments") if table in first.own]
    places = sorted({geography_of(str(region)) for part in regions for region in part.unique()} - {"any"})
    if places:
        entries["geographies"] = places
    most = _most_at_once(first)
    cap = max(first.scenario.on_demand_accelerators, 8.0 * math.ceil(TIMES_OF_PAST_USE * most / 8))
    entries["on_demand_accelerators"] = cap
    (draft / "book.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    whence = (
        "those of contracts, offers and bills"
        if {"commitments", "offers", "billing", "assets"} & set(first.own)
        else "no file names one, so all with public prices"
    )
    assumed += [
        ("the plan is made on", f"{entries['as_of']}, the day after the last usage", "book.yaml, as_of"),
        (
            "it begins with",
            f"{entries['first_quarter']}, and has {entries['horizon_quarters']} quarters",
            "book.yaml, first_quarter and horizon_quarters",
        ),
        (
            "may be bought from",
            f"{', '.join(entries['providers'])} ({whence}); no machines of one's own",
            "book.yaml, providers; sites.csv for machines of one's own",
        ),
        (
            "can be had on demand",
            f"{cap:,.0f} accelerators of a kind and place: {TIMES_OF_PAST_USE} times what was used at once at most ({most:,.0f}), or the"
            f" usual {first.scenario.on_demand_accelerators:g}; savings plans draw on it too, and work beyond it is left undone",
            "book.yaml, on_demand_accelerators; limits.csv for quotas by provider",
        ),
        ("may be bought in", ", ".join(places) or "any geography, since no file names a region", "book.yaml, geographies"),
    ]


def _most_at_once(book: Book) -> float:
    """Return the accelerators of one kind that the workloads used at most, each in its busiest interval and on its first accelerator."""
    speeds = book.get("speeds").drop_duplicates("workload").set_index("workload")
    kinds: dict[str, float] = {}
    for workload, part in book.get("usage").groupby("workload") if "usage" in book.own else []:
        if workload in speeds.index:
            step = part["time"].drop_duplicates().sort_values().diff().min()
            hours = 1.0 if pd.isna(step) else step / pd.Timedelta(hours=1)
            most = part.groupby("time")["quantity"].sum().max() / hours / speeds.at[workload, "work_per_accelerator_hour"]
            kinds[speeds.at[workload, "accelerator"]] = kinds.get(speeds.at[workload, "accelerator"], 0.0) + most
    return max(kinds.values(), default=0.0)


def _assumed_by_book(book: Book, folder: Path) -> list[tuple[str, str, str]]:
    """List what the plan takes from the reference or from defaults, with the cell that changes it."""
    rows = []
    if "offers" not in book.own:
        rows.append(
            ("prices", "public list prices with their dates, none of your own quotes", f"{folder / 'offers.csv'}, or capplan ingest prices")
        )
    scenario = book.scenario
    rows.append(
        (
            "an hour of unserved work costs",
            (
                f"{scenario.serving_shortfall_usd_per_accelerator_hour:g} USD for serving,"
                f" {scenario.batch_shortfall_usd_per_accelerator_hour:g} for batch, an accelerator"
            ),
            "workloads.csv, shortfall_usd_per_unit",
        )
    )
    if "commitments" not in book.own:
        rows.append(("signed contracts", "none", f"{folder / 'commitments.csv'}, or capplan ingest contracts"))
    workloads = book.get("workloads")
    rows.append(
        (
            "work that can be interrupted",
            ", ".join(workloads.loc[workloads["interruptible"].astype(bool), "workload"]) or "none",
            "workloads.csv, interruptible",
        )
    )
    return rows
