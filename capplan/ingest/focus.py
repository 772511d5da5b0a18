"""FOCUS billing exports (FinOps Open Cost and Usage Specification, 1.0 to 1.3), CSV or Parquet."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field

from capplan.book.gate import UNSEEN
from capplan.book.tables.registry import key_of
from capplan.errors import BookError, Fault
from capplan.ingest.bill_buckets import account, summed, told
from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import fold
from capplan.ingest.identities import Identities
from capplan.ingest.ingested import FileTotals, Ingested, Stage, WorkOptions, workload_rows
from capplan.ingest.known import known_table, provider_named
from capplan.ingest.machines import Recogniser
from capplan.ingest.opening import Sheet, text_literal
from capplan.ingest.overlaps import charged_times, count_once, meeting, unlike
from capplan.ingest.pieces import pieces
from capplan.units import CURRENCY_PATTERN

SECONDS_PER_HOUR, SECONDS_PER_DAY = 3600, 86400
CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
NOTHING = ("NULL", "null", "Null", "(null)", "<null>", "None", "NaN", "nan")


class FocusOptions(WorkOptions):
    """Options of FOCUS exports."""

    provider: str | None = Field(None, description="Provider, where the file has no column for it.", min_length=1)
    currency: str | None = Field(None, description="Billing currency, where the file has no column for it.", pattern=CURRENCY_PATTERN)
    restated: Literal["auto", "replace", "add"] = Field(
        "auto",
        description=(
            "What a bill of a month that the book has already does: replace it, or add to it; auto = numbered parts of one export add,"
            " others replace."
        ),
    )
    usage: bool = Field(True, description="Take accelerator-hours of known machine types as usage.")
    stage: Stage = Field("serving", description="Stage of the workloads that usage makes.")


FOCUS_COLUMNS = (
    Wanted("BillingPeriodStart", "time"),
    Wanted("BillingAccountId", "text", ("BillingAccountName",), required=False),
    Wanted("ChargePeriodStart", "time", required=False, filled=False),
    Wanted("ChargePeriodEnd", "time", required=False, lenient=True),
    Wanted("ChargeCategory", "text"),
    Wanted("ChargeClass", "text", required=False),
    Wanted("BilledCost", "money", filled=False),
    Wanted("EffectiveCost", "money", filled=False),
    Wanted("ListCost", "money", required=False),
    Wanted("BillingCurrency", "text", required=False),
    Wanted("ProviderName", "text", ("ServiceProviderName", "HostProviderName", "InvoiceIssuerName"), required=False),
    Wanted("ServiceName", "text", required=False),
    Wanted("SubAccountName", "text", required=False),
    Wanted("SubAccountId", "text", ("BillingAccountId",), required=False),
    Wanted("RegionId", "text", ("RegionName",), required=False),
    Wanted("SkuId", "text", required=False),
    Wanted("PricingCategory", "text", required=False),
    Wanted("CommitmentDiscountStatus", "text", required=False),
    Wanted("CommitmentDiscountId", "text", ("CommitmentDiscountName",), required=False),
    Wanted("CapacityReservationStatus", "text", required=False),
    Wanted("PricingQuantity", "number", required=False),
    Wanted("PricingUnit", "text", required=False),
    Wanted("ConsumedQuantity", "number", ("UsageQuantity",), required=False),
    Wanted("ConsumedUnit", "text", ("UsageUnit",), required=False),
    Wanted("ChargeDescription", "text", required=False),
    Wanted("SkuMeter", "text", ("x_UsageType",), required=False),
    Wanted("MeterName", "text", ("x_SkuMeterName", "x_SkuMeter", "x_SkuDescription", "x_SkuName"), required=False),
    Wanted("InstanceType", "text", ("x_InstanceType", "x_SkuInstanceType", "x_MachineType", "x_SkuServiceFamily"), required=False),
    Wanted("SkuPriceDetails", "text", ("x_SkuDetails",), required=False),
    Wanted("ResourceType", "text", required=False),
)


def read_focus(
    files: Path | Sequence[Path], options: FocusOptions, book: Path | None = None, identities: Identities | None = None
) -> Ingested:
    """Say what was billed each month, which bucket every row is in, and how many accelerator-hours were used.

    Costs are summed as decimals with twelve places, so that a month is right to the cent however many rows it has.

    Args:
        files: FOCUS export, or several of one layout; texts NULL, null and (null) are empty cells.
        options: How to read it; provider and currency for files without these columns.
        book: Folder of the book, whose machine types are known besides the reference facts.
        identities: Number of the first file in the book that the files come into.

    Returns:
        Ingested: Tables billing (absent where the export states no costs), and usage with workloads where rows name a machine with a known
            accelerator. Hours of machines and of corrections count, with their sign; `accounts` holds rows, dollars and hours by bucket.
    """
    with Sheet(files, options, nulls=NOTHING) as sheet:
        notes, timed = list(sheet.notes), options.usage or book is not None or bool(unlike(sheet.files))
        try:
            priced, times = _checked(sheet, options, alike=True, timed=timed)
            twins = meeting(sheet, times) if len(sheet.files) > 1 and options.restated != "add" else []
        except BookError:
            twins = None
        if twins is None or twins:  # faults are named, and charges compared, row by row
            sheet.notes = notes
            sheet.row_by_row()
            priced, times = _checked(sheet, options, alike=False, timed=True)
        left_out = count_once(sheet, twins, FOCUS_COLUMNS) if twins else {}
        known = {table: known_table(table, book) for table in ("skus", "accelerators", "offers")}
        account(sheet, Recogniser(known["skus"], known["accelerators"]), _cheapest(known["offers"], known["skus"]))
        sheet.connection.execute(f"create temp table grouped as {_grouping(options)}")
        _refuse_double_amortisation(sheet)
        accounts = summed(sheet)
        billing = _billing(sheet) if priced else pd.DataFrame()
        hours = _hours(sheet)
        rows, first, last = sheet.rows('select sum("rows"), min(month), max(month) from grouped')[0]
        months = sheet.connection.execute("select distinct file, month from grouped order by all").df()
        each = _totals_of_files(sheet, left_out, identities.first if identities else 0, priced=priced)
        notes = [*sheet.notes, *told(accounts)]
    parts = {name: frame for name, frame in (("billing", billing), ("pieces", hours)) if len(frame)}
    if times is not None and len(times):
        parts["charged"] = _scoped(times)
    if "pieces" in parts:
        parts["spans"] = _billed_months(hours, months)
        parts["workloads"] = workload_rows(hours, "accelerator_hours", options.stage)
    tables, more = fold(parts)
    if "usage" in tables:
        more.append(f"{tables['usage'].quantity.sum():,.1f} accelerator-hours of known machine types were taken as usage.")
    if "usage" not in tables and options.usage:
        more.append("No usage charge names a machine with a known accelerator in hours; only billing was taken.")
    shown = "; ".join(
        f"{part.billed_cost.sum():,.2f} {currency} billed, {part.effective_cost.sum():,.2f} effective"
        for currency, part in accounts.groupby("currency")
    )
    headline = f"{shown if priced else 'No costs are stated'}, from {first:%Y-%m} to {last:%Y-%m}."
    period = (pd.Timestamp(first), pd.Timestamp(last) + pd.offsets.MonthBegin(1))
    return Ingested(tables, (*notes, *more), headline, parts=parts, rows=int(rows), period=period, accounts=accounts, each=each)


def _checked(sheet: Sheet, options: FocusOptions, *, alike: bool, timed: bool) -> tuple[bool, pd.DataFrame | None]:
    """Create the view `typed` of a bill that has no fault; say whether it states costs, and what its charges are of, where it has times.

    Where no one asks for times (not `timed`), rows alike are those of all times, with the last of them.
    """
    sheet.connection.execute("; ".join(f"drop view if exists {name}" for name in ("typed", "stated", "billed")))
    wanted = FOCUS_COLUMNS if timed else [replace(each, apart=not each.name.startswith("ChargePeriod")) for each in FOCUS_COLUMNS]
    matched = convert(sheet, wanted, alike=alike)
    _check_categories(sheet)
    priced = _costs(sheet)
    for column, given, name in (("ProviderName", options.provider, "provider"), ("BillingCurrency", options.currency, "currency")):
        if column not in matched and given is None:
            sheet.refuse(f"the file has no column {column}", f"Give {name}= instead.", column=column)
    _check_currencies(sheet, options)
    return priced, charged_times(sheet) if timed and "ChargePeriodStart" in matched else None


def _totals_of_files(sheet: Sheet, left_out: dict[int, tuple[int, ...]], number: int, *, priced: bool) -> tuple[FileTotals, ...]:
    """Say what each file holds, and which of the others, numbered from the first one's, have charges of it."""
    sums: dict[int, list[tuple[str, float, float, int, pd.Timestamp, pd.Timestamp]]] = {}
    for file, *row in sheet.rows("""
        select file, currency, coalesce(sum(billed_cost), 0)::double, coalesce(sum(effective_cost), 0)::double,
            sum("rows")::bigint, min(month), max(month)
        from grouped group by file, currency order by file, currency
        """):
        sums.setdefault(int(file), []).append(tuple(row))
    found = []
    for place in range(len(sheet.files)):
        others = tuple(number + other for other in left_out.get(place, ()))
        if not (rows := sums.get(place, [])):
            found.append(FileTotals(0, None, "All of its charges are in other files.", others))
            continue
        first, last = pd.Timestamp(min(row[4] for row in rows)), pd.Timestamp(max(row[5] for row in rows))
        money = "; ".join(f"{billed:,.2f} {currency} billed, {effective:,.2f} effective" for currency, billed, effective, *_ in rows)
        said = f"{money if priced else 'No costs are stated'}, from {first:%Y-%m} to {last:%Y-%m}."
        found.append(FileTotals(sum(row[3] for row in rows), (first, last + pd.offsets.MonthBegin(1)), said, others))
    return tuple(found)


