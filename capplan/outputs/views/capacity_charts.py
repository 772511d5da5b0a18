"""Pictures of capacity: what contracts hold against what is needed, in accelerators of one kind, and all contracts over time."""

from typing import Any

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.book.book import Book
from capplan.outputs import charts
from capplan.outputs.views.plan_tables import at_moments
from capplan.questions.contracts import there
from capplan.questions.demand import class_speeds
from capplan.questions.procurement.work.accelerators_needed import accelerators_needed
from capplan.records import records
from capplan.text import counted, listed
from capplan.units import quarter_of

#: Contracts that one picture holds; the rest stands in the table beside it.
MOST_CONTRACTS = 60


def alike(dispatch: pd.DataFrame, speeds: pd.DataFrame) -> tuple[str, pd.Series]:
    r"""Return the kind of accelerator that does most of the work, and how much of its work an hour of each kind does.

    .. math:: w_k = \frac{\sum_c h_{ck}\, v_{ck} / v_{cr}}{\sum_c h_{ck}}

    with h the hours that the plan runs class c on kind k, v the speeds, and r the kind that most hours run on. A kind that runs nothing
    counts by the plain mean of its classes, and one that shares no class with r as one.

    Args:
        dispatch: class, accelerator, expected_accelerator_hours.
        speeds: class, accelerator, work_per_accelerator_hour.

    Examples:
        >>> ran = pd.DataFrame({"class": ["a", "a", "b"], "accelerator": ["H", "B", "B"], "expected_accelerator_hours": [9.0, 1.0, 3.0]})
        >>> fast = [("a", "H", 10.0), ("a", "B", 30.0), ("b", "H", 1.0), ("b", "B", 2.0)]
        >>> kind, weights = alike(ran, pd.DataFrame(fast, columns=["class", "accelerator", "work_per_accelerator_hour"]))
        >>> kind, weights.to_dict()
        ('H', {'B': 2.25, 'H': 1.0})
    """
    known = speeds.pivot_table(index="class", columns="accelerator", values="work_per_accelerator_hour")
    hours = dispatch[dispatch["accelerator"].isin(known.columns)].pivot_table(
        index="class", columns="accelerator", values="expected_accelerator_hours", aggfunc="sum"
    )
    hours = hours.reindex(index=known.index, columns=known.columns).fillna(0.0)
    reference = str(hours.sum().idxmax())
    ratio = known.div(known[reference], axis=0)
    ran = hours.where(ratio.notna(), 0.0)
    weights = (ratio.fillna(0.0) * ran).sum() / ran.sum().where(ran.sum() > 0)
    return reference, weights.fillna(ratio.mean()).fillna(1.0)


def capacity_chart(book: Book, found: Any, work: pd.DataFrame) -> Any:
    """Draw what contracts hold against the band of what the work needs; unlike accelerators are added as the work that they do.

    Args:
        found: A plan's answer: capacity, purchases, dispatch.
        work: Work by class on the plan's paths.
    """
    capacity, dispatch = found.capacity, found.dispatch
    kinds = sorted(set(capacity["accelerator"]))
    hosted = book.get("workloads").query("host != 'api'")
    kind, weights = alike(dispatch, class_speeds(book.need("speeds", "The picture of capacity"), hosted))
    if len(kinds) == 1:
        kind, weights = kinds[0], weights * 0.0 + weights.get(kinds[0], 1.0)
    size = weights / weights.get(kind, 1.0)
    same = dispatch.assign(
        expected_accelerator_hours=dispatch["expected_accelerator_hours"] * dispatch["accelerator"].map(size).fillna(1.0)
    )
    peak = accelerators_needed(work, same).query("hour == 'peak'").pivot_table(index="quarter", columns="quantile", values="accelerators")
    band = pd.DataFrame({"quarter": peak.index, "low": peak[0.1].to_numpy(), "median": peak[0.5].to_numpy(), "high": peak[0.9].to_numpy()})
    held = capacity.assign(
        accelerators=capacity["accelerators"] * capacity["accelerator"].map(size).fillna(1.0),
        term=capacity["term"].where(capacity["source"] == "bought", "existing"),
    )
    data = at_moments(held, ["term"])
    mean = (data["accelerators"] * (data["end"] - data["begin"])).groupby(data["quarter"]).sum()
    total = mean.reindex(band["quarter"], fill_value=0.0)
    share = total.to_numpy() / band["median"].clip(lower=1e-9)
    first, last = band["quarter"].iloc[0], band["quarter"].iloc[-1]
    changes = arrivals_and_ends(book, found.purchases, list(band["quarter"]), size)
    counts = [f"one {name} as {size.get(name, 1.0):.3g}" for name in kinds if name != kind]
    unlike = f" Counted by the work they do: {listed(counts)} {kind}." if counts else ""
    return charts.layers(
        data,
        title=f"Contracts hold {share.iloc[0]:.0%} of the median peak need in {first}, {share.iloc[-1]:.0%} in {last}",
        axis=charts.Axis(f"{kind} of the same work (accelerators)" if counts else f"{kind} (accelerators)", "accelerators"),
        band=band,
        changes=changes if len(changes) else None,
        subtitle=(
            f"Band: accelerators needed in the peak hours, 10th to 90th percentile; the rest is rented on demand or as spot.{unlike}"
            " Triangles: contracts and machines that arrive and end, savings plans left out"
        ),
    )


