"""How much reserved, spot and on demand: the mix of terms, its ladder, and what other rules would buy."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.portfolio import PortfolioAssumptions
from capplan.quantiles import weighted_quantiles
from capplan.questions.portfolio.ladder import best_layers, build_ladder
from capplan.questions.portfolio.periods import Periods, measured
from capplan.questions.portfolio.pools import POOL, Pool, PoolTables, build_pools
from capplan.questions.portfolio.portfolio_answer import Portfolio, Rehearsal
from capplan.questions.portfolio.recommend import compare_rules, measured_load, play_again
from capplan.text import money, whole_parts, words
from capplan.units import HOURS_PER_YEAR

#: Shares of the hours at which load-duration curves are read.
SHARES = np.linspace(0.0, 1.0, 41)
#: Levels at which the cost of a commitment is drawn.
LEVELS = 41


def mix_portfolio(
    demand: pd.DataFrame,
    supply: PoolTables,
    a: PortfolioAssumptions,
    *,
    usage: pd.DataFrame | None = None,
    workloads: pd.DataFrame | None = None,
    rehearsal: Rehearsal | None = None,
) -> Portfolio:
    r"""Say how much of the load to reserve, on which terms, and how much to leave to spot and on demand.

    A committed accelerator is worth what it displaces. Of load L with distribution F, at a committed price c and an on-demand price p, the
    best commitment is the newsvendor's :math:`F(K^*) = 1 - c/p`, which on a load-duration curve is the level in use c/p of the time, and
    with spot for the work that may be interrupted, capped on demand and a price for work left undone is found from the whole stack of
    sources (`Stack`). Each level of load goes to the term that saves most per hour over its own life, as if renewed at its price.

    Args:
        demand: What `class_demand` returns.
        usage, workloads: Measured work and its classes, for the rules that look back.
        rehearsal: A forecast made earlier, to see what each rule would have cost.

    Raises:
        CapplanError: If some work can be served by no offer and no contract, or a price or load is no number.

    Source: Newsvendor: Cachon and Terwiesch, Matching Supply with Demand, chapter 12. Screening curves: Stoft, Power System Economics
        (2002), part 1.
    """
    pools, shares, notes = build_pools(demand, supply, a)
    measured_hours = measured_load(usage, workloads, shares)
    earlier = {}
    if rehearsal is not None:
        known = build_pools(rehearsal.demand, supply, a, shares)[0]
        earlier = {(pool.accelerator, pool.geography): pool for pool in known}
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in Portfolio.__dataclass_fields__ if name not in ("headline", "notes")}

    def keep(name: str, pool: Pool, rows: list[dict[str, object]] | pd.DataFrame) -> None:
        frame = pd.DataFrame(rows)
        if len(frame):
            tables[name].append(frame.assign(accelerator=pool.accelerator, geography=pool.geography))

    for pool in pools:
        periods = Periods(pool, a)
        terms = [_alone(periods, row, a) for row in pool.contracts.itertuples()]
        layers = best_layers(periods, 0)
        keep("pools", pool, [_about(periods)])
        keep("terms", pool, terms)
        keep("mix", pool, layers)
        keep("sources", pool, _sources(periods, layers))
        keep("duration", pool, _duration(periods))
        keep("screening", pool, _screening(pool))
        for name, frame in build_ladder(periods).items():
            keep(name, pool, frame)
        if not terms:
            continue
        lead = max(terms, key=lambda row: (row["saving_usd_per_year"], row["term"]))
        keep("curve", pool, _curve(periods, lead))
        key = (pool.accelerator, pool.geography)
        hours = measured_hours[(measured_hours["accelerator"] == key[0]) & (measured_hours["geography"] == key[1])]
        usd, months = float(str(lead["usd_per_accelerator_hour"])), float(str(lead["term_months"]))
        chosen = float(best_layers(periods, 0, only=str(lead["term"]))["accelerators"].sum())
        if len(hours):
            keep("recommenders", pool, compare_rules(pool, hours, usd, months, chosen, a))
        if rehearsal is not None and key in earlier:
            keep("afterwards", pool, play_again(pool, earlier[key], hours, rehearsal, usd, a))
    answer = {name: _joined(parts) for name, parts in tables.items()}
    return Portfolio(**answer, headline=_headline(answer), notes=tuple(notes + _remarks(answer, a)))


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join the pools' tables, pool first."""
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in POOL})
    frame = pd.concat(parts, ignore_index=True)
    return frame[[*POOL, *[name for name in frame.columns if name not in POOL]]]