def _billed_months(hours: pd.DataFrame, months: pd.DataFrame) -> pd.DataFrame:
    """Return what each bill covers: its months, and the days that its charges are for."""
    whole = months.assign(earliest=months["month"], latest=months["month"] + pd.offsets.MonthBegin(1))
    days = hours.groupby("file")["time"].agg(["min", "max"]).reset_index().melt("file", value_name="earliest")
    ends = pd.concat([whole, days.assign(latest=days["earliest"] + pd.Timedelta(days=1))])[["file", "earliest", "latest"]]
    return ends.sort_values("file", kind="stable", ignore_index=True).assign(family="bill", workload="", region="")


def _check_categories(sheet: Sheet) -> None:
    """Refuse charge categories that the specification does not have."""
    allowed = ", ".join(CATEGORIES)
    found = sheet.rows(f"select ChargeCategory, count(*) from typed where ChargeCategory not in {CATEGORIES} group by 1 order by 1")
    faults = [
        Fault(
            sheet.file.name,
            0,
            "ChargeCategory",
            str(value),
            f"{count} rows are none of {allowed}",
            "Export the file as FOCUS 1.0 or later.",
        )
        for value, count in found
    ]
    if faults:
        raise BookError(faults, where=sheet.file.name)


def _costs(sheet: Sheet) -> bool:
    """Say whether the file states costs; rows without one take it from the other, or count as nothing, and are counted in notes."""
    total, billed, effective, neither = sheet.rows("""
        select sum(alike), sum(alike) filter (BilledCost is not null), sum(alike) filter (EffectiveCost is not null),
            sum(alike) filter (BilledCost is null and EffectiveCost is null) from typed
        """)[0]
    if not billed and not effective:
        sheet.notes.append("The export states no costs, only quantities; no billing was taken.")
        return False
    if billed == effective == total:
        return True
    # what a commitment covers is billed with its purchase, and a purchase is spread over what it covers
    replaced = {
        "BilledCost": "case when CommitmentDiscountStatus is null then EffectiveCost end" if billed else "EffectiveCost",
        "EffectiveCost": "case when ChargeCategory <> 'Purchase' then BilledCost end" if effective else "BilledCost",
    }
    chosen = ", ".join(f"coalesce({column}, {other}, 0) as {column}" for column, other in replaced.items())
    sheet.connection.execute(f"alter view typed rename to stated; create view typed as select * replace ({chosen}) from stated")
    for column, other, filled in (("BilledCost", "EffectiveCost", billed), ("EffectiveCost", "BilledCost", effective)):
        if not filled:
            sheet.notes.append(f"{column} is empty throughout; it is taken as {other}.")
        elif filled < total:
            rule = "0 where a commitment covers it" if column == "BilledCost" else "0 for purchases, which are spread over what they cover"
            sheet.notes.append(f"{int(total - filled):,} of {int(total):,} rows state no {column}; it is taken as {other} ({rule}).")
    if neither:
        sheet.notes.append(f"{int(neither):,} rows state neither cost; they count as 0, so the bill may be more.")
    return True