def arrivals_and_ends(book: Book, purchases: pd.DataFrame, quarters: list[str], size: pd.Series) -> pd.DataFrame:
    """Return what capacity arrives and what ends in each quarter, each contract and machine whole and once: quarter, change.

    What only lowers a price is no capacity.
    """
    signed = book.get("commitments")
    holdings = held_by(book, signed[signed["guarantees_capacity"].fillna(True).astype(bool)])
    rows = [(row.end, -row.accelerators * float(size.get(row.accelerator, 1.0))) for row in holdings.itertuples()]
    held = purchases[purchases["gives"] != "price"] if len(purchases) else purchases
    for row in records(held):
        amount = row["accelerators"] * float(size.get(row["accelerator"], 1.0))
        rows += [(row["starts"], amount), (row["ends"] + pd.Timedelta(days=1), -amount)]
    table = pd.DataFrame([(quarter_of(day), change) for day, change in rows], columns=["quarter", "change"])
    table = table[table["quarter"].isin(quarters) & (table["change"].abs() >= 0.5)]
    table = table.assign(up=table["change"] > 0).groupby(["quarter", "up"], as_index=False)["change"].sum()
    return table[["quarter", "change"]].round()


def held_by(book: Book, signed: pd.DataFrame) -> pd.DataFrame:
    """Return these contracts and the machines one owns (see `contracts.there`)."""
    return there(signed, book.get("assets"), book.get("skus").set_index("sku"), book.scenario.useful_life_years)


def contract_chart(book: Book, plan: Plan) -> dict[str, Any]:
    """Draw signed contracts, machines and purchases over time, each to its end."""
    held, bought = held_by(book, book.get("commitments")), plan.purchases.purchases
    parts = [
        pd.DataFrame({"contract": held["name"], "start": held["start"], "end": held["end"] - pd.Timedelta(days=1), "term": "existing"}),
        pd.DataFrame(
            {
                "contract": [f"{row.accelerators:g} {row.accelerator}, {row.provider}, {row.quarter}" for row in bought.itertuples()],
                "start": bought["starts"],
                "end": bought["ends"],
                "term": bought["term"],
                "sign_by": bought["sign_by"],
            }
        ),
    ]
    lines = pd.concat([part for part in parts if len(part)], ignore_index=True) if any(map(len, parts)) else pd.DataFrame()
    lines = lines[lines["end"] >= pd.Timestamp(plan.scenario.as_of)].sort_values(["start", "contract"]) if len(lines) else lines
    if lines.empty:
        return {}
    shown = lines.head(MOST_CONTRACTS)
    signing = shown["sign_by"].notna() if "sign_by" in shown else pd.Series(False, index=shown.index)
    markers = (
        shown.loc[signing, ["contract", "sign_by"]].rename(columns={"sign_by": "date"}).assign(kind="Sign by") if signing.any() else None
    )
    rest = f"; {counted(len(lines) - len(shown), 'later contract')} in the table" if len(lines) > len(shown) else ""
    firm, already = int(bought["firm"].sum()) if len(bought) else 0, int((lines["term"] == "existing").sum())
    return {
        "contracts": charts.gantt(
            shown,
            title=f"{counted(firm, 'contract')} to sign now, {counted(len(bought) - firm, 'contract')} later, {already} there already",
            today=plan.scenario.as_of,
            markers=markers,
            subtitle=f"Bars end where contracts and machines end{rest}",
        )
    }
