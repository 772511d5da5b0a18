"""Logs of vLLM servers as they are printed: token rates of the engines every few seconds, and the requests that came."""

import datetime as dt
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from capplan.errors import BookError, Fault
from capplan.ingest.folding import fold
from capplan.ingest.ingested import Ingested, Stage, WorkOptions, work_of, workload_rows
from capplan.ingest.pieces import pieces

#: How an engine states its rates; later versions number the engines and call the queue Waiting, earlier ones Pending.
_RATES = re.compile(r"(?:Engine (\d+): )?Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s")
_REQUEST = re.compile(r"\b(?:Added|Received) request (\S+)")
_STAMP = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR)\s+(\d{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2})\b")
#: Containers and system journals put an instant with its year in front.
_INSTANT = re.compile(r"^\W*(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:[.,]\d+)?\s?(Z|[+-]\d{2}:?\d{2})?")
_MODEL = re.compile(r"(?:served_model_name|model)=\[?'([^']+)'")
#: Bytes from which it is judged whether a file is such a log, and the longest part of a line that is looked at (prompts may follow).
SAMPLE, LONGEST = 1 << 16, 1 << 12
DECEMBER, USUAL_SECONDS = 12, 10.0
#: Year of days that state none; it has a 29 February.
NO_YEAR = 4


class VllmOptions(WorkOptions):
    """Options of logs that vLLM prints."""

    unit: Literal["output_tokens", "input_tokens", "tokens", "requests"] = Field("output_tokens", description="What usage counts.")
    stage: Stage = Field("serving", description="Stage of the workload.")


@dataclass
class _Seen:
    """What was read so far."""

    rates: list[tuple[dt.datetime, str, float, float]] = field(default_factory=list)
    requests: Counter[dt.datetime] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    model: str = ""
    lines: int = 0


def is_vllm_log(file: Path) -> bool:
    """Say whether the first lines of a file are those of a vLLM server."""
    head = "".join(line for _, line in zip(range(400), _lines(file), strict=False))[:SAMPLE]
    return bool(_STAMP.search(head) and (_RATES.search(head) or re.search(r"\bvllm\b|vLLM|\[(?:loggers|async_llm|api_server)\.py:", head)))


def read_vllm(file: Path, options: VllmOptions) -> Ingested:
    """Say how many tokens a server read and wrote in each hour.

    A line states mean rates since the line before; tokens are rate x the usual distance of lines, since idle engines print none.

    Args:
        file: What the server printed, also .gz. vLLM writes months and days without a year: it comes from an instant that a container put
            in front, or from `start`.
        options: How to read it, and what usage counts.

    Returns:
        Ingested: Tables usage and workloads, and requests where the log names each request.

    Raises:
        BookError: If no line states rates, or nothing says which year it is.
    """
    seen = _read(file, options)
    if not seen.rates:
        _refuse(file, "no line states rates (Avg prompt throughput ...)", "Start the server without --disable-log-stats.")
    rows = pd.DataFrame(seen.rates, columns=["moment", "engine", "input", "output"]).sort_values(["engine", "moment"], kind="stable")
    apart = rows.groupby("engine")["moment"].diff().dt.total_seconds()
    step = float(apart[apart > 0].mode().iloc[0]) if (apart > 0).any() else USUAL_SECONDS
    name = options.workload or seen.model or work_of(file)
    hour = rows["moment"].dt.floor("h")
    hourly = pd.DataFrame(
        {
            "input_tokens": rows["input"].groupby(hour).sum() * step * options.scale.get("input_tokens", 1.0),
            "output_tokens": rows["output"].groupby(hour).sum() * step * options.scale.get("output_tokens", 1.0),
        }
    )
    hourly["requests"] = pd.Series(seen.requests, dtype=float).reindex(hourly.index).fillna(0.0) if seen.requests else 0.0
    hourly = hourly.rename_axis("time").reset_index().assign(workload=name)
    if options.unit == "requests" and not seen.requests:
        _refuse(file, "the log does not name each request", "Start the server with --enable-log-requests, or give unit=output_tokens.")
    amount = hourly["input_tokens"] + hourly["output_tokens"] if options.unit == "tokens" else hourly[options.unit]
    first, last = rows["moment"].min() - pd.Timedelta(seconds=step), rows["moment"].max()
    work = hourly[["time", "workload"]].assign(region=options.region, seconds=3600.0, scope="", quantity=amount)
    spans = pd.DataFrame([{"workload": name, "region": options.region, "family": "rates", "earliest": first, "latest": last}])
    parts = {"workloads": workload_rows(spans, options.unit, options.stage), "pieces": pieces(work, "rates"), "spans": spans}
    if seen.requests:
        parts["requests"] = hourly[["workload", "time", "requests", "input_tokens", "output_tokens"]]
    tables, notes = fold(parts)
    said = [f"Rates of {rows['engine'].nunique()} engines were stated every {step:g} s; tokens are rate x {step:g} s."]
    if options.timezone is None and not seen.known & {"zoned"}:
        said.append("Times state no zone and are taken as UTC; give timezone= where that is wrong.")
    counted = f"{sum(seen.requests.values()):,} requests, " if seen.requests else ""
    headline = (
        f"{counted}{hourly['input_tokens'].sum():,.0f} input and {hourly['output_tokens'].sum():,.0f} output tokens of {name}, from"
        f" {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}."
    )
    return Ingested(tables, (*said, *notes), headline, parts=parts, rows=seen.lines, period=(first, last))


