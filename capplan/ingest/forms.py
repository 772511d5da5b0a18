"""Recognise the form of a file by the names of its columns: which format reads it, whose export it is, and with which options."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capplan.errors import CapplanError
from capplan.ingest.cells import Wanted
from capplan.ingest.contracts import CONTRACT_COLUMNS
from capplan.ingest.focus import FOCUS_COLUMNS
from capplan.ingest.jobs import JOB_COLUMNS
from capplan.ingest.known import PROVIDERS
from capplan.ingest.opening import Sheet
from capplan.ingest.prices import PRICE_COLUMNS, TERM_OF
from capplan.ingest.reading_options import ReadingOptions
from capplan.ingest.request_rates import RATE_COLUMNS
from capplan.ingest.slurm import SLURM_COLUMNS
from capplan.ingest.traffic import REQUEST_COLUMNS
from capplan.ingest.vllm import is_vllm_log


@dataclass(frozen=True)
class Profile:
    """The export of a known system."""

    name: str  #: Whose export it is.
    format: str  #: Format that reads it.
    signs: tuple[str, ...]  #: Columns that give it away (small letters and digits only); all must be there.
    options: dict[str, Any] = field(default_factory=dict)  #: Options that the format needs for it.


#: Known exports, the most particular first.
PROFILES = (
    Profile("a FOCUS billing export", "focus", ("chargecategory", "billingperiodstart")),
    Profile("output of Slurm's sacct", "slurm", ("submit", "start", "end", "alloctres")),
    Profile("output of Slurm's sacct", "slurm", ("submit", "start", "end", "reqtres")),
    Profile("output of Slurm's sacct (GRES)", "slurm", ("submit", "start", "end", "allocgres")),
    Profile("output of Slurm's sacct (GRES)", "slurm", ("submit", "start", "end", "reqgres")),
    Profile("telemetry of DCGM", "telemetry", ("hpcjob", "dcgmfidevgpuutil")),
    Profile("telemetry of DCGM", "telemetry", ("hpcjob", "value")),
    Profile(
        "LiteLLM's spend by day",
        "requests",
        ("date", "prompttokens", "completiontokens", "successfulrequests"),
        {"columns": {"timestamp": "date"}, "interval_minutes": 1440},
    ),
    Profile("a LiteLLM spend log", "requests", ("starttime", "prompttokens", "completiontokens", "spend")),
    Profile("OpenTelemetry spans of model calls", "requests", ("genaiusageinputtokens", "genaiusageoutputtokens")),
    Profile("OpenTelemetry spans of model calls", "requests", ("attributesgenaiusageinputtokens",)),
    Profile("OpenTelemetry metrics of models", "requests", ("starttimeunixnano", "inputtokens", "successfulrequests")),
    Profile("a BurstGPT trace", "requests", ("timestamp", "requesttokens", "responsetokens", "logtype")),
    Profile("an Azure LLM inference trace", "requests", ("contexttokens", "generatedtokens")),
    Profile("a trace of Alibaba's Bailian", "requests", ("chatid", "timestamp", "inputlength", "outputlength"), {"time_unit": "seconds"}),
    Profile("a Mooncake trace", "requests", ("timestamp", "inputlength", "outputlength", "hashids"), {"time_unit": "milliseconds"}),
    Profile("a vLLM request log", "requests", ("arrivaltime", "numprompttokens", "numgenerationtokens")),
    Profile("a vLLM benchmark's or replay's request log", "requests", ("arrivaltime", "promptlen", "outputlen")),
    Profile("an Alibaba GPU trace (2023)", "jobs", ("numgpu", "gpumilli", "creationtime")),
    Profile("an Alibaba GPU trace (2025)", "jobs", ("instancesn", "gpurequest", "creationtime"), {"whole": True}),
    Profile(
        "an Alibaba PAI trace (2020), GPUs in percent",
        "jobs",
        ("jobname", "instnum", "plangpu", "starttime"),
        {"columns": {"submit": "start_time", "accelerators": "plan_gpu"}, "scale": {"accelerators": 0.01}, "place": "submit"},
    ),
    Profile("a Philly trace (cluster_job_log)", "jobs", ("jobid", "vc", "user", "state", "submittime", "starttime", "endtime", "numgpus")),
    Profile("a Helios trace", "jobs", ("jobid", "gpunum", "submittime", "vc", "duration")),
    Profile("a Philly trace", "jobs", ("cluster", "gputime", "submittime")),
    Profile("a gpuhunt catalogue", "prices", ("instancename", "location", "price", "gpuname", "spot")),
    Profile("Azure's retail prices", "prices", ("armskuname", "provider", "region")),
    Profile("a SkyPilot catalogue", "prices", ("instancetype", "acceleratorname", "price", "spotprice")),
    Profile("a Vantage price list", "prices", ("apiname", "linuxondemandcost"), {"columns": {"sku": "API Name"}, "provider": "aws"}),
)
#: Columns of each format, tried in this order where no known export is recognised.
FORMS: tuple[tuple[str, str, Sequence[Wanted]], ...] = (
    ("focus", "a FOCUS billing export", FOCUS_COLUMNS),
    ("slurm", "output of Slurm's sacct", SLURM_COLUMNS),
    ("contracts", "a list of contracts", CONTRACT_COLUMNS),
    ("requests", "a request log", REQUEST_COLUMNS),
    ("jobs", "a table of jobs", JOB_COLUMNS),
    ("rates", "a series of request rates", RATE_COLUMNS),
    ("prices", "a price sheet", PRICE_COLUMNS),
)
#: Bills in forms of their clouds, which state costs in ways of their own: signs, whose they are, and how to get them as FOCUS.
OTHER_BILLS = (
    (("lineitemlineitemtype",), "AWS's Cost and Usage Report", "in Data Exports, export 'FOCUS with AWS columns'"),
    (("skudescription", "usagestarttime", "cost"), "Google's billing export", "query the FOCUS view of the detailed export in BigQuery"),
    (("costinbillingcurrency", "metername"), "Azure's cost details", "in Cost Management, export 'Cost and usage (FOCUS)'"),
    (("lineitemintervalusagestart",), "OCI's usage or cost report", "take the reports under 'FOCUS Reports' of the same bucket"),
)


@dataclass(frozen=True)
class Taken:
    """What a file was taken for."""

    #: format, name, options: Format that reads it, whose export it is, and options for it.
    format: str
    name: str
    options: dict[str, Any]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def form_of(file: Path, options: dict[str, Any] | None = None) -> Taken:
    """Say what a file is, from the names of its columns.

    Args:
        options: Options the reader was given; those about reading (delimiter, encoding, columns) are used here.

    Raises:
        CapplanError: If the columns are those of no format; it lists them.
    """
    given = dict(options or {})
    reading = ReadingOptions(**{name: value for name, value in given.items() if name in ReadingOptions.model_fields})
    try:
        if file.is_file() and is_vllm_log(file):
            return Taken("vllm", "the log of a vLLM server as it is printed", {})
        with Sheet(file, reading) as sheet:
            columns = list(sheet.columns)
    except OSError as error:
        raise CapplanError(f"{file} cannot be read: {error.strerror}. Ask for read access, or export it again") from error
    plain = {_plain(name) for name in columns}
    for profile in PROFILES:
        if set(profile.signs) <= plain:
            return Taken(profile.format, profile.name, {**profile.options, **_seller(profile.format, file, plain, given)})
    named = set(reading.columns)
    for format, name, wanted in FORMS:
        needed = [column for column in wanted if column.required or (format == "prices" and column.name == "sku")]
        if all(column.name in named or {_plain(alias) for alias in (column.name, *column.aliases)} & plain for column in needed):
            if format == "jobs" and not plain & {
                _plain(alias) for column in wanted if column.name in ("duration", "end") for alias in (column.name, *column.aliases)
            }:
                continue
            prices = {
                _plain(alias)
                for column in PRICE_COLUMNS
                if column.name in {price.name for price in TERM_OF}
                for alias in (column.name, *column.aliases)
            }
            if format == "prices" and not plain & prices and not named & {price.name for price in TERM_OF}:
                continue
            return Taken(format, name, _seller(format, file, plain, given))
    if len(columns) == 1 and re.match(r"JobID(?:Raw)? {2,}|JobID(?:Raw)? \w", columns[0]):
        raise CapplanError(f"{file.name} is sacct's table for the eye, whose columns are cut off. Export it again with sacct --parsable2")
    for signs, whose, remedy in OTHER_BILLS:
        if set(signs) <= plain:
            raise CapplanError(f"{file.name} is {whose}, in its own form. capplan reads bills as FOCUS: {remedy}")
    shown = ", ".join(columns[:30]) + (", ..." if len(columns) > 30 else "")
    raise CapplanError(
        f"{file.name}: these columns are those of no form that capplan knows: {shown}. Say the format (requests, rates, vllm, jobs, slurm,"
        " prices, focus, contracts), and which column is which: -o columns=NEEDED=FOUND"
    )


def _seller(format: str, file: Path, plain: set[str], given: dict[str, Any]) -> dict[str, Any]:
    """Take the provider of a price sheet from the file's name, where the sheet has no column for it."""
    if format != "prices" or "provider" in given or plain & {"provider", "cloud", "vendor"}:
        return {}
    known = {*PROVIDERS.values(), "lambda", "nebius", "runpod", "crusoe", "coreweave", "hyperstack"}
    words = re.split(r"[^a-z0-9]+", file.stem.lower())
    found = next((PROVIDERS.get(word, word) for word in words if PROVIDERS.get(word, word) in known), None)
    return {"provider": found} if found else {}
