"""Planned spend as rows of a FOCUS bill (FinOps Open Cost and Usage Specification 1.2), so that a bill can be held against it."""

import json
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.plan import Plan
from capplan.answers.sums import in_currency, quarters_of
from capplan.outputs.views.unit_tables import discounted_hours
from capplan.questions.ledger.schedules import month_shares
from capplan.questions.ledger.work_costs import HELD
from capplan.records import records
from capplan.units import ROUNDING, quarter_end, quarter_start

#: Sources of dispatch that are charged by the hour or the token: their PricingCategory.
BY_USE = {"on_demand": "Standard", "spot": "Dynamic", "api": "Standard", "egress": "Standard"}
#: ServiceCategory and ServiceName of what a line pays for; lines of machines are Compute.
SERVICES = {
    "api": ("AI and Machine Learning", "Model API"),
    "tokens": ("AI and Machine Learning", "Model API"),
    "tokens_before_plan": ("AI and Machine Learning", "Model API"),
    "storage": ("Storage", "Storage"),
    "egress": ("Networking", "Data transfer"),
    "network": ("Networking", "Network"),
    "people": ("Other", "People"),
    "evaluation": ("Other", "Evaluation"),
    "software": ("Management and Governance", "Software"),
    "support": ("Other", "Support"),
    "space": ("Other", "Space"),
    "power": ("Other", "Power"),
    "other": ("Other", "Other costs"),
}
#: Lines that take something off what was charged.
CREDITS = ("agreement_discount", "late_delivery")
#: Lines that pay once for what is used later.
PAID_AHEAD = ("capex", "residual", "agreement_shortfall")
#: Who charges for what no provider bills: people, and whatever the book names no provider for.
INTERNAL = "internal"
COLUMNS = (
    "BillingAccountId BillingAccountName BillingPeriodStart BillingPeriodEnd ChargePeriodStart ChargePeriodEnd ChargeCategory ChargeClass"
    " ChargeDescription ChargeFrequency ProviderName PublisherName InvoiceIssuerName ServiceCategory ServiceName SkuId PricingCategory"
    " PricingQuantity PricingUnit ListUnitPrice ListCost ContractedUnitPrice ContractedCost BilledCost EffectiveCost BillingCurrency"
    " ConsumedQuantity ConsumedUnit CommitmentDiscountId CommitmentDiscountCategory CommitmentDiscountType CommitmentDiscountStatus"
    " CommitmentDiscountQuantity CommitmentDiscountUnit Tags"
).split()
KEYS = ["month", "component", "contract_id", "provider", "status", "team"]
HOURS = "Accelerator-Hours"


def planned_focus(plan: Plan) -> pd.DataFrame:
    r"""Return the planned quarters' spend as FOCUS rows, in the book's currency.

    What is paid for a contract is a purchase (BilledCost); what it costs while it runs stands in rows of use (EffectiveCost), one for the
    part that work uses and one for the part that stays unused:

    .. math:: \sum \text{EffectiveCost} = \text{P\&L}, \qquad \sum \text{BilledCost} = \text{billed}

    of the ledger, month by month.

    Hours that a plan without capacity (a savings plan) discounts stand with the cost of the plan, which counts as used where it
    reaches any.

    Returns:
        DataFrame: The columns of FOCUS 1.2 that apply. Quantities are accelerator-hours; Tags name the class of work and the team that bear
            a row, and say what stood idle (owned machines are no commitment, and have no status). SkuId is the accelerator, or the service
            where there is none. Prices at list are those on demand; where
            a pool has none, ContractedCost stands for it.
    """
    rows = _ledger_rows(plan)
    use, held = rows["component"].isin(BY_USE) & rows["status"].ne("stated"), rows["basis"].eq("held")
    discounted = rows["basis"].eq("plan")
    by_use, plans = _under_plans(_by_use(rows[use], plan), _plainly(rows[discounted]), plan)
    parts = [by_use, plans, _held(rows[held], plan), _plainly(rows[~use & ~held & ~discounted])]
    charges = pd.concat([part for part in parts if len(part)], ignore_index=True)
    charges = charges[charges[["billed", "effective"]].abs().max(axis=1) > ROUNDING]
    return _as_focus(_with_list_prices(charges, plan), plan)


