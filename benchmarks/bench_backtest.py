"""The plan itself against the past: decided anew each quarter on real demand and real prices, beside what else could have been done.

    python benchmarks/bench_backtest.py [--cases 36] [--monthly 31] [--quarters 8] [--risk-weight 0]

Each case is a real series of work, scaled to accelerators: monthly series of the M3 competition, and ServeGen and Philly traces with time
stretched so that an hour or a day of them is a month. Three years are history; then, quarter by quarter, demand is forecast from what was
seen, the plan is made, and what it signs before the next review is signed at the prices Google Cloud had in that quarter (A100, H100 or
L4, on demand and committed for one and three years). Realised cost is what was paid for contracts and by the hour within the window, for
every policy alike; contracts count there by the part of them that lies in it. Compared are:

- clairvoyant: the least cost that knowing all demand and prices would have had (whole lots, solved by HiGHS);
- plan, flat prices: the plan that takes prices to stay; the plan itself takes them to move on as they had moved until then;
- all on demand;
- console rules: at each review as much as would have saved most over the last two months, for one or three years, and contracts for
  80 % of the mean of the last three months (`cover`), for one or three years.

Prints a line a case, the medians, the plan and the clairvoyant against the best rule of all cases and against the best of each, and the
cases in which a rule did better, with what demand did there.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pulp

from capplan.book.scenario import DemandAssumptions, ProcurementAssumptions
from capplan.questions.demand import forecast_demand
from capplan.questions.procurement import Problem, decide
from capplan.units import quarter_label, quarter_of, quarter_start

SHARED = Path(os.environ.get("CAPPLAN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
HISTORY, MEAN_ACCELERATORS, HOURS_PER_MONTH = 36, 40.0, 730.0
TERMS = {"reserved_1y": 4, "reserved_3y": 12}
#: Machine, its accelerator, how many are in it, and the first quarter of the window.
MACHINES = {"a2-highgpu-1g": ("A100", 1, "2023Q1"), "g2-standard-4": ("L4", 1, "2024Q1"), "a3-highgpu-8g": ("H100", 8, "2024Q3")}


@dataclass(frozen=True)
class Case:
    """One series on one machine: accelerators by month, history first; prices of a machine by quarter of the window."""

    name: str
    load: np.ndarray
    machine: str
    prices: pd.DataFrame
    quarters: list[str]
    history: pd.DataFrame  #: day and price of each kind of offer, on every day on which Google Cloud's list was read.

    @property
    def actual(self) -> np.ndarray:
        """Accelerators by quarter and month of the window, (Q, 3)."""
        return self.load[HISTORY : HISTORY + 3 * len(self.quarters)].reshape(-1, 3)


Signed = dict[tuple[str, int], float]


def series(quarters: int, monthly: int) -> Iterator[tuple[str, np.ndarray]]:
    """Return real series of at least three years and the window, in months; of the monthly ones about so many, evenly spread."""
    need = HISTORY + 3 * quarters
    for path in sorted((SHARED / "data" / "llm_demand").glob("servegen_*_requests_per_second_10min.csv")):
        values = pd.read_csv(path)["total_requests_per_second"].to_numpy(float)
        steps = len(values) // need
        yield path.name.split("_requests")[0], values[: steps * need].reshape(need, steps).mean(axis=1)
    nodes = pd.read_csv(SHARED / "data" / "gpu_jobs" / "philly_active_nodes_10min_mean.csv")["active"].to_numpy(float)
    steps = len(nodes) // need
    yield "philly active nodes", nodes[: steps * need].reshape(need, steps).mean(axis=1)
    table = pd.read_csv(SHARED / "data" / "forecasting" / "m3_monthly_half.csv.gz")
    long = [(name, part["value"].to_numpy(float)) for name, part in table.groupby("series_id", sort=True) if len(part) >= need]
    for name, values in long[:: max(len(long) // monthly, 1)]:
        yield f"m3 {name}", values[:need]


def cases(quarters: int, monthly: int) -> list[Case]:
    """Give each series a machine, in turn."""
    history = pd.read_csv(SHARED / "data" / "gpu_prices" / "gcp_accelerator_price_history_2022-2026.csv", parse_dates=["snapshot_date"])
    history = history[history["region"] == "us-central1"].sort_values("snapshot_date")
    found = []
    for number, (name, values) in enumerate(series(quarters, monthly)):
        machine = list(MACHINES)[number % len(MACHINES)]
        first = MACHINES[machine][2]
        labels = [quarter_label(4 * int(first[:4]) + int(first[5]) - 1 + step) for step in range(quarters)]
        own = history[history["machine_type"] == machine]
        listed = pd.DataFrame(
            {
                "day": own["snapshot_date"],
                "on_demand": own["on_demand_usd_per_hour"],
                "reserved_1y": own["cud_1y_usd_per_month"] / HOURS_PER_MONTH,
                "reserved_3y": own["cud_3y_usd_per_month"] / HOURS_PER_MONTH,
            }
        )
        rows = [listed[listed["day"] <= quarter_start(label)].tail(1) for label in labels]
        prices = pd.concat(rows, ignore_index=True).drop(columns="day")
        load = values / values[HISTORY - 12 : HISTORY].mean() * MEAN_ACCELERATORS
        found.append(Case(name, load, machine, prices, labels, listed))
    return found


def realised(case: Case, signed: Signed) -> float:
    """Return what contracts (machines by term and first quarter) and use by the hour cost within the window."""
    size = MACHINES[case.machine][1]
    total = 0.0
    for q, months in enumerate(case.actual):
        running = {key: machines for key, machines in signed.items() if key[1] <= q < key[1] + TERMS[key[0]]}
        held = sum(running.values()) * size
        rent = np.maximum(months - held, 0.0).sum() / size * case.prices["on_demand"][q]
        total += HOURS_PER_MONTH * (rent + 3 * sum(n * case.prices[term][start] for (term, start), n in running.items()))
    return float(total)


def clairvoyant(case: Case) -> Signed:
    """Return the contracts that cost least within the window if all of it is known."""
    size, count = MACHINES[case.machine][1], len(case.quarters)
    model = pulp.LpProblem("known", pulp.LpMinimize)
    lots = {(term, q): model.add_variable(f"{term} {q}", 0, None, "Integer") for term in TERMS for q in range(count)}
    cost = []
    for q, months in enumerate(case.actual):
        running = [key for key in lots if key[1] <= q < key[1] + TERMS[key[0]]]
        cost += [3 * float(case.prices[term][start]) * lots[term, start] for term, start in running]
        for month, load in enumerate(months.tolist()):
            rented = model.add_variable(f"rent {q} {month}", 0)
            model += rented + size * pulp.lpSum(lots[key] for key in running) >= load
            cost.append(float(case.prices["on_demand"][q]) / size * rented)
    model += pulp.lpSum(cost)
    model.solve(pulp.HiGHS(msg=False, threads=1))
    return {key: variable.value() for key, variable in lots.items() if variable.value() > 0.5}


def console(case: Case, term: str, level: Callable[[np.ndarray, float, float], float]) -> Signed:
    """Return what a rule signs that looks back at each review: whole machines up to its level, of one term."""
    size, signed = MACHINES[case.machine][1], {}
    for q in range(len(case.quarters)):
        held = sum(n for (_, start), n in signed.items() if start <= q < start + TERMS[term]) * size
        seen = case.load[: HISTORY + 3 * q]
        wanted = level(seen, float(case.prices[term][q]), float(case.prices["on_demand"][q]))
        more = np.floor(max(wanted - held, 0.0) / size + 1e-9)
        signed |= {(term, q): more} if more else {}
    return signed


def most_saved(seen: np.ndarray, contract: float, on_demand: float) -> float:
    """Return the level that would have saved most over the last two months."""
    levels = np.append(seen[-2:], 0.0)
    spent = [contract * level + on_demand * np.maximum(seen[-2:] - level, 0.0).mean() for level in levels]
    return float(levels[int(np.argmin(spent))])


def cover(seen: np.ndarray, _contract: float, _on_demand: float) -> float:
    """Return 80 % of the mean of the last three months."""
    return 0.8 * float(seen[-3:].mean())


def seen_moves(case: Case, day: pd.Timestamp) -> pd.DataFrame | None:
    """Return how prices moved a year until a day, as a table price_paths; None where they did not, or half a year of them is not known."""
    seen = case.history[case.history["day"] <= day]
    years = (seen["day"].iloc[-1] - seen["day"].iloc[0]) / pd.Timedelta(days=365.25)
    if years < 0.5:
        return None
    change = {name: (seen[name].iloc[-1] / seen[name].iloc[0]) ** (1 / years) - 1 for name in case.prices}
    rows = [{"path": name, "term": name, "change_share_per_year": share} for name, share in change.items() if share]
    return pd.DataFrame(rows) if rows else None


def rolling(case: Case, risk_weight: float, moves: Callable[[Case, pd.Timestamp], pd.DataFrame | None]) -> Signed:
    """Return what the plan signs, decided anew each quarter from what was seen by then, with prices that move on as `moves` says."""
    accelerator, size, _ = MACHINES[case.machine]
    signed: Signed = {}
    skus = pd.DataFrame(
        [{"sku": case.machine, "provider": "gcp", "accelerator": accelerator, "accelerator_count": size, "source_id": "gcp"}]
    )
    for q, quarter in enumerate(case.quarters):
        day, first = quarter_start(quarter), quarter_start(case.quarters[0])
        months = pd.date_range(first - pd.DateOffset(months=HISTORY), periods=HISTORY + 3 * q, freq="MS")
        hours = months.days_in_month * 24.0
        usage = pd.DataFrame({"time": months, "workload": "work", "region": "us", "quantity": case.load[: len(months)] * hours})
        a = DemandAssumptions(as_of=f"{day:%Y-%m-%d}", first_quarter=quarter, horizon_quarters=4, paths=40)
        forecast = forecast_demand(usage, None, None, a)
        demand = forecast.paths.merge(forecast.blocks, on=["quarter", "block"]).rename(columns={"workload": "class"})
        demand = demand.assign(work_per_hour=demand["quantity"] / demand["hours"]).drop(columns="quantity")
        base = {"sku": case.machine, "region": "us-central1", "geography": "us", "as_of": day, "source_id": "gcp", "lot_machines": 1}
        offers = [
            base
            | {"offer_id": term, "term": term, "usd_per_hour": float(case.prices[term][q])}
            | ({"discounts": "units", "guarantees_capacity": True} if term in TERMS else {"discounts": "none"})
            for term in case.prices
        ]
        running = [(key, n) for key, n in signed.items() if key[1] <= q < key[1] + TERMS[key[0]]]
        begins = [quarter_start(case.quarters[start]) for (_, start), _ in running]
        commitments = pd.DataFrame(
            [
                {
                    "commitment_id": f"{term} {start}",
                    "sku": case.machine,
                    "region": "us-central1",
                    "term": term,
                    "machines": n,
                    "usd_per_hour": float(case.prices[term][start]),
                    "start": begin,
                    "end": begin + pd.DateOffset(months=3 * TERMS[term]) - pd.Timedelta(days=1),
                }
                for ((term, start), n), begin in zip(running, begins, strict=True)
            ]
        )
        about = {"interruptible": False, "deferrable": False, "stage_kind": "serving", "shortfall_usd_per_unit": 25.0, "api": "self"}
        problem = Problem(
            demand=demand,
            speeds=pd.DataFrame([("work", accelerator, 1.0)], columns=["class", "accelerator", "work_per_accelerator_hour"]),
            classes=pd.DataFrame([{"class": "work", "unit": "accelerator_hours", "residency": None} | about]),
            assumptions=ProcurementAssumptions(
                as_of=f"{day:%Y-%m-%d}",
                first_quarter=quarter,
                horizon_quarters=4,
                approval_days=0,
                risk_weight=risk_weight,
                on_demand_accelerators=100_000.0,
            ),
            offers=pd.DataFrame(offers),
            skus=skus,
            commitments=commitments if len(commitments) else None,
            price_paths=moves(case, day),
        )
        bought = decide(problem, proof=False).purchases
        for row in bought[bought["firm"] & (bought["kind"] == "offer")].to_dict("records"):
            assert quarter_of(row["starts"]) == quarter
            signed[row["term"], q] = signed.get((row["term"], q), 0.0) + float(row["machines"])
    return signed


def main() -> None:
    """Run the cases and print what came of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=36)
    parser.add_argument("--monthly", type=int, default=31, help="monthly series beside the five traces")
    parser.add_argument("--quarters", type=int, default=8)
    parser.add_argument("--risk-weight", type=float, default=0.0)
    given = parser.parse_args()
    rows, began = [], time.process_time()
    for case in cases(given.quarters, given.monthly)[: given.cases]:
        best = realised(case, clairvoyant(case))
        moved = any(seen_moves(case, quarter_start(quarter)) is not None for quarter in case.quarters)
        flat = rolling(case, given.risk_weight, lambda *_: None)
        policies = {
            "plan": rolling(case, given.risk_weight, seen_moves) if moved else flat,
            "plan, flat prices": flat,
            "all on demand": {},
            **{f"console {term[-2:]}": console(case, term, most_saved) for term in TERMS},
            **{f"cover 80 % {term[-2:]}": console(case, term, cover) for term in TERMS},
        }
        costs = {name: realised(case, signed) / best for name, signed in policies.items()}
        level = case.actual.mean(axis=1) / MEAN_ACCELERATORS
        about = f"demand x{level[:4].mean():.2f} in year one, x{level[4:].mean():.2f} in year two"
        rows.append({"case": case.name, "machine": case.machine, **costs, "about": about})
        print("  ".join([f"{case.name:24}", *(f"{name} {cost:.3f}" for name, cost in costs.items()), about]), flush=True)
    table = pd.DataFrame(rows)
    names = [name for name in table if name not in ("case", "machine", "about")]
    print("\nrealised cost over the clairvoyant's, median, mean and worst:")
    print(table[names].agg(["median", "mean", "max"]).T.round(3).to_string())
    rules = [name for name in names if name.startswith(("console", "cover"))]
    median = table[rules].median()
    best_rule = str(median.idxmin())
    ratio = table["plan"] / table[best_rule]
    print(
        f"\n{len(table)} cases; plan {table['plan'].median():.3f} of the clairvoyant by median; best rule: {best_rule} ({median.min():.3f})"
    )
    print(f"plan against it: {100 * (1 - ratio.median()):.1f} % less by median, {100 * (1 - ratio.mean()):.1f} % by mean")
    # a rule that is chosen case by case knows what came: no rule, but a bound
    for words, theirs in (("it", table[best_rule]), ("the best rule of each case, chosen afterwards", table[rules].min(axis=1))):
        shares = [100 * (1 - (mine / theirs).median()) for mine in (table["plan"], 1.0)]
        print(f"against {words}, by median: plan {shares[0]:.1f} % less, clairvoyant {shares[1]:.1f} % less")
    lost = table[table["plan"] > table[rules].min(axis=1) * 1.005]
    print(f"\n{len(lost)} cases in which some rule cost at least 0.5 % less than the plan:")
    print(lost[["case", "machine", "plan", *rules, "about"]].round(3).to_string(index=False))
    print(f"\n{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()