def _check_currencies(sheet: Sheet, options: FocusOptions) -> None:
    currency = f"coalesce(BillingCurrency, {text_literal(options.currency or '')})"
    odd = f"select {currency} as currency, count(*) from typed where not regexp_full_match({currency}, '[A-Z]{{3}}') group by 1"
    bad = sheet.rows(f"{odd} order by 1")
    if bad:
        sheet.refuse(
            f"{bad[0][1]} rows have a billing currency that is not three capital letters",
            "Correct it.",
            value=str(bad[0][0]),
            column="BillingCurrency",
        )
    view = (
        f"select * replace ({currency} as currency, coalesce(ProviderName, {text_literal(options.provider or 'unknown')}) as ProviderName)"
    )
    sheet.connection.execute(f"alter view typed rename to billed; create view typed as {view} from (select *, '' as currency from billed)")


def _cheapest(offers: pd.DataFrame, skus: pd.DataFrame) -> pd.Series:
    """Return the cheapest price of an hour of each accelerator on demand."""
    listed = offers[offers["term"] == "on_demand"].merge(skus[["sku", "accelerator", "accelerator_count"]], on="sku")
    return (listed["usd_per_hour"] / listed["accelerator_count"]).groupby(listed["accelerator"]).min()


def _grouping(options: FocusOptions) -> str:
    """Return SQL that sums charges up by all that billing and usage tell apart."""
    workload = text_literal(options.workload) if options.workload else "coalesce(SubAccountName, SubAccountId, 'cloud')"
    lasting = "coalesce(epoch(ChargePeriodEnd) - epoch(ChargePeriodStart), 3600)"
    at = f"accelerator_hours is not null and {lasting} > 0" if options.usage else "false"
    return f"""
        select file, date_trunc('month', BillingPeriodStart)::timestamp as month, ProviderName as provider,
            coalesce(BillingAccountId, 'none') as billing_account,
            coalesce(ServiceName, 'none') as service, coalesce(SubAccountName, SubAccountId, 'none') as account,
            coalesce(RegionId, 'none') as region,
            coalesce(SkuId, 'none') as sku, ChargeCategory as charge_category, coalesce(PricingCategory, 'none') as pricing_category,
            coalesce(CommitmentDiscountStatus, 'none') as commitment_status,
            coalesce(CommitmentDiscountId, 'none') as commitment, machine, bucket, currency,
            case when {at} then date_trunc('hour', ChargePeriodStart)::timestamp end as time,
            case when {at} then cast({lasting} as double) end as seconds,
            case when {at} then {workload} end as workload, coalesce(RegionId, {text_literal(options.region)}) as place,
            sum(BilledCost) as billed_cost, sum(EffectiveCost) as effective_cost, sum(ListCost) as list_cost, sum(alike) as "rows",
            sum(PricingQuantity) as quantity, PricingUnit as quantity_unit,
            date_trunc('day', max(ChargePeriodStart))::timestamp as charged_until,
            cast(sum(accelerator_hours) as double) as accelerator_hours
        from charges group by all
        """


