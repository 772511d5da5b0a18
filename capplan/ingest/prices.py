"""Price sheets of clouds: machine types by region, on demand, as spot and under commitments."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import DatedOptions, Ingested, day_of, shaped, stem_of
from capplan.ingest.known import accelerator_named, geography_of, known_table, provider_named
from capplan.ingest.opening import Sheet
from capplan.ingest.price_sanity import named_apart, refuse_far_prices
from capplan.ingest.reading_options import listed
from capplan.records import word_list
from capplan.units import HOURS_PER_AVERAGE_MONTH, HOURS_PER_YEAR

#: Google's catalogue has regions in which it sells no accelerator; their spot price is that of processors and memory only.
LOWEST_SPOT_SHARE = {"gcp": 0.2}
#: AWS machine families for which no Standard Reserved Instance is sold, so that a three-year price is that of a savings plan.
SAVINGS_PLAN_FAMILIES = r"^(p5|p5e|p5en|p6|p6e|g6f|gr6f|g7e)[.-]"
#: Machines that Google sells as spot or for a flexible start only (its documentation of accelerator-optimised machines); catalogues that
#: add up the prices of parts list them on demand and under commitments too.
SPOT_ONLY = {"gcp": r"a3-highgpu-[124]g"}


class PriceOptions(DatedOptions):
    """Options of price sheets."""

    provider: str | None = Field(None, description="Who sells, where the file does not say so.", min_length=1)
    region: str | None = Field(None, description="Region of prices that state none; empty = any.", min_length=1)
    minimum_spot_share: float | None = Field(
        None, description="Spot prices below this share of the price on demand are left out; empty = 0.2 for gcp, else 0.", ge=0, le=1
    )
    confirm: tuple[str, ...] = Field(
        (), description="Machines whose prices are right although they are far from those elsewhere: name,name; or all."
    )
    leave_out: tuple[str, ...] = Field((), description="Machines whose prices are not taken: name,name.")
    currency: Literal["USD"] = Field("USD", description="Currency of the prices; offers are in US dollars.")

    @field_validator("confirm", "leave_out", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return listed(value)


@dataclass(frozen=True)
class PriceColumn:
    """A price column: its term and how many hours its price pays for."""

    name: str  #: Name in PRICE_COLUMNS.
    term: str  #: Term of the offer.
    hours: float = 1.0  #: Hours that the price pays for: 1, 730 for a month, 8,760 for a year.
    upfront_share: float = 0.0  #: Share that is paid at signing.


PRICE_COLUMNS = (
    Wanted(
        "sku",
        "text",
        ("instance_type", "instance_name", "machine_type", "instance", "machine", "vm_size", "sku_name", "api_name", "arm_sku_name"),
        filled=False,
    ),
    Wanted("provider", "text", ("cloud", "vendor"), required=False),
    Wanted("accelerator", "text", ("gpu", "gpu_model", "gpu_name", "accelerator_name"), required=False),
    Wanted("accelerator_count", "number", ("gpus", "gpu_count", "num_gpus"), required=False, minimum=0),
    Wanted("vcpus", "number", ("vcpu", "cpus"), required=False, minimum=0),
    Wanted("memory", "text", ("memory_gib", "memory_gb", "ram_gib"), required=False),
    Wanted("region", "text", ("regions", "location"), required=False),
    Wanted("zone", "text", ("availability_zone", "az"), required=False),
    Wanted("system", "text", ("operating_system", "os", "platform"), required=False),
    Wanted("dated", "time", ("snapshot_date", "price_date", "valid_from", "effective_date"), required=False, lenient=True),
    Wanted("is_spot", "text", ("spot", "preemptible", "interruptible"), required=False),
    Wanted(
        "on_demand",
        "dollars",
        word_list(
            "on_demand_usd_per_hour ondemand_usd_per_hour usd_per_hour price_per_hour price hourly_price on_demand_price"
            " linux_on_demand_cost"
        ),
        required=False,
        minimum=0,
    ),
    Wanted(
        "spot",
        "dollars",
        ("spot_price", "linux_spot_minimum_cost", "spot_usd_per_hour", "preemptible_usd_per_hour", "interruptible_usd_per_hour"),
        required=False,
        minimum=0,
    ),
    Wanted(
        "reserved_1y", "dollars", ("reserved_1y_usd_per_hour", "reserved_1y_standard_no_upfront_usd_per_hour"), required=False, minimum=0
    ),
    Wanted(
        "reserved_3y", "dollars", ("reserved_3y_usd_per_hour", "reserved_3y_standard_no_upfront_usd_per_hour"), required=False, minimum=0
    ),
    Wanted("savings_plan_1y", "dollars", ("savings_plan_1y_usd_per_hour",), required=False, minimum=0),
    Wanted("savings_plan_3y", "dollars", ("savings_plan_3y_usd_per_hour",), required=False, minimum=0),
    Wanted("cud_1y_month", "dollars", ("cud_1y_usd_per_month", "reserved_1y_usd_per_month"), required=False, minimum=0),
    Wanted("cud_3y_month", "dollars", ("cud_3y_usd_per_month", "reserved_3y_usd_per_month"), required=False, minimum=0),
    Wanted(
        "upfront_3y_year", "dollars", ("annual_cost_3y_reserved_usd", "reserved_3y_all_upfront_usd_per_year"), required=False, minimum=0
    ),
)
TERM_OF = (
    PriceColumn("on_demand", "on_demand"),
    PriceColumn("spot", "spot"),
    PriceColumn("reserved_1y", "reserved_1y"),
    PriceColumn("reserved_3y", "reserved_3y"),
    PriceColumn("savings_plan_1y", "savings_plan_1y"),
    PriceColumn("savings_plan_3y", "savings_plan_3y"),
    PriceColumn("cud_1y_month", "reserved_1y", HOURS_PER_AVERAGE_MONTH),
    PriceColumn("cud_3y_month", "reserved_3y", HOURS_PER_AVERAGE_MONTH),
    PriceColumn("upfront_3y_year", "reserved_3y", HOURS_PER_YEAR, 1.0),
)


def read_prices(file: Path, options: PriceOptions, book: Path | None = None) -> Ingested:
    """Say what a machine costs, where and on which terms.

    An hour under a monthly price is that price / 730, under a yearly one / 8,760.

    Args:
        file: One row a machine type and region, with a column for each kind of price.
        options: How to read it, and who sells.
        book: Folder of the book, whose accelerators and machine types are known besides the reference facts.

    Returns:
        Ingested: Tables skus, offers and sources. Machines whose accelerator is not known are left out and named in a note.
    """
    with Sheet(file, options, nulls=("NULL", "null", "N/A", "n/a", "-", "nan", "unavailable", "Unavailable")) as sheet:
        matched = convert(sheet, PRICE_COLUMNS)
        priced = [price for price in TERM_OF if price.name in matched]
        if not priced:
            sheet.refuse(
                "no column has a price",
                "Name one: columns=on_demand=NAME (or spot, reserved_1y, cud_1y_month, ...).",
                value=", ".join(sheet.columns[:30]),
            )
        rows = sheet.connection.execute("select * from typed").df()
        _check_names(sheet, rows)
        rows = _newest(_linux(_spot_rows(rows, sheet.notes), sheet.notes), sheet.notes)
        if rows.spot.notna().any() and "spot" not in {price.name for price in priced}:
            priced.append(next(price for price in TERM_OF if price.name == "spot"))
        rows["provider"] = _providers(sheet, rows, matched, options)
        newest = None if rows.dated.isna().all() else rows.dated.max().date()
        as_of, notes = day_of(sheet, options.as_of or newest), list(sheet.notes)
    rows = _machines(rows, book, notes)
    if rows.empty:
        sheet.refuse("no machine of the file has a known accelerator", "Add its accelerator to accelerators.csv first.")
    source = stem_of(file)
    rows["region"] = rows.region.fillna(options.region or "any").str.split(";")
    rows = rows.explode("region", ignore_index=True)
    rows["region"] = rows.region.str.strip().where(~rows.region.str.contains(r"^all\b", case=False), "any")
    rows["geography"] = [geography_of(region) for region in rows.region]
    offers = _offers(rows[~rows.machine.isin(options.leave_out)], priced, options, notes).assign(as_of=as_of, source_id=source)
    if offers.empty:
        sheet.refuse("no row has a price that can be read", "Write prices of an hour, or name their column: columns=on_demand=NAME.")
    refuse_far_prices(sheet.file.name, offers, options.confirm, book)
    offers = named_apart(offers)
    skus = _with_facts(rows.drop_duplicates("sku").sort_values("sku").assign(source_id=source), book, notes)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    sources = pd.DataFrame(
        [{"source_id": source, "title": f"Price sheet {file.name}", "where_found": f"{file.name}, SHA-256 {digest}", "retrieved_on": as_of}]
    )
    tables = {"sources": shaped(sources, "sources"), "skus": shaped(skus, "skus"), "offers": shaped(offers, "offers")}
    headline = (
        f"{len(offers):,} offers for {skus.sku.nunique()} machine types of {', '.join(sorted(skus.provider.unique()))}, as of"
        f" {as_of:%Y-%m-%d}."
    )
    return Ingested(tables, tuple(notes), headline, parts=dict(tables), rows=len(rows), period=(as_of, as_of))


def _check_names(sheet: Sheet, rows: pd.DataFrame) -> None:
    """Refuse rows that name neither a machine nor an accelerator."""
    nameless = rows.index[rows.sku.isna() & rows.accelerator.isna()]
    if len(nameless):
        sheet.refuse(
            f"{len(nameless)} rows name neither a machine nor an accelerator, the first is row {nameless[0] + 2}",
            "Fill one in or delete the row.",
            column="sku",
        )


def _spot_rows(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Where a column only says whether a row's price is that of spot capacity, take it as the price of spot."""
    words = rows.is_spot.dropna().str.lower()
    if (
        words.empty
        or not words.isin(["true", "false", "t", "f", "yes", "no", "1", "0", "spot", "on-demand", "on_demand", "ondemand"]).all()
    ):
        return rows
    flagged = rows.is_spot.str.lower().isin(["true", "t", "yes", "1", "spot"])
    notes.append(f"{int(flagged.sum())} rows are prices of spot capacity, as their column says.")
    return rows.assign(spot=rows.on_demand.where(flagged, rows.spot), on_demand=rows.on_demand.mask(flagged))