def _about(periods: Periods) -> dict[str, object]:
    """Describe a pool."""
    pool = periods.pool
    hours = pool.hours / pool.hours.sum()
    mean = float(pool.probability @ (pool.load * hours).sum(axis=(1, 2)))
    soft = float(pool.probability @ (pool.interruptible * hours).sum(axis=(1, 2)))
    peaks = np.sort(pool.load.max(axis=(1, 2)))
    return {
        "mean_accelerators": mean,
        "peak_accelerators": float(np.quantile(peaks, 0.95)),
        "interruptible_share": soft / mean if mean else 0.0,
        "held_accelerators": periods.held(0),
        "on_demand_usd_per_hour": pool.on_demand_usd,
        "spot_usd_per_hour": pool.spot_usd,
        "usd_per_year": mean * pool.on_demand_usd * HOURS_PER_YEAR,
    }


def _alone(periods: Periods, offer: object, a: PortfolioAssumptions) -> dict[str, object]:
    """Commit with one term only."""
    pool, usd, months = periods.pool, float(offer.usd_per_hour), float(offer.term_months)  # type: ignore[attr-defined]
    stack, path = periods.stack(0, months / 3)
    level = stack.best_level(usd)
    result = measured(stack, path, pool.probability, level, usd, a.tail_share)
    saved = stack.cost_usd_per_hour(0.0, usd) - stack.cost_usd_per_hour(level, usd)
    ratio = usd / pool.on_demand_usd
    return {
        "term": offer.term,  # type: ignore[attr-defined]
        "offer_id": offer.offer_id,  # type: ignore[attr-defined]
        "term_months": months,
        "usd_per_accelerator_hour": usd,
        "break_even_share": ratio,
        "quantile_share": 1 - ratio,
        "accelerators": level,
        "saving_usd_per_year": saved * HOURS_PER_YEAR,
    } | result


def _sources(periods: Periods, layers: pd.DataFrame) -> list[dict[str, object]]:
    """Say who serves the first year, with what is held and the best layers."""
    pool, a = periods.pool, periods.a
    flat = Periods(pool, a.model_copy(update={"discount_rate_per_year": 0.0}))
    bare = Periods(pool.without_holdings(), a.model_copy(update={"discount_rate_per_year": 0.0}))
    stack, _ = flat.stack(0, 4)
    total = bare.stack(0, 4)[0]
    hours = float(stack.weight.sum())
    new = float(layers["accelerators"].sum()) if len(layers) else 0.0
    usd = float((layers["accelerators"] * layers["usd_per_accelerator_hour"]).sum()) * hours if len(layers) else 0.0
    served = stack.served(new)
    rows: list[dict[str, object]] = [
        {"source": "held", "accelerator_hours": float(total.weight @ total.load - stack.weight @ stack.load), "usd": 0.0},
        {"source": "committed", "accelerator_hours": float(stack.weight @ stack.used(new)), "usd": usd},
    ]
    names = np.select([stack.prices == pool.spot_usd, stack.prices == pool.on_demand_usd], ["spot", "on_demand"], "shortfall")
    for name in ("spot", "on_demand", "shortfall"):
        amount = stack.weight @ served[:, names == name]
        rows.append({"source": name, "accelerator_hours": float(amount.sum()), "usd": float(amount @ stack.prices[names == name])})
    return rows


def _duration(periods: Periods) -> list[dict[str, object]]:
    """Read the load-duration curve of the first year off all paths."""
    stack, _ = Periods(periods.pool.without_holdings(), periods.a).stack(0, 4)
    levels = -weighted_quantiles(-stack.load, stack.weight, SHARES)
    return [{"hours_share": float(share), "accelerators": float(level)} for share, level in zip(SHARES, levels, strict=True)]


