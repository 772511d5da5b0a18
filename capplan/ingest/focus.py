"""FOCUS billing exports (FinOps Open Cost and Usage Specification, 1.0 to 1.2), CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pydantic import Field

from capplan.book.tables.registry import key_of
from capplan.errors import BookError, Fault
from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import Ingested, Stage, WorkOptions, shaped, workload_rows
from capplan.ingest.known import known_table, provider_named
from capplan.ingest.opening import Sheet, text_literal

SECONDS_PER_HOUR, SECONDS_PER_DAY = 3600, 86400
CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")


class FocusOptions(WorkOptions):
    """Options of FOCUS exports."""

    provider: str | None = Field(None, description="Provider, where the file has no column for it.", min_length=1)
    currency: str | None = Field(None, description="Billing currency, where the file has no column for it.", pattern=r"^[A-Z]{3}$")
    usage: bool = Field(True, description="Take accelerator-hours of known machine types as usage.")
    stage: Stage = Field("serving", description="Stage of the workloads that usage makes.")


FOCUS_COLUMNS = (
    Wanted("BillingPeriodStart", "time"),
    Wanted("ChargePeriodStart", "time", required=False),
    Wanted("ChargePeriodEnd", "text", required=False),
    Wanted("ChargeCategory", "text"),
    Wanted("BilledCost", "number"),
    Wanted("EffectiveCost", "number"),
    Wanted("ListCost", "number", required=False),
    Wanted("BillingCurrency", "text", required=False),
    Wanted("ProviderName", "text", ("ServiceProviderName", "InvoiceIssuerName"), required=False),
    Wanted("ServiceName", "text", required=False),
    Wanted("SubAccountName", "text", required=False),
    Wanted("SubAccountId", "text", ("BillingAccountId",), required=False),
    Wanted("RegionId", "text", ("RegionName",), required=False),
    Wanted("SkuId", "text", required=False),
    Wanted("PricingCategory", "text", required=False),
    Wanted("CommitmentDiscountStatus", "text", required=False),
    Wanted("PricingQuantity", "number", required=False),
    Wanted("PricingUnit", "text", required=False),
    Wanted("ConsumedQuantity", "number", required=False),
    Wanted("ConsumedUnit", "text", required=False),
    Wanted("ChargeDescription", "text", required=False),
    Wanted("SkuMeter", "text", required=False),
    Wanted("SkuPriceDetails", "text", required=False),
    Wanted("ResourceType", "text", required=False),
)


def read_focus(file: Path, options: FocusOptions, book: Path | None = None) -> Ingested:
    """Say what was billed each month, and how many accelerator-hours are in it.

    Costs are summed as decimals with twelve places, so that a month is right to the cent however many rows it has.

    Parameters
    ----------
    file
        FOCUS export; texts NULL and null are empty cells.
    options
        How to read it; provider and currency for files without these columns.
    book
        Folder of the book, whose machine types are known besides the reference facts.

    Returns
    -------
    Ingested
        Tables billing, and usage with workloads where rows name a known machine type. A row is usage if it is a usage charge counted
        in hours, and not the unused part of a commitment; it counts consumed hours x accelerators of the machine.
    """
    with Sheet(file, options, nulls=("NULL", "null", "Null")) as sheet:
        matched = convert(sheet, FOCUS_COLUMNS)
        _check_categories(sheet)
        for column, given, name in (("ProviderName", options.provider, "provider"), ("BillingCurrency", options.currency, "currency")):
            if column not in matched and given is None:
                sheet.refuse(f"the file has no column {column}", f"Give {name}= instead.", column=column)
        provider = f"coalesce(ProviderName, {text_literal(options.provider or 'unknown')})"
        currency = f"coalesce(BillingCurrency, {text_literal(options.currency or '')})"
        odd = f"select {currency} as currency, count(*) from typed where not regexp_full_match(currency, '[A-Z]{{3}}') group by 1"  # noqa: S608
        bad = sheet.rows(f"{odd} order by 1")
        if bad:
            sheet.refuse(
                f"{bad[0][1]} rows have a billing currency that is not three capital letters",
                "Correct it.",
                value=str(bad[0][0]),
                column="BillingCurrency",
            )
        billing = sheet.connection.execute(
            f"""
            select date_trunc('month', BillingPeriodStart)::timestamp as month, {provider} as provider, coalesce(ServiceName, 'none') as service,
                coalesce(SubAccountName, SubAccountId, 'none') as account, coalesce(RegionId, 'none') as region, coalesce(SkuId, 'none') as sku,
                ChargeCategory as charge_category, coalesce(PricingCategory, 'none') as pricing_category,
                coalesce(CommitmentDiscountStatus, 'none') as commitment_status, {currency} as currency,
                sum(BilledCost) as billed_cost, sum(EffectiveCost) as effective_cost, sum(ListCost) as list_cost,
                case when count(distinct PricingUnit) = 1 and count(PricingUnit) = count(*) then sum(PricingQuantity) end as quantity,
                case when count(distinct PricingUnit) = 1 and count(PricingUnit) = count(*) then min(PricingUnit) end as quantity_unit
            from typed group by all
            """  # noqa: S608
        ).df()
        billing["provider"] = billing.provider.map(provider_named)
        billing = billing.sort_values(key_of("billing"), ignore_index=True)
        tables = {"billing": shaped(billing, "billing")}
        hours = _accelerator_hours(sheet, options, book) if options.usage and "ChargePeriodStart" in matched else pd.DataFrame()
        notes = list(sheet.notes)
    if len(hours):
        tables["usage"] = hours
        tables["workloads"] = workload_rows(sorted(hours.workload.unique()), "accelerator_hours", options.stage)
        notes.append(f"{hours.quantity.sum():,.1f} accelerator-hours of known machine types were taken as usage.")
    elif options.usage:
        notes.append("No usage charge names a machine type of the table skus in hours; only billing was taken.")
    totals = billing.groupby("currency")[["billed_cost", "effective_cost"]].sum()
    shown = "; ".join(
        f"{row.billed_cost:,.2f} {currency} billed, {row.effective_cost:,.2f} effective" for currency, row in totals.iterrows()
    )
    headline = f"{shown}, from {billing.month.min():%Y-%m} to {billing.month.max():%Y-%m}."
    return Ingested(tables, tuple(notes), headline)


def _check_categories(sheet: Sheet) -> None:
    """Refuse charge categories that the specification does not have."""
    allowed = ", ".join(CATEGORIES)
    found = sheet.rows(f"select ChargeCategory, count(*) from typed where ChargeCategory not in {CATEGORIES} group by 1 order by 1")  # noqa: S608
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


def _accelerator_hours(sheet: Sheet, options: FocusOptions, book: Path | None) -> pd.DataFrame:
    """Find known machine types in usage charges, and count consumed hours x accelerators."""
    skus = known_table("skus", book)[["sku", "accelerator_count"]]
    if skus.empty:
        return pd.DataFrame()
    sheet.connection.register("machines", skus.assign(sku=skus.sku.astype(str)))
    described = "concat_ws(' ', SkuMeter, SkuPriceDetails, ResourceType, SkuId, ChargeDescription)"
    is_hours = "lower({0}) in ('hours', 'hour', 'hrs', 'hr', 'instance-hours', 'instance-hour', 'vm-hours', 'machine-hours')"
    amount = (
        f"case when {is_hours.format('ConsumedUnit')} then ConsumedQuantity when {is_hours.format('PricingUnit')} then PricingQuantity end"
    )
    workload = text_literal(options.workload) if options.workload else "coalesce(SubAccountName, SubAccountId, 'cloud')"
    rows = sheet.connection.execute(
        f"""
        with charges as (
            select {described} as described, {amount} as hours, ChargePeriodStart as time, {workload} as workload,
                coalesce(RegionId, {text_literal(options.region)}) as region,
                coalesce(epoch(timezone('UTC', try_cast(ChargePeriodEnd as timestamptz))) - epoch(ChargePeriodStart), 3600) as seconds
            from typed where ChargeCategory = 'Usage' and coalesce(CommitmentDiscountStatus, 'Used') <> 'Unused'
        ), texts as (select distinct described from charges where hours > 0),
        named as (
            select described, arg_max(accelerator_count, length(sku)) as accelerators from texts join machines
                on contains(described, sku) and regexp_matches(described, '(^|[^A-Za-z0-9.-])' || regexp_escape(sku) || '($|[^A-Za-z0-9-])') group by described
        )
        select date_trunc('hour', time)::timestamp as time, workload, region, seconds, cast(sum(hours * accelerators) as double) as quantity
        from charges join named using (described) where hours > 0 group by all order by workload, region, time
        """  # noqa: S608
    ).df()
    long = rows.seconds > SECONDS_PER_DAY
    if long.any():
        sheet.notes.append(
            f"{rows.quantity[long].sum():,.1f} accelerator-hours are charged in periods longer than a day and were not taken as usage."
        )
    rows = rows[~long]
    return shaped(_evenly(rows), "usage") if len(rows) else rows


def _evenly(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum up by hour (by day, where a charge covers more than an hour); times without a charge are zero, since a bill is complete."""
    step = "D" if (rows.seconds > SECONDS_PER_HOUR).any() else "h"
    rows = rows.assign(time=rows.time.dt.floor(step)).groupby(["workload", "region", "time"], as_index=False).quantity.sum()
    parts = []
    for (workload, region), part in rows.groupby(["workload", "region"], sort=True):
        times = pd.date_range(part.time.min(), part.time.max(), freq=step, name="time")
        parts.append(
            part.set_index("time")[["quantity"]].reindex(times, fill_value=0.0).reset_index().assign(workload=workload, region=region)
        )
    return pd.concat(parts, ignore_index=True)