def _billing(sheet: Sheet) -> pd.DataFrame:
    """Return the charges of every month by the key of the table billing, with the scope that a restated bill replaces."""
    names = ", ".join(name for name in key_of("billing"))
    unit = "count(distinct quantity_unit) = 1 and count(quantity_unit) = count(*)"
    frame = sheet.connection.execute(f"""
        select file, {names}, billing_account,
            sum(billed_cost) as billed_cost, sum(effective_cost) as effective_cost, sum(list_cost) as list_cost,
            case when {unit} then sum(quantity) end as quantity, case when {unit} then min(quantity_unit) end as quantity_unit,
            max(charged_until) as charged_until
        from grouped group by all
        """).df()
    costs = dict.fromkeys(("billed_cost", "effective_cost", "list_cost", "quantity"), "float64")
    frame = _scoped(frame).astype(costs)
    return frame.sort_values(["file", *key_of("billing"), "scope"], ignore_index=True)


def _scoped(frame: pd.DataFrame) -> pd.DataFrame:
    """Name the provider as the tables do, and what is replaced when a month is billed again: provider, billing account and month.

    Characters that nobody sees are left out of all texts: no book takes them.
    """
    for column in frame.select_dtypes("object"):
        seen = {text: UNSEEN.sub("", text) or "none" for text in frame[column].unique() if isinstance(text, str) and UNSEEN.search(text)}
        frame = frame.assign(**{column: frame[column].replace(seen)}) if seen else frame
    names = {name: provider_named(name) for name in frame["provider"].unique()}
    named = frame.assign(provider=frame["provider"].map(names))
    scope = named["provider"] + "|" + named["billing_account"] + "|" + named["month"].dt.strftime("%Y-%m")
    return named.assign(scope=scope).drop(columns="billing_account")


