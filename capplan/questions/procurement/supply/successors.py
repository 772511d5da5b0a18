"""The offers, machines and speeds of what is expected, made from those of what it succeeds."""

import pandas as pd

from capplan.questions.pricing import completed
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.supply.generations import USUAL_DELAY_DAYS, Arrival

#: A dated block is one machine's; and dollars of a savings plan are the same, whatever they are drawn on.
NOT_SUCCEEDED = ("capacity_block", "savings_plan_1y", "savings_plan_3y")


def with_generations(problem: Problem) -> tuple[Problem, tuple[Arrival, ...]]:
    """Offer each machine that is expected as the one it succeeds is, from the median of its day on, at its own price, speed and power.

    What is on offer already under its name keeps its own prices, and only what the one before is worth follows from it. Speeds that are
    stated stay.

    Returns:
        Problem: With more offers, skus and speeds; as it is where nothing is expected.
        tuple of Arrival: Each after what it succeeds.
    """
    if problem.generations is None or problem.generations.empty:
        return problem, ()
    table = completed(problem.generations, "generations")
    waiting = {str(name): part for name, part in table.groupby("accelerator", sort=True)}
    arrivals: list[Arrival] = []
    while waiting:
        name = next(name for name, part in waiting.items() if part["succeeds"].iloc[0] not in waiting)
        problem, arrival = _with_one(problem, name, waiting.pop(name))
        arrivals.append(arrival)
    return problem, tuple(arrivals)


def _with_one(problem: Problem, name: str, rows: pd.DataFrame) -> tuple[Problem, Arrival]:
    """Add one machine."""
    about, speedups = rows.iloc[0], dict(zip(rows["workload"], rows["speedup_ratio"].astype(float), strict=True))
    machines = problem.skus.set_index("sku")["accelerator"]
    offered = problem.offers["sku"].map(machines)
    added = not (offered == name).any()
    late = about["available_p90"]
    late = about["available_p50"] + pd.Timedelta(days=USUAL_DELAY_DAYS) if pd.isna(late) else late
    before = problem.speeds[problem.speeds["accelerator"] == about["succeeds"]]
    ratio = before["class"].map(speedups).fillna(speedups.get("any", 1.0)).astype(float)
    each = ratio if len(ratio) else pd.Series(list(speedups.values()))
    arrival = Arrival(
        name,
        str(about["succeeds"]),
        about["available_p50"],
        late,
        float(about["price_ratio"]),
        float(each.max()),
        float(each.mean()),
        float(about["probability"]),
        added,
    )
    if not added:
        return problem, arrival
    offers = problem.offers[(offered == about["succeeds"]).to_numpy() & ~problem.offers["term"].isin(NOT_SUCCEEDED).to_numpy()]
    skus = problem.skus[problem.skus["sku"].isin(offers["sku"])]
    as_name = f" as {name}"
    price = float(about["price_ratio"])
    fresh = offers.assign(offer_id=offers["offer_id"] + as_name, sku=offers["sku"] + as_name, usd_per_hour=offers["usd_per_hour"] * price)
    contracts = ~fresh["term"].isin(["on_demand", "spot"])
    opens = pd.to_datetime(fresh["available_from"]) if "available_from" in fresh else pd.Series(pd.NaT, index=fresh.index)
    fresh["available_from"] = opens.where(~contracts | (opens > arrival.p50), arrival.p50).where(contracts)
    for column in ("negotiated_usd_per_hour", "quote_expires", "available_to"):
        if column in fresh:
            fresh[column] = pd.NaT if column != "negotiated_usd_per_hour" else float("nan")
    if "capex_usd" in fresh:
        fresh["capex_usd"] = fresh["capex_usd"].astype(float) * price
    power = skus["power_kw"].astype(float) * float(about["power_ratio"]) if "power_kw" in skus else float("nan")
    machine = skus.assign(sku=skus["sku"] + as_name, accelerator=name, power_kw=power)
    stated = set(problem.speeds.loc[problem.speeds["accelerator"] == name, "class"])
    speeds = before.assign(accelerator=name, work_per_accelerator_hour=before["work_per_accelerator_hour"] * ratio)
    speeds = speeds[~speeds["class"].isin(stated)]
    joined = {"offers": (problem.offers, fresh), "skus": (problem.skus, machine), "speeds": (problem.speeds, speeds)}
    return problem.replaced(**{key: pd.concat([old, new], ignore_index=True) for key, (old, new) in joined.items()}), arrival