def _screening(pool: Pool) -> list[dict[str, object]]:
    """Cost one accelerator for a year on each term, by the share of the hours it is used."""
    rows: list[dict[str, object]] = []
    for row in pool.contracts.itertuples():
        rows += [
            {"term": row.term, "utilisation_share": x, "usd_per_accelerator_year": row.usd_per_hour * HOURS_PER_YEAR} for x in (0.0, 1.0)
        ]
    for term, usd in (("on_demand", pool.on_demand_usd), ("spot", pool.spot_usd)):
        if np.isfinite(usd):
            rows += [{"term": term, "utilisation_share": x, "usd_per_accelerator_year": usd * HOURS_PER_YEAR * x} for x in (0.0, 1.0)]
    return rows


def _curve(periods: Periods, lead: dict[str, object]) -> list[dict[str, object]]:
    """Cost each commitment on the leading term, a year of it on average."""
    usd, months = float(str(lead["usd_per_accelerator_hour"])), float(str(lead["term_months"]))
    stack, path = periods.stack(0, months / 3)
    most = max(float(stack.load.max()), float(str(lead["accelerators"])), 1.0)
    years = months / 12
    rows = []
    for level in np.unique([*np.linspace(0.0, most, LEVELS), float(str(lead["accelerators"]))]):
        found = measured(stack, path, periods.pool.probability, float(level), usd, periods.a.tail_share)
        found |= {"expected_usd": found["expected_usd"] / years, "cvar_usd": found["cvar_usd"] / years}
        rows.append({"term": lead["term"], "accelerators": float(level)} | found)
    return rows


def _headline(answer: dict[str, pd.DataFrame]) -> str:
    """Say in one sentence what to commit to, and what it saves."""
    mix, pools = answer["mix"], answer["pools"]
    if mix.empty or mix["accelerators"].sum() < 0.5:
        return "No further commitment pays: what is held, spot and on demand serve the load at less."
    by_pool = mix.groupby(POOL, sort=False)[["accelerators", "saving_usd_per_year"]].sum()
    best = by_pool["saving_usd_per_year"].idxmax()
    part = mix[(mix["accelerator"] == best[0]) & (mix["geography"] == best[1])]
    terms_of = " and ".join(
        f"{count:,} on {words(str(name)).lower()}" for name, count in whole_parts(part.groupby("term")["accelerators"].sum()).items()
    )
    return (
        f"Beyond what is held, commit to {mix['accelerators'].sum():,.0f} accelerators in {len(by_pool)} of {len(pools)} pools, most of all"
        f" {best[0]} in {best[1]} ({terms_of}): together {money(mix['saving_usd_per_year'].sum())} a year less than spot and on demand"
        " alone, with work left undone at its price."
    )


def _remarks(answer: dict[str, pd.DataFrame], a: PortfolioAssumptions) -> list[str]:
    """State what was assumed, and where a rule that looks back goes wrong."""
    notes = [
        (
            "Work is laid on accelerators already held first, then where a contract costs least per unit of work; whole lots, lead times,"
            " quotas and budgets are the purchase plan's business."
        ),
        "A contract is costed to its end; after the horizon demand is held at the last quarter's distribution.",
    ]
    late = answer["afterwards"]
    if len(late):
        sums = late.groupby("name")["usd"].sum()
        others = sums[[name for name in sums.index if name.startswith(("most_savings", "target"))]]
        if len(others):
            best = others.idxmin()
            more = float(others[best] - sums["this_portfolio"])
            notes.append(
                f"Played again on the last quarter of the history, the best rule that looks back ({best.replace('_', ' ')}) would have cost"
                f" {money(abs(more))} {'more' if more >= 0 else 'less'} than the forecast's commitment; on demand alone"
                f" {money(sums['nothing'] - sums['this_portfolio'])} more."
            )
    elif len(answer["recommenders"]) and a.rehearse:
        notes.append("The history is too short to play the rules again: it needs a quarter before the last one.")
    return notes