def _refuse_double_amortisation(sheet: Sheet) -> None:
    """Refuse commitments whose cost stands both with what was paid for them and with what used them."""
    found = sheet.rows("""
        select commitment, sum(effective_cost) filter (charge_category = 'Purchase')::double as paid,
            sum(effective_cost) filter (charge_category = 'Usage' and billed_cost = 0)::double as used
        from grouped where commitment <> 'none' and effective_cost > 0 group by all having paid > 0 and used > 0 order by paid desc
        """)
    if found:
        name, paid, used = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        sheet.refuse(
            f"commitment {name}{more} costs {paid:,.2f} where it is bought and {used:,.2f} where it is used: billed and amortised costs are"
            " mixed, and would count twice",
            "EffectiveCost of a purchase whose cost is spread over its use is 0: export amortised costs, or set it to 0.",
            column="EffectiveCost",
        )


def _hours(sheet: Sheet) -> pd.DataFrame:
    """Return accelerator-hours as pieces of hours or days; longer charge periods are spread over their days."""
    rows = sheet.connection.execute("""
        select file, month, provider, billing_account, time, seconds, workload, place as region, sum(accelerator_hours) as quantity
        from grouped where time is not null group by all having sum(accelerator_hours) <> 0
        order by file, month, provider, billing_account, workload, region, time, seconds
        """).df()
    if rows.empty:
        return rows
    rows = _scoped(rows).reset_index(drop=True)
    long = rows["seconds"] > SECONDS_PER_DAY
    if long.any():
        total = rows.loc[long, "quantity"].sum()
        sheet.notes.append(
            f"{total:,.1f} accelerator-hours are charged in periods longer than a day; they are spread evenly over their days."
        )
        days = np.ceil(rows.loc[long, "seconds"] / SECONDS_PER_DAY).astype(int)
        spread = rows[long].loc[rows[long].index.repeat(days)]
        turn = spread.groupby(level=0).cumcount()
        spread = spread.assign(
            time=spread["time"].dt.floor("D") + pd.to_timedelta(turn, unit="D"),
            quantity=spread["quantity"] / days.reindex(spread.index),
            seconds=float(SECONDS_PER_DAY),
        )
        rows = pd.concat([rows[~long], spread], ignore_index=True)
    steps = np.where(rows["seconds"] > SECONDS_PER_HOUR, SECONDS_PER_DAY, SECONDS_PER_HOUR)
    return pieces(rows.assign(seconds=steps), "bill")
