"""What depends on one API provider: withdrawn, rate-limited, and what a second provider costs."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.questions.crossover.service_traffic_by_path import Load

Array = np.ndarray
DAYS_PER_QUARTER = 365.25 / 4


def vendor_risk(
    api_prices: pd.DataFrame, best: str | None, called_usd: float, own_usd: Array | None, load: Load, a: CrossoverAssumptions
) -> pd.DataFrame:
    """Cost what may happen to the API that is called, over the horizon.

    Args:
        api_prices: What `api_ways` returns.
        best: The way that is called; None where there is none.
        called_usd: What it is expected to cost over the horizon as it is, with what goes elsewhere above its rate limit.
        own_usd (S, Q): Cost of hosting at its best; None where nobody can.
        load: The traffic; where a request that nobody answers has no price, lost requests are counted, not priced.
        a: Days it takes to switch, share and evaluation of a second provider.

    Returns:
        DataFrame: case, expected_usd, more_usd, lost_requests, remark.
    """
    columns = ["case", "expected_usd", "more_usd", "lost_requests", "remark"]
    if best is None:
        return pd.DataFrame(columns=columns)
    table = api_prices.set_index("way")
    chosen = table.loc[best]
    limit = float(chosen["requests_per_hour_limit"])
    beyond = "" if (load.rate <= limit).all() else f" up to its limit of {limit:,.0f} requests an hour, and the rest elsewhere"
    rows = [("as it is", called_usd, 0.0, f"through {chosen['provider']}{beyond}")]
    rows += _elsewhere(table, chosen, called_usd, own_usd is not None, load, a)
    if own_usd is not None:
        lost = _lost(load, a)
        usd = float(load.probability @ own_usd.sum(axis=1)) + _priced(lost, load)
        remark = f"{a.switch_days:g} days without an answer, then own replicas.{_unpriced(load)}"
        rows.append(("withdrawn at once, hosted instead", usd, lost, remark))
    return pd.DataFrame([(case, usd, usd - called_usd, gone, remark) for case, usd, gone, remark in rows], columns=columns)


def _lost(load: Load, a: CrossoverAssumptions) -> float:
    """Return the requests that are lost while one switches."""
    return float(load.probability @ load.requests[:, 0]) * min(a.switch_days / DAYS_PER_QUARTER, 1.0)


def _priced(requests: float, load: Load) -> float:
    """Price lost requests, where they have a price (USD)."""
    each = load.work.unserved_usd_per_request
    return requests * each if np.isfinite(each) else 0.0


def _unpriced(load: Load) -> str:
    """Say that lost requests are not priced, where they are not."""
    if np.isfinite(load.work.unserved_usd_per_request):
        return ""
    return " Lost requests are not priced: state shortfall_usd_per_unit or value_usd_per_unit in workloads.csv."


def _elsewhere(
    table: pd.DataFrame, chosen: pd.Series, called_usd: float, hosted: bool, load: Load, a: CrossoverAssumptions
) -> list[tuple[str, float, float, str]]:
    """Cost what happens with a second provider, or without any: case, USD, requests lost, remark."""
    rate, hours, probability = load.rate, load.hours, load.probability
    growth = (1 + a.api_price_change_per_year) ** load.years
    mean = float(probability @ (load.requests * growth).sum(axis=1))
    price, limit = float(chosen["usd_per_request"]), float(chosen["requests_per_hour_limit"])
    if not np.isfinite(price):
        price = called_usd / mean if mean else 0.0
    others = table[(table["kind"] == "payg") & (table["provider"] != chosen["provider"]) & table["usd_per_request"].notna()]
    peak = float((probability @ rate.reshape(len(rate), -1)).max())
    able = others[others["requests_per_hour_limit"].astype(float) >= peak]
    second = (able if len(able) else others)["usd_per_request"]
    half = min(float(rate.mean(axis=0).max()) / 2, limit)
    over = float(probability @ ((np.maximum(rate - half, 0.0) * hours).sum(axis=2) * growth).sum(axis=1))
    limited, unpriced = "rate-limited to half of the mean peak", _unpriced(load)
    if len(second):
        short = "" if len(able) else f" Its rate limit is below the mean peak of {peak:,.0f} requests an hour: ask for more."
        other, who, share, lost = float(second.min()), str(table.loc[second.idxmin(), "provider"]), a.second_provider_share, _lost(load, a)
        evaluation = a.evaluation_usd_per_quarter * rate.shape[1]
        switched = f"{a.switch_days:g} days without an answer, then {who}.{short}{unpriced}"
        warm = (1 - share) * called_usd + share * mean * other + evaluation
        return [
            ("withdrawn at once, second provider found", (mean - lost) * other + _priced(lost, load), lost, switched),
            ("second provider kept warm", warm, 0.0, f"{share:.0%} of the traffic at {who}, and its evaluation"),
            ("withdrawn at once, second provider warm", mean * other + evaluation, 0.0, f"all traffic at {who} from the first day.{short}"),
            (limited, (mean - over) * price + over * other, 0.0, f"{over / mean if mean else 0.0:.0%} of the traffic at {who}"),
        ]
    unknown = f"no second provider is known: add one to api_contracts.csv.{unpriced}"
    rows = [(limited, (mean - over) * price + _priced(over, load), over, unknown)]
    if not hosted:
        everything = float(probability @ load.requests.sum(axis=1))
        alone = f"nobody else answers: add a second provider to api_contracts.csv.{unpriced}"
        rows.append(("withdrawn at once", _priced(everything, load), everything, alone))
    return rows