def _ledger_rows(plan: Plan) -> pd.DataFrame:
    """Put what is billed and what is expensed side by side: KEYS, billed, effective, accelerator, basis (held, plan, or empty)."""
    entries = plan.ledger.entries
    inside = entries[entries["quarter"].isin(quarters_of(plan)) & entries["view"].isin(["billed", "p_and_l"])]
    wide = inside.pivot_table(index=KEYS, columns="view", values="amount", aggfunc="sum", fill_value=0.0, observed=True)
    rows = wide.reindex(columns=["billed", "p_and_l"], fill_value=0.0).rename(columns={"p_and_l": "effective"}).reset_index()
    rows.columns.name = None
    pools = plan.ledger.pools
    known = rows["contract_id"].isin(list(pools)) & rows["component"].isin(HELD)
    rows["accelerator"] = [pools[name][1] if there else "" for name, there in zip(rows["contract_id"], known, strict=True)]
    rows["pool_provider"] = [pools[name][0] if there else "" for name, there in zip(rows["contract_id"], known, strict=True)]
    rows["basis"] = [
        "held" if there and pools[name][2] else "plan" if there else "" for name, there in zip(rows["contract_id"], known, strict=True)
    ]
    return rows


def by_month(table: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    """Spread quarters over their months by days, as the ledger does."""
    shares = [
        (label, month, share)
        for label in sorted(table["quarter"].unique())
        for month, share in month_shares(quarter_start(label), quarter_end(label) - pd.Timedelta(days=1))
    ]
    # a plan that holds nothing has no quarter here, and its months must be days even so
    months = pd.DataFrame(shares, columns=["quarter", "month", "month_share"]).astype({"month": "datetime64[ns]", "month_share": "float64"})
    spread = table.astype({"quarter": object}).merge(months.astype({"quarter": object}), on="quarter")
    spread[values] = spread[values].mul(spread["month_share"], axis=0)
    return spread.drop(columns=["quarter", "month_share"])


def _by_use(rows: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Divide use by the hour among the machines it runs on: one row a class, provider, accelerator, team."""
    ran = plan.purchases.dispatch
    keys = ["month", "component", "class", "provider"]
    where = by_month(
        ran[ran["source"].isin(list(BY_USE))]
        .assign(provider=ran["provider"].fillna("").astype(str), accelerator=ran["accelerator"].fillna("").astype(str))
        .rename(columns={"source": "component", "expected_accelerator_hours": "hours", "expected_usd": "usd"})
        .groupby(["quarter", "component", "class", "provider", "accelerator"], as_index=False)[["hours", "usd"]]
        .sum(),
        ["hours", "usd"],
    )
    where["part"] = where["usd"] / where.groupby(keys)["usd"].transform("sum")
    mine = rows.drop(columns=["accelerator"])
    names = [name.removeprefix(f"{component} ") for name, component in zip(mine["contract_id"], mine["component"], strict=True)]
    mine["class"] = pd.Series(names, index=mine.index, dtype=object)
    mine["provider"] = mine["provider"].fillna("").astype(str)
    mine["team_share"] = mine["effective"] / mine.groupby(keys)["effective"].transform("sum")
    both = mine.merge(where, on=keys, how="left")
    both["part"] = both["part"].fillna(1.0)
    for column in ("billed", "effective"):
        both[column] *= both["part"]
    both["hours"] *= both["team_share"]
    return both.assign(kind="use", accelerator=both["accelerator"].fillna(""), contract_id="")


def _under_plans(use: pd.DataFrame, plans: pd.DataFrame, plan: Plan) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take the hours that plans without capacity discount out of what is used on demand, and put them with the cost of the plans."""
    keys = ["month", "provider", "accelerator"]
    reached = discounted_hours(plan)
    if plans.empty or reached.empty:
        return use, plans
    reached = by_month(reached, ["eligible_accelerator_hours", "discounted_accelerator_hours"]).set_index(keys)
    share = (
        reached["discounted_accelerator_hours"] / reached["eligible_accelerator_hours"].where(reached["eligible_accelerator_hours"] > 0)
    ).fillna(0.0)
    on_demand = use["component"].eq("on_demand")
    taken = pd.Series([share.get(key, 0.0) for key in zip(*(use[name] for name in keys), strict=True)], use.index) * on_demand
    hours = use["hours"] * taken
    moved = (
        use.assign(hours=hours)[hours > 0]
        .groupby([*keys, "class"], as_index=False)["hours"]
        .sum()
        .rename(columns={"provider": "pool_provider"})
    )
    keys = ["month", "pool_provider", "accelerator"]
    moved["class_share"] = moved["hours"] / moved.groupby(keys)["hours"].transform("sum")
    spread = plans["kind"] == "spread"
    costs = plans[spread].drop(columns=["hours", "class"])
    costs["plan_share"] = costs["effective"] / costs.groupby(keys)["effective"].transform("sum")
    costs = costs.merge(moved, on=keys, how="left")
    found = costs["class_share"].notna()
    costs["effective"] *= costs["class_share"].fillna(1.0)
    costs["hours"] *= costs["plan_share"]
    costs = costs.assign(kind=np.where(found, "use", "unused"), **{"class": costs["class"].fillna("")})
    return use.assign(hours=use["hours"] - hours), pd.concat([plans[~spread], costs], ignore_index=True)


def _held(rows: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Divide what is held in any case into purchases, what each class uses of it, and what stays unused."""
    keys = ["month", "pool_provider", "accelerator"]
    bought = rows[rows["billed"] != 0].assign(kind="purchase", effective=0.0, hours=np.nan, **{"class": ""})
    idle = by_month(
        plan.ledger.idle.rename(columns={"provider": "pool_provider"})[
            ["quarter", "pool_provider", "accelerator", "held_accelerator_hours", "used_accelerator_hours", "used_share"]
        ],
        ["held_accelerator_hours", "used_accelerator_hours"],
    )
    ran = plan.purchases.dispatch
    classes = by_month(
        ran[(ran["source"] == "committed") & (ran["expected_accelerator_hours"] > 0)]
        .rename(columns={"provider": "pool_provider", "expected_accelerator_hours": "hours"})
        .groupby(["quarter", "pool_provider", "accelerator", "class"], as_index=False)["hours"]
        .sum(),
        ["hours"],
    )
    classes["class_share"] = classes["hours"] / classes.groupby(keys)["hours"].transform("sum")
    costs = rows[rows["effective"] != 0].assign(billed=0.0)
    main = costs["component"].isin(["commitment", "purchase", "depreciation"])
    costs["hour_share"] = (
        costs["effective"].where(main, 0.0) / costs["effective"].where(main, 0.0).groupby([costs[key] for key in keys]).transform("sum")
    ).fillna(0.0)
    costs = costs.merge(idle, on=keys, how="left")
    costs["used_share"] = costs["used_share"].fillna(0.0)
    unused = costs.assign(
        kind="unused",
        effective=costs["effective"] * (1 - costs["used_share"]),
        hours=costs["hour_share"] * (costs["held_accelerator_hours"] - costs["used_accelerator_hours"]).clip(lower=0.0),
        **{"class": ""},
    )
    used = costs.merge(classes[[*keys, "class", "class_share"]], on=keys, how="inner")
    used = used.assign(
        kind="use",
        effective=used["effective"] * used["used_share"] * used["class_share"],
        hours=used["hour_share"] * used["used_accelerator_hours"] * used["class_share"],
    )
    return pd.concat([bought, used, unused], ignore_index=True)


def _plainly(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all that is neither: each line once, as it is billed and expensed."""
    kinds = np.select(
        [rows["component"].isin(CREDITS), rows["component"].isin(PAID_AHEAD) | rows["basis"].eq("plan")], ["credit", "ahead"], "plain"
    )
    plain = rows.assign(kind=kinds, hours=np.nan)
    plain["class"] = [
        name.removeprefix("tokens ") if component == "tokens" else ""
        for name, component in zip(rows["contract_id"], rows["component"], strict=True)
    ]
    ahead = plain["kind"] == "ahead"
    paid = plain[ahead & (plain["billed"] != 0)].assign(effective=0.0, kind="purchase")
    spent = plain[ahead & (plain["effective"] != 0)].assign(billed=0.0, kind="spread")
    return pd.concat([plain[~ahead], paid, spent], ignore_index=True)


def _with_list_prices(charges: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Add what the hours would cost on demand: list (amount; the effective cost where no price is known)."""
    prices = plan.prices[plan.prices["term"] == "on_demand"].groupby(["provider", "accelerator"])["billed_usd_per_accelerator_hour"].min()
    maker = charges["pool_provider"].where(charges["pool_provider"].ne(""), charges["provider"])
    each = pd.Series([prices.get(pair, np.nan) for pair in zip(maker, charges["accelerator"], strict=True)], charges.index, dtype=float)
    listed = in_currency(plan, each * charges["hours"], charges["month"])
    return charges.assign(list=listed.where(charges["kind"].isin(["use", "unused"]) & listed.gt(0)))


def _as_focus(charges: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Write charges in FOCUS's columns."""
    charges = charges.sort_values([*KEYS, "accelerator", "kind", "class"], ignore_index=True)
    component, purchase, credit = charges["component"], charges["kind"] == "purchase", charges["kind"] == "credit"
    committed = component.isin(["commitment", "purchase"])
    services = [SERVICES.get(name, ("Compute", "Accelerators")) for name in component]
    months, after = (when.dt.strftime("%Y-%m-01T00:00:00Z") for when in (charges["month"], charges["month"] + pd.DateOffset(months=1)))
    provider = charges["pool_provider"].where(charges["pool_provider"].ne(""), charges["provider"].fillna("").astype(str))
    provider = provider.where(provider.ne(""), INTERNAL)
    words = zip(component.str.replace("_", " "), charges["accelerator"], charges["contract_id"], strict=True)
    frame = pd.DataFrame(
        {
            "BillingAccountId": plan.book,
            "BillingAccountName": plan.book,
            "BillingPeriodStart": months,
            "BillingPeriodEnd": after,
            "ChargePeriodStart": months,
            "ChargePeriodEnd": after,
            "ChargeCategory": np.select([purchase, credit], ["Purchase", "Credit"], "Usage"),
            "ChargeClass": None,
            "ChargeDescription": [" ".join(filter(None, part)) for part in words],
            "ChargeFrequency": np.select([purchase & ~committed, purchase | credit], ["One-Time", "Recurring"], "Usage-Based"),
            "ProviderName": provider,
            "PublisherName": provider,
            "InvoiceIssuerName": provider,
            "ServiceCategory": [category for category, _ in services],
            "ServiceName": [name for _, name in services],
            "SkuId": charges["accelerator"].where(charges["accelerator"].ne(""), [name for _, name in services]).where(~credit),
            "PricingCategory": component.map(BY_USE).where(~committed | purchase, "Committed").fillna("Standard").where(~credit),
            "BilledCost": charges["billed"],
            "EffectiveCost": charges["effective"],
            "BillingCurrency": plan.scenario.currency,
            "Tags": [_tags(row) for row in records(charges[["class", "team", "kind"]].fillna(""))],
        }
    )
    return pd.concat([frame, _quantities(charges, committed, plan.scenario.currency)], axis=1)[COLUMNS]


def _tags(row: dict[Hashable, Any]) -> str:
    """Return who bears a charge, and whether it stood idle, as JSON."""
    tags = {"workload": row["class"], "team": row["team"], "idle": "true" if row["kind"] == "unused" else ""}
    return json.dumps({name: value for name, value in tags.items() if value}, ensure_ascii=False)


def _quantities(charges: pd.DataFrame, committed: pd.Series, currency: str) -> pd.DataFrame:
    """Return the columns of quantities, unit prices and commitments."""
    kind, hours = charges["kind"], charges["hours"].where(charges["hours"] > 0)
    counted, credit, purchase = hours.notna(), kind == "credit", kind == "purchase"
    used = ~purchase & ~credit & (kind != "unused")
    by_hour = ~committed & (kind == "use") & (charges["billed"] != 0)
    cost = charges["billed"].where(purchase | credit | (kind == "plain") | by_hour, charges["effective"])
    listed, quantity = charges["list"].fillna(cost), hours.where(counted, 1.0).where(~credit)

    def either(chosen: pd.Series, yes: str, no: str) -> pd.Series:
        return pd.Series(np.where(chosen, yes, no), charges.index, dtype=object)

    lowers_a_price = charges["basis"] == "plan"
    return pd.DataFrame(
        {
            "PricingQuantity": quantity,
            "PricingUnit": either(counted, HOURS, "Units").where(~credit),
            "ListUnitPrice": listed / quantity,
            "ListCost": listed,
            "ContractedUnitPrice": cost / quantity,
            "ContractedCost": cost,
            "ConsumedQuantity": hours.where(used),
            "ConsumedUnit": either(counted, HOURS, "").where(used & counted),
            "CommitmentDiscountId": charges["contract_id"].where(committed),
            "CommitmentDiscountCategory": either(lowers_a_price, "Spend", "Usage").where(committed),
            "CommitmentDiscountType": either(lowers_a_price, "Savings Plan", "Reservation").where(committed),
            "CommitmentDiscountStatus": either(kind == "unused", "Unused", "Used").where(committed & ~purchase & ~credit),
            "CommitmentDiscountQuantity": hours.where(counted, cost).where(committed),
            "CommitmentDiscountUnit": either(counted, HOURS, currency).where(committed),
        }
    )
