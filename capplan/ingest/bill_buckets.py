"""Row accounting of a bill: every billing row falls into exactly one bucket, with the accelerator-hours in it."""

import re

import pandas as pd

from capplan.ingest.machines import Machine, Recogniser, hours_of_unit
from capplan.ingest.opening import Sheet
from capplan.records import records, word_list

#: Buckets in the order in which they are shown, and what is in them.
BUCKETS = {
    "machine_hours": "hours of machines with a known accelerator",
    "correction": "corrections, which take from or add to the hours and dollars they correct",
    "unused_commitment": "the part of a commitment that nothing used",
    "unused_reservation": "reserved capacity that nothing used",
    "fee_or_software": "fees of contracts, software, support and surcharges, also where they are counted in machine hours",
    "credit": "credits and refunds",
    "tax": "taxes",
    "unknown_accelerator": "hours of accelerators that the table accelerators does not have",
    "not_a_machine": "all else: storage, networks, processors, memory, requests",
}
#: A charge below this share of the cheapest known price of its accelerator on demand is a surcharge, not the machine.
LEAST_PRICE_SHARE = 0.03
#: Columns that say what a charge is; rows that agree in all of them are judged once.
KIND = word_list(
    "ProviderName ServiceName ChargeCategory ChargeClass CommitmentDiscountStatus CapacityReservationStatus PricingUnit ConsumedUnit"
    " SkuMeter SkuPriceDetails InstanceType MeterName ResourceType SkuId ChargeDescription"
)
WORDS = ("InstanceType", "SkuMeter", "MeterName", "SkuPriceDetails", "ResourceType", "SkuId", "ChargeDescription")
#: What names one resource, run, number or moment in a description: no charge is judged by it.
_ONE_OF_MANY = (
    (r"(\b|_)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(\b|_)", r"\1ffffffff\2"),
    (r"(\b|_)[0-9A-Fa-f]{8,}(\b|_)", r"\1ffffffff\2"),
    (r"[0-9]{5,}", "99999"),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "9999-99-99"),
    (r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?", "99:99"),
)
_FEE = re.compile(
    r"marketplace|software|licen[cs]e|\bEMR\b|elastic"
    r" ?mapreduce|surcharge|uplift|\bsupport\b|EBS-?optimi[sz]ed|(?:management|service|platform|orchestration)[ -]fee|"
    r"databricks|\bDBUs?\b|\bAI Enterprise\b|subscription|\bcommitment (?:- dollar based )?v\d|commitment fee|heavyusage|auto ?mode|managed"
    r" ?instances?|add-?on\b",
    re.IGNORECASE,
)
#: What details of a price say of a machine without a licence in it.
_NO_LICENCE = re.compile(
    r"no licen[cs]e(?: required)?|\blicen[cs]e ?models?\b|\bx_LicenseModel\b|\bpre-?installed ?(?:sw|software)\b", re.IGNORECASE
)
_FEE_SERVICE = re.compile(
    r"marketplace|mapreduce|kubernetes service|elastic container service|parallel computing|guardduty|inspector|systems"
    r" manager|cloudwatch|support",
    re.IGNORECASE,
)
_UNUSED = re.compile(r"unused ?(?:box|ded|host|reservation|capacity)|unused.{0,40}reservation|reservation.{0,40}unused", re.IGNORECASE)
_RESERVATION_ONLY = re.compile(r"(?:^|[-\s])Reservation:|\bDedicatedRes(?:ervation)?:", re.IGNORECASE)
_PART_OF_HOST = re.compile(
    r"\binstance (?:core|ram)\b|\b(?:core|ram|vcpu|memory) running in\b|\blocal ssd\b|\b(?:disk|storage|snapshot|volume|egress|ingress|ip"
    r" address)\b",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"(?<![A-Za-z])(?:gpus?|tpus?|accelerators?|trainium|inferentia|gaudi|npus?)(?![A-Za-z])", re.IGNORECASE)


def _bucket(row: dict[str, str], machine: Machine | None, hours: bool, words: str) -> str:
    """Say where a kind of charge belongs; corrections and credits by sign are told apart later, row by row."""
    category, meter = row["ChargeCategory"], row["SkuMeter"] or row["MeterName"]
    if category in ("Tax", "Credit"):
        return category.lower()
    if category == "Adjustment" or row["ChargeClass"] == "Correction":
        return "correction"
    if category == "Purchase":
        return "fee_or_software"
    if row["CommitmentDiscountStatus"] == "Unused":
        return "unused_commitment"
    if row["CapacityReservationStatus"] == "Unused" or _UNUSED.search(words):
        return "unused_reservation"
    if _FEE.search(words) or _FEE.search(row["ServiceName"]) or (machine is not None and _FEE_SERVICE.search(row["ServiceName"])):
        return "fee_or_software"
    if not hours or _PART_OF_HOST.search(words if machine is None or not machine.name else "") or _RESERVATION_ONLY.search(meter):
        return "not_a_machine"
    if machine is None:
        return "unknown_accelerator" if _UNKNOWN.search(words) else "not_a_machine"
    return "machine_hours" if machine.accelerator else "unknown_accelerator"


