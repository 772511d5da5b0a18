"""What depends on one API provider: withdrawn, rate-limited, and what a second provider costs."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions

Array = np.ndarray
DAYS_PER_QUARTER = 365.25 / 4


def vendor_risk(
    api_prices: pd.DataFrame,
    best: str | None,
    called_usd: float,
    rate: Array,
    hours: Array,
    probability: Array,
    own_usd: Array | None,
    a: CrossoverAssumptions,
    unserved_usd_per_request: float,
) -> pd.DataFrame:
    """Cost what may happen to the API that is called, over the horizon.

    Args:
        api_prices: What `api_ways` returns.
        best: The way that is called; None where there is none.
        called_usd: What it is expected to cost over the horizon as it is, with what goes elsewhere above its rate limit.
        rate, hours, probability: Requests an hour (S, Q, B), hours (Q, B), probability (S,).
        own_usd (S, Q): Cost of hosting at its best; None where nobody can.
        a: Days it takes to switch, share and evaluation of a second provider.
        unserved_usd_per_request: What a request costs that nobody answers; where it is nan, lost requests are counted, not priced.

    Returns:
        DataFrame: case, expected_usd, more_usd, lost_requests, remark.
    """
    columns = ["case", "expected_usd", "more_usd", "lost_requests", "remark"]
    if best is None:
        return pd.DataFrame(columns=columns)
    table = api_prices.set_index("way")
    chosen = table.loc[best]
    requests = (rate * hours).sum(axis=2)
    growth = (1 + a.api_price_change_per_year) ** (np.arange(rate.shape[1]) / 4)
    mean = float(probability @ (requests * growth).sum(axis=1))
    price, limit = float(chosen["usd_per_request"]), float(chosen["requests_per_hour_limit"])
    if not np.isfinite(price):
        price = called_usd / mean if mean else 0.0
    others = table[(table["kind"] == "payg") & (table["provider"] != chosen["provider"]) & table["usd_per_request"].notna()]
    peak = float((probability @ rate.reshape(len(rate), -1)).max())
    able = others[others["requests_per_hour_limit"].astype(float) >= peak]
    second = (able if len(able) else others)["usd_per_request"]
    short = "" if len(able) else f" Its rate limit is below the mean peak of {peak:,.0f} requests an hour: ask for more."
    lost = float(probability @ requests[:, 0]) * min(a.switch_days / DAYS_PER_QUARTER, 1.0)
    lost_usd = lost * unserved_usd_per_request if np.isfinite(unserved_usd_per_request) else 0.0
    unpriced = (
        ""
        if np.isfinite(unserved_usd_per_request)
        else " Lost requests are not priced: state shortfall_usd_per_unit or value_usd_per_unit in workloads.csv."
    )
    beyond = "" if (rate <= limit).all() else f" up to its limit of {limit:,.0f} requests an hour, and the rest elsewhere"
    rows = [("as it is", called_usd, 0.0, f"through {chosen['provider']}{beyond}")]
    evaluation = a.evaluation_usd_per_quarter * rate.shape[1]
    half = min(float(rate.mean(axis=0).max()) / 2, limit)
    over = float(probability @ ((np.maximum(rate - half, 0.0) * hours).sum(axis=2) * growth).sum(axis=1))
    if len(second):
        other = float(second.min())
        who = str(table.loc[second.idxmin(), "provider"])
        share = a.second_provider_share
        rows += [
            (
                "withdrawn at once, second provider found",
                (mean - lost) * other + lost_usd,
                lost,
                f"{a.switch_days:g} days without an answer, then {who}.{short}{unpriced}",
            ),
            (
                "second provider kept warm",
                (1 - share) * called_usd + share * mean * other + evaluation,
                0.0,
                f"{share:.0%} of the traffic at {who}, and its evaluation",
            ),
            ("withdrawn at once, second provider warm", mean * other + evaluation, 0.0, f"all traffic at {who} from the first day.{short}"),
            (
                "rate-limited to half of the mean peak",
                (mean - over) * price + over * other,
                0.0,
                f"{over / mean if mean else 0.0:.0%} of the traffic at {who}",
            ),
        ]
    else:
        lost_over = over * (unserved_usd_per_request if np.isfinite(unserved_usd_per_request) else 0.0)
        rows.append(
            (
                "rate-limited to half of the mean peak",
                (mean - over) * price + lost_over,
                over,
                f"no second provider is known: add one to api_contracts.csv.{unpriced}",
            )
        )
        if own_usd is None:
            everything = float(probability @ requests.sum(axis=1))
            gone = everything * (unserved_usd_per_request if np.isfinite(unserved_usd_per_request) else 0.0)
            rows.append(
                ("withdrawn at once", gone, everything, f"nobody else answers: add a second provider to api_contracts.csv.{unpriced}")
            )
    if own_usd is not None:
        rows.append(
            (
                "withdrawn at once, hosted instead",
                float(probability @ own_usd.sum(axis=1)) + lost_usd,
                lost,
                f"{a.switch_days:g} days without an answer, then own replicas.{unpriced}",
            )
        )
    return pd.DataFrame([(case, usd, usd - called_usd, gone, remark) for case, usd, gone, remark in rows], columns=columns)