def _linux(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out prices with another system's licence in them, where the same machine is also sold without."""
    licensed = rows.system.notna() & ~rows.system.str.lower().str.contains("linux|ubuntu|none|any", na=False)
    plain = rows[~licensed]
    doubled = licensed & rows.sku.isin(plain.sku)
    if doubled.any():
        notes.append(f"{int(doubled.sum())} prices with a licence in them ({_some(sorted(rows.system[doubled].unique()))}) were left out.")
    return rows[~doubled].reset_index(drop=True)


def _newest(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Keep the newest rows of each machine and region, where a sheet has prices of several days."""
    latest = rows.groupby(["provider", "sku", "accelerator", "accelerator_count", "region"], dropna=False)["dated"].transform("max")
    older = rows["dated"] < latest
    if older.any():
        notes.append(f"{int(older.sum())} older prices were left out: the newest day of each machine and region counts.")
    return rows[~older].reset_index(drop=True)


def _with_accelerators(rows: pd.DataFrame, facts: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Add the price of accelerators to that of their host, where a sheet lists the two apart; accelerators alone are no machine."""
    alone = rows.sku.isna()
    if not alone.any():
        return rows
    place = ["accelerator", "accelerator_count", "region", "zone"]
    prices = ["on_demand", "spot"]
    parts = rows[alone].drop_duplicates(place).set_index(place)[prices]
    hosts = rows[~alone].copy()
    key = hosts.sku.map(facts["accelerator"]), hosts.sku.map(facts["accelerator_count"]).astype(float), hosts.region, hosts.zone
    bare = hosts.accelerator.isna()
    added = parts.reindex(pd.MultiIndex.from_arrays(key)).set_axis(hosts.index)[bare]
    joined = added.index[added.on_demand.notna()]
    hosts.loc[joined, prices] = hosts.loc[joined, prices] + added.loc[joined, prices]
    notes.append(
        f"{len(joined)} machines are listed apart from their accelerators; the two prices were added. {int(alone.sum())} rows of"
        " accelerators alone are no machines."
    )
    return hosts


def _providers(sheet: Sheet, rows: pd.DataFrame, matched: dict[str, str], options: PriceOptions) -> pd.Series:
    """Say who sells each machine: as given, as the column says, or as the layout shows."""
    if options.provider:
        return pd.Series(provider_named(options.provider), index=rows.index)
    if "provider" in matched:
        return rows.provider.map(provider_named, na_action="ignore").fillna("unknown")
    if any("cud_" in name for name in matched.values()):
        found = "gcp"
    elif rows.sku.dropna().str.fullmatch(r"[a-z]+\d[a-z0-9-]*\.(metal|\d*x?(large|medium|small))").all():
        found = "aws"
    else:
        sheet.refuse("the file does not say who sells these machines", "Give it: provider=aws (or another).")
    sheet.notes.append(f"The layout is that of {found}; give provider= where that is wrong.")
    return pd.Series(found, index=rows.index)


def _machines(rows: pd.DataFrame, book: Path | None, notes: list[str]) -> pd.DataFrame:
    """Name machines and accelerators as the tables do; leave out what is not known."""
    skus, accelerators = known_table("skus", book), known_table("accelerators", book)
    rows = _with_accelerators(rows, skus.set_index("sku"), notes)
    bare = rows.accelerator.isna()
    if bare.any():
        facts = skus.set_index("sku")
        for column in ("accelerator", "accelerator_count", "vcpus"):
            rows.loc[bare, column] = rows.sku[bare].map(facts[column]).fillna(rows.loc[bare, column])
        unknown = sorted(rows.sku[bare & rows.accelerator.isna()].unique())
        if unknown:
            notes.append(f"{len(unknown)} machine types are in no table skus and were left out: {_some(unknown)}.")
        rows = rows[~(bare & rows.accelerator.isna())].copy()
    large = rows.provider.isin(["aws", "gcp", "azure"])
    machine = rows.groupby(["provider", "sku"])
    named = rows.sku + ("-" + rows.accelerator.astype(object)).where(machine.accelerator.transform("nunique") > 1, "")
    several = machine.accelerator_count.transform("nunique") > 1
    count = rows.accelerator_count.map("{:g}x".format).astype(object)
    named = named + ("-" + count).where(several & (rows.accelerator_count != 1), "")
    rows["machine"] = rows.sku
    rows["sku"] = named.where(large, rows.provider + "-" + named).str.replace(" ", "-")
    rows["stated"] = rows.accelerator
    rows["accelerator"] = [
        accelerator_named(stated, machine, set(accelerators.accelerator)) for stated, machine in zip(rows.stated, rows.machine, strict=True)
    ]
    unknown = sorted(rows.stated[rows.accelerator.isna()].dropna().unique())
    if unknown:
        notes.append(
            f"{int(rows.accelerator.isna().sum())} rows have an accelerator that no table knows and were left out: {_some(unknown)}."
        )
    rows = rows[rows.accelerator.notna()].copy()
    whole = rows.accelerator_count.notna() & (rows.accelerator_count >= 1) & (rows.accelerator_count == rows.accelerator_count.round())
    if not whole.all():
        notes.append(f"{int((~whole).sum())} rows for a part of an accelerator, or without a count, were left out.")
    rows = rows[whole].copy()
    size = rows.memory.astype("string").str.extract(r"([\d.]+)\s*(TB|TiB)?", flags=re.IGNORECASE)
    rows["memory_gib"] = pd.to_numeric(size[0]).astype(float) * size[1].notna().map({True: 1024.0, False: 1.0})
    return rows


def _with_facts(skus: pd.DataFrame, book: Path | None, notes: list[str]) -> pd.DataFrame:
    """Let what the tables know about a machine stand; the sheet adds machines and fills empty cells."""
    facts = known_table("skus", book).set_index("sku")
    stated = skus.set_index("sku")
    both = stated.index.intersection(facts.index)
    known = facts.loc[both]
    other = (known.accelerator != stated.accelerator[both]) | (known.accelerator_count != stated.accelerator_count[both])
    if other.any():
        notes.append(
            f"{int(other.sum())} machine types have other accelerators in the tables than in the file; the tables count:"
            f" {_some(both[other])}."
        )
    return known.combine_first(stated[[column for column in facts.columns if column in stated]]).reset_index()


def _offers(rows: pd.DataFrame, priced: list[PriceColumn], options: PriceOptions, notes: list[str]) -> pd.DataFrame:
    """Make an offer of every price."""
    found = []
    for price in priced:
        part = rows[rows[price.name].notna()].copy()
        part["usd_per_hour"] = part[price.name] / price.hours
        part["term"], part["upfront_share"] = price.term, price.upfront_share
        free = part.usd_per_hour == 0
        if free.any():
            notes.append(f"{int(free.sum())} prices of zero ({price.term}) were left out: a machine is not free.")
        part = part[~free]
        bound_to_spot = part.machine.str.fullmatch("|".join(SPOT_ONLY.values())) & part.provider.isin(SPOT_ONLY) & (price.term != "spot")
        if bound_to_spot.any():
            names = _some(sorted(part.machine[bound_to_spot].unique()))
            notes.append(f"{int(bound_to_spot.sum())} prices ({price.term}) were left out: {names} can be had as spot only.")
        part = part[~bound_to_spot]
        if price.name == "spot" and "on_demand" in rows:
            floor = part.provider.map(LOWEST_SPOT_SHARE).fillna(0.0) if options.minimum_spot_share is None else options.minimum_spot_share
            low = part.usd_per_hour < floor * part.on_demand
            if low.any():
                notes.append(
                    f"{int(low.sum())} spot prices below {options.minimum_spot_share or LOWEST_SPOT_SHARE['gcp']:.0%} of the price on"
                    " demand were left out: they cover processors and memory only."
                )
            part = part[~low]
        if price.hours != 1:
            notes.append(f"{len(part)} prices ({price.term}) were divided by {price.hours:,.0f} hours.")
        if price.upfront_share:
            plan = (part.provider == "aws") & part.machine.str.contains(SAVINGS_PLAN_FAMILIES.replace("(", "(?:"))
            part["term"] = part.term.where(~plan, "savings_plan_3y")
            if plan.any():
                notes.append(
                    f"{int(plan.sum())} three-year prices are those of savings plans, since no Reserved Instance is sold for"
                    f" {_some(part.machine[plan].unique())}."
                )
        found.append(part)
    offers = pd.concat(found, ignore_index=True)
    bound = offers.term.str.startswith(("reserved", "savings"))
    dear = bound & (offers.usd_per_hour >= offers.on_demand)
    if dear.any():
        notes.append(f"{int(dear.sum())} prices under a commitment are not below the price on demand: {_some(offers.sku[dear].unique())}.")
    offers["discounts"] = offers.term.map(
        lambda term: "usd_per_hour" if term.startswith("savings") else "units" if term.startswith("reserved") else "none"
    )
    offers["guarantees_capacity"] = False
    if bound.any():
        notes.append("Commitments of these sheets lower the price and guarantee no capacity.")
    local = offers.sku.where(
        offers.sku.str.startswith(tuple(f"{name}-" for name in offers.provider.unique())), offers.provider + "-" + offers.sku
    )
    offers["offer_id"] = local + "-" + offers.region + "-" + offers.term.str.replace("_", "-")
    offers = offers.sort_values(["offer_id", "usd_per_hour"], kind="stable", ignore_index=True)
    repeated = offers.duplicated("offer_id")
    if repeated.any():
        where = "zone" if offers.zone.notna().any() else "row"
        notes.append(
            f"{int(repeated.sum())} rows repeat a machine, region and term; the cheapest {where} counts:"
            f" {_some(offers.offer_id[repeated].unique())}."
        )
    return offers[~repeated].reset_index(drop=True)


def _some(names: object, shown: int = 8) -> str:
    """List a few names."""
    listed = [str(name) for name in names]  # type: ignore[attr-defined]
    return ", ".join(listed[:shown]) + (f" and {len(listed) - shown} more" if len(listed) > shown else "")