def judged(kinds: pd.DataFrame, recogniser: Recogniser, cheapest: pd.Series) -> pd.DataFrame:
    """Say of each kind of charge which bucket it is in, which machine it names and how many accelerator-hours a unit has.

    Args:
        kinds: Columns KIND as texts (empty = not stated), consumed, priced (summed quantities) and usd (largest of the summed costs).
        cheapest: Cheapest known price of an hour of an accelerator on demand, by accelerator.

    Returns:
        DataFrame: bucket, machine, accelerator, per_consumed, per_priced (accelerator-hours a unit; missing where the unit is no time), by
            row of `kinds`.
    """
    found = []
    for row in records(kinds):
        words = _NO_LICENCE.sub("", " | ".join(row[name] for name in WORDS if row[name]))
        consumed, priced = hours_of_unit(row["ConsumedUnit"]), hours_of_unit(row["PricingUnit"])
        machine = recogniser.find(words) if consumed or priced else None
        bucket = _bucket(row, machine, bool(consumed or priced), words)
        share = 1.0 if machine is None else machine.count
        single = min(share, 1.0)
        per_consumed, per_priced = (None if unit is None else unit[0] * (single if unit[1] else share) for unit in (consumed, priced))
        known = machine is not None and machine.accelerator is not None
        if bucket == "machine_hours" and machine is not None:
            amount = (per_consumed or 0.0) * row["consumed"] or (per_priced or 0.0) * row["priced"]
            if amount > 0 and 0 < row["usd"] / amount < LEAST_PRICE_SHARE * cheapest.get(machine.accelerator, 0.0):
                bucket = "fee_or_software"
        counts = (
            known and bucket in ("machine_hours", "correction") and not _FEE.search(words) and not _FEE_SERVICE.search(row["ServiceName"])
        )
        found.append(
            (
                bucket,
                machine.name or machine.stated if machine is not None and bucket != "not_a_machine" else "none",
                machine.accelerator if machine is not None else None,
                per_consumed if counts else None,
                per_priced if counts else None,
            )
        )
    return pd.DataFrame(found, columns=["bucket", "machine", "accelerator", "per_consumed", "per_priced"], index=kinds.index)


def account(sheet: Sheet, recogniser: Recogniser, cheapest: pd.Series) -> None:
    """Create the view `charges`: the typed rows with bucket, machine, accelerator and signed accelerator_hours, if any.

    Args:
        sheet: With the view `typed` of a bill.
        recogniser, cheapest: As for `judged`.
    """
    said, names = "ChargeDescription", "\n".join(recogniser.names)
    for one, any_ in _ONE_OF_MANY if not any(re.search(one, names) for one, _ in _ONE_OF_MANY) else ():
        said = f"regexp_replace({said}, '{one}', '{any_}', 'g')"
    key = "concat_ws(chr(31), " + ", ".join(f"coalesce({said if name == 'ChargeDescription' else name}, '')" for name in KIND) + ")"
    kinds = sheet.connection.execute(f"""
        select {key} as kind, cast(coalesce(sum(ConsumedQuantity) filter (ConsumedQuantity > 0), 0) as double) as consumed,
            cast(coalesce(sum(PricingQuantity) filter (PricingQuantity > 0), 0) as double) as priced,
            cast(greatest(coalesce(sum(abs(ListCost)), 0), coalesce(sum(abs(EffectiveCost)), 0),
                coalesce(sum(abs(BilledCost)), 0)) as double) as usd
        from typed group by 1 order by 1
        """).df()
    parts = kinds["kind"].str.split("\x1f", expand=True).set_axis(list(KIND), axis=1)
    verdicts = judged(pd.concat([parts, kinds[["consumed", "priced", "usd"]]], axis=1), recogniser, cheapest).assign(kind=kinds["kind"])
    sheet.connection.register("verdicts", verdicts.astype({"per_consumed": "float64", "per_priced": "float64"}))
    hours = "coalesce(ConsumedQuantity * per_consumed, PricingQuantity * per_priced)"
    refund = "ChargeCategory = 'Usage' and BilledCost < 0"
    less = "coalesce(ConsumedQuantity, PricingQuantity, 0) < 0"
    sheet.connection.execute(f"""
        create or replace view charges as select typed.*, machine, accelerator,
            case when bucket not in ('machine_hours', 'not_a_machine', 'unknown_accelerator') then bucket
                when {less} then 'correction' when {refund} then 'credit' else bucket end as bucket,
            case when ChargeClass = 'Correction' and BilledCost < 0 then -abs({hours})
                when {refund} and not {less} then null else {hours} end as accelerator_hours
        from typed join verdicts on {key} = verdicts.kind
        """)


def summed(sheet: Sheet) -> pd.DataFrame:
    """Sum the table `grouped` of charges up by bucket and currency.

    Returns:
        DataFrame: bucket, currency, rows, billed_cost, effective_cost, accelerator_hours: rows and dollars sum to the file.
    """
    frame = sheet.connection.execute(
        """select bucket, currency, cast(sum("rows") as bigint) as rows,
        cast(coalesce(sum(billed_cost), 0) as double) as billed_cost,
        cast(coalesce(sum(effective_cost), 0) as double) as effective_cost,
        cast(coalesce(sum(accelerator_hours), 0) as double) as accelerator_hours
        from grouped group by all"""
    ).df()
    frame["order"] = frame["bucket"].map(list(BUCKETS).index)
    return frame.sort_values(["order", "currency"], ignore_index=True).drop(columns="order")


def told(accounts: pd.DataFrame) -> list[str]:
    """Write the buckets as lines for the reader."""
    lines = [
        f"{row.bucket.replace('_', ' ')}: {row.rows:,} rows, {row.billed_cost:,.2f} {row.currency} billed, {row.effective_cost:,.2f}"
        " effective" + (f", {row.accelerator_hours:,.1f} accelerator-hours" if row.accelerator_hours else "") + f" ({BUCKETS[row.bucket]})."
        for row in accounts.itertuples()
    ]
    total = f"All {accounts['rows'].sum():,} rows of the bill are in one of {len(accounts)} buckets."
    return [total, *lines]
