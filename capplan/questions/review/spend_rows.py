"""Spend as rows of one form, whether it was planned or billed: who charged what kind of use of which machine, in which month."""

import json
import re

import numpy as np
import pandas as pd

#: Kinds of spend: three ways to use machines; what was paid for and not used; spend agreements, where a plan tells them; all else; what the
#: bill does not say the use of.
USE = ("on_demand", "spot", "committed")
SPEND = {
    "month": "datetime64[ns]",
    "provider": "object",
    "accelerator": "object",
    "contract_id": "object",
    "workload": "object",
    "kind": "object",
    "hours": "float64",
    "amount": "float64",
    "amount_at_plan_rates": "float64",
}
KEYS = ["month", "provider", "accelerator", "contract_id", "workload", "kind"]
#: Units of hours of machines, and of accelerators, as bills write them.
MACHINE_HOURS = re.compile(r"^(machine[- ]|instance[- ])?(hours?|hrs?|h)$", re.IGNORECASE)
ACCELERATOR_HOURS = re.compile(r"^(gpu|accelerator|chip)[- ]?(hours?|hrs?|h)$", re.IGNORECASE)


def gathered(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum rows up by all that names them; hours stay missing where no row of a sum has any."""
    texts = rows[KEYS[1:]].fillna("").astype(str)
    table = pd.concat([rows[["month"]], texts, rows[["hours", "amount", "amount_at_plan_rates"]].astype(float)], axis=1)
    sums = table.groupby(KEYS, as_index=False, sort=True).sum(min_count=1)
    return sums.astype(SPEND)


def spend_of_focus(frame: pd.DataFrame) -> pd.DataFrame:
    """Read spend from FOCUS rows that capplan planned.

    Args:
        frame: Rows as a plan writes them: BillingPeriodStart, ProviderName, ServiceName, SkuId, PricingCategory, CommitmentDiscountId,
            CommitmentDiscountStatus, ConsumedQuantity and PricingQuantity (accelerator-hours), EffectiveCost, ChargeDescription, Tags.

    Returns:
        DataFrame: SPEND: month, provider, accelerator, contract_id, workload, kind (on_demand, spot, committed, unused, agreement, other),
            hours (of accelerators; missing where a row counts none), amount and amount_at_plan_rates (equal: a plan knows one rate).
    """
    spent = frame[frame["EffectiveCost"] != 0]
    tags = [json.loads(text) if isinstance(text, str) and text else {} for text in spent["Tags"]]
    unused = pd.Series(["idle" in tag for tag in tags], spent.index, dtype=bool)
    counted = spent["ConsumedQuantity"].notna()
    dynamic, committed = spent["PricingCategory"].eq("Dynamic"), spent["CommitmentDiscountStatus"].eq("Used")
    accelerator = spent["SkuId"].where(spent["SkuId"] != spent["ServiceName"])
    owned = spent["ProviderName"].eq("own") & accelerator.notna()
    agreed = spent["ChargeDescription"].fillna("").astype(str).str.startswith("agreement ")
    kind = np.select(
        [agreed, unused, committed | owned, counted & dynamic, counted], ["agreement", "unused", "committed", "spot", "on_demand"], "other"
    )
    return gathered(
        pd.DataFrame(
            {
                "month": pd.to_datetime(spent["BillingPeriodStart"].str[:10]),
                "provider": spent["ProviderName"],
                "accelerator": accelerator,
                "contract_id": spent["CommitmentDiscountId"],
                "workload": [tag.get("workload", "") for tag in tags],
                "kind": kind,
                "hours": spent["PricingQuantity"].where(unused & spent["PricingUnit"].ne("Units"), spent["ConsumedQuantity"]),
                "amount": spent["EffectiveCost"],
                "amount_at_plan_rates": spent["EffectiveCost"],
            },
            index=spent.index,
        )
    )


def spend_of_bill(
    bill: pd.DataFrame, skus: pd.DataFrame, offers: pd.DataFrame, agreements: pd.DataFrame
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    r"""Read spend from a bill.

    Hours are what the bill counts; where it counts none, and the machine's price on demand is known, they follow from the cost at list:

    .. math:: h = n\,\frac{\text{list cost}}{p}

    with n the accelerators of a machine.

    Args:
        bill: Table billing, sorted (`ledger.bill.sorted_bill`: part, line), with amount and amount_at_plan_rates in the book's currency.
        skus, offers: The tables of these names: accelerators of a machine, and prices on demand by region.
        agreements: Table spend_agreements: a charge or credit whose commitment has the name of one of its provider is of that agreement.
            A bill that does not name it, as most do not, tells no agreement from other credits.

    Returns:
        DataFrame: SPEND; kind is unmapped where the bill names an accelerator that nothing is known of.
        tuple of str: What was derived, and what could not be.
    """
    about = skus.set_index("sku")
    machine = bill["sku"].where(bill["sku"].isin(about.index), bill["machine"])
    known = machine.isin(about.index)
    accelerator = machine.map(about["accelerator"]).fillna("").astype(str)
    size = machine.map(about["accelerator_count"]).astype(float)
    of_machine = known & bill["part"].isin(["contract", "machines"])
    unit = bill["quantity_unit"].fillna("").astype(str)
    each = unit.map(lambda text: bool(ACCELERATOR_HOURS.match(text)))
    whole = unit.map(lambda text: bool(MACHINE_HOURS.match(text)))
    hours = bill["quantity"].where(each, (bill["quantity"] * size).where(whole))
    on_demand = offers[offers["term"] == "on_demand"]
    here = on_demand.groupby(["sku", "region"])["usd_per_hour"].min()
    price = pd.Series([here.get(pair, np.nan) for pair in zip(machine, bill["region"], strict=True)], bill.index, dtype=float)
    price = price.fillna(machine.map(on_demand.groupby("sku")["usd_per_hour"].min()))
    derived = of_machine & hours.isna() & price.gt(0) & bill["list_cost"].gt(0)
    hours = hours.where(~derived, size * bill["list_usd"] / price).where(of_machine)
    unused = bill["commitment_status"].eq("Unused") | bill["bucket"].isin(["unused_commitment", "unused_reservation"])
    under = bill["part"].eq("contract") | bill["pricing_category"].eq("Committed") | bill["commitment_status"].eq("Used")
    plain = bill["charge_category"].isin(["Usage", "Purchase"]) | bill["bucket"].isin(["machine_hours", "correction"])
    agreed = set(zip(agreements["provider"], agreements["agreement_id"], strict=True))
    of_agreement = np.array([pair in agreed for pair in zip(bill["provider"], bill["commitment"], strict=True)], dtype=bool)
    kind = np.select(
        [
            of_agreement & ~of_machine,
            bill["bucket"].eq("unknown_accelerator"),
            of_machine & unused,
            of_machine & plain & under,
            of_machine & plain & bill["pricing_category"].eq("Dynamic"),
            of_machine & plain,
        ],
        ["agreement", "unmapped", "unused", "committed", "spot", "on_demand"],
        "other",
    )
    named = bill["line"].fillna("").astype(str).str.extract(r"^(.*) \([^()]*\)$", expand=False).fillna("")
    rows = pd.DataFrame(
        {
            "month": bill["month"],
            "provider": bill["provider"].where(bill["part"] != "site", "own"),
            "accelerator": accelerator.where(of_machine, ""),
            "contract_id": named,
            "workload": "",
            "kind": kind,
            "hours": hours,
            "amount": bill["amount"],
            "amount_at_plan_rates": bill["amount_at_plan_rates"],
        },
        index=bill.index,
    )
    notes = []
    if derived.any():
        notes.append(f"{int(derived.sum())} rows of the bill count no hours; they follow from the cost at list prices.")
    blind = of_machine & hours.isna() & (bill["amount"] != 0)
    if blind.any():
        notes.append(f"{int(blind.sum())} rows of machines have neither hours nor a cost at list: what they changed by counts as price.")
    return gathered(rows), tuple(notes)