def _lines(file: Path) -> Iterator[str]:
    """Give the lines of a log, cut where prompts may follow."""
    with (gzip.open if file.name.lower().endswith(".gz") else open)(file, "rt", encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(LONGEST):
            yield line


def _read(file: Path, options: VllmOptions) -> _Seen:
    """Read the lines that say something."""
    if options.columns or options.ignore or set(options.scale) - {"input_tokens", "output_tokens"}:
        _refuse(file, "a log as it is printed has no columns to name or ignore", "Only scale=input_tokens=...,output_tokens=... fits it.")
    seen, year, month = _Seen(), options.start.year if options.start else 0, 0
    for line in _lines(file):
        seen.lines += 1
        if not seen.model and (model := _MODEL.search(line)):
            seen.model = model[1].rstrip("/").rpartition("/")[2]
        rates, request = _RATES.search(line), _REQUEST.search(line)
        if rates is None and request is None:
            continue
        moment, zoned = _moment(line)
        if moment is None:
            continue
        if moment.year == NO_YEAR:
            if not year:
                _refuse(file, "vLLM writes days without a year, and nothing else says which it is", "Give it: start=2026-09-01.")
            year += moment.month < month and month == DECEMBER
            month = moment.month
            moment = _with_year(file, moment, year)
        moment = moment if zoned else _universal(moment, options.timezone)
        if zoned:
            seen.known.add("zoned")
        if rates is not None:
            seen.rates.append((moment, rates[1] or "0", float(rates[2]), float(rates[3])))
        elif request is not None:
            seen.requests[moment.replace(minute=0, second=0)] += 1
    return seen


def _moment(line: str) -> tuple[dt.datetime | None, bool]:
    """Return the instant of a line (in NO_YEAR where it states none), and whether its zone is known."""
    if front := _INSTANT.match(line):
        moment = dt.datetime.fromisoformat(f"{front[1]}T{front[2]}{(front[3] or '').replace('Z', '+00:00')}")
        return (moment.astimezone(dt.UTC).replace(tzinfo=None), True) if moment.tzinfo else (moment, False)
    if stamp := _STAMP.search(line):
        month, day, hour, minute, second = map(int, stamp.groups())
        with suppress(ValueError):
            return dt.datetime(NO_YEAR, month, day, hour, minute, second), False
    return None, False


def _with_year(file: Path, moment: dt.datetime, year: int) -> dt.datetime:
    try:
        return moment.replace(year=year)
    except ValueError:
        _refuse(file, f"{moment:%m-%d} is no day of {year}", "Give the right year: start=2026-09-01.")
        raise


def _universal(moment: dt.datetime, zone: str | None) -> dt.datetime:
    if zone in (None, "UTC"):
        return moment
    return (
        pd.Timestamp(moment)
        .tz_localize(zone, ambiguous=False, nonexistent="shift_forward")
        .tz_convert("UTC")
        .tz_localize(None)
        .to_pydatetime()
    )


def _refuse(file: Path, rule: str, remedy: str) -> None:
    raise BookError([Fault(file.name, 0, "", "", rule, remedy)], where=file.name)
