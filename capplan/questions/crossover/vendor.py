"""What depends on one API provider: withdrawn, rate-limited, and what a second provider costs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from capplan.inputs.assumptions_crossover import CrossoverAssumptions

Array = np.ndarray
DAYS_PER_QUARTER = 365.25 / 4


def vendor_risk(
    api_prices: pd.DataFrame, best: str | None, rate: Array, hours: Array, probability: Array, own_usd: Array | None, a: CrossoverAssumptions,
    unserved_usd_per_request: float,
) -> pd.DataFrame:  # fmt: skip
    """Cost what may happen to the API that is called, over the horizon.

    Parameters
    ----------
    api_prices
        What `api_ways` returns.
    best
        The way that is called; None where there is none.
    rate, hours, probability
        Requests an hour (S, Q, B), hours (Q, B), probability (S,).
    own_usd : (S, Q)
        Cost of hosting at its best; None where nobody can.
    a
        Days it takes to switch, share and evaluation of a second provider.
    unserved_usd_per_request
        What a request costs that nobody answers; where it is nan, lost requests are counted, not priced.

    Returns
    -------
    DataFrame
        case, expected_usd, more_usd, lost_requests, remark.
    """
    columns = ["case", "expected_usd", "more_usd", "lost_requests", "remark"]
    if best is None:
        return pd.DataFrame(columns=columns)
    table = api_prices.set_index("way")
    chosen = table.loc[best]
    price = float(chosen["usd_per_request"])
    requests = (rate * hours).sum(axis=2)
    growth = (1 + a.api_price_change_per_year) ** (np.arange(rate.shape[1]) / 4)
    if not np.isfinite(price):
        payg = table[(table["kind"] == "payg")]["usd_per_request"]
        price = float(payg.min()) if len(payg) else float("nan")
    mean = float(probability @ (requests * growth).sum(axis=1))
    base = mean * price
    second = table[(table["kind"] == "payg") & (table["provider"] != chosen["provider"])]["usd_per_request"].dropna()
    lost = float(probability @ requests[:, 0]) * min(a.switch_days / DAYS_PER_QUARTER, 1.0)
    lost_usd = lost * unserved_usd_per_request if np.isfinite(unserved_usd_per_request) else 0.0
    unpriced = (
        ""
        if np.isfinite(unserved_usd_per_request)
        else " Lost requests are not priced: state shortfall_usd_per_unit or value_usd_per_unit in workloads.csv."
    )
    rows = [("as it is", base, 0.0, f"everything through {chosen['provider']}, by the request")]
    evaluation = a.evaluation_usd_per_quarter * rate.shape[1]
    half = float(rate.mean(axis=0).max()) / 2
    over = float(probability @ ((np.maximum(rate - half, 0.0) * hours).sum(axis=2) * growth).sum(axis=1))
    if len(second):
        other = float(second.min())
        who = str(table.loc[second.idxmin(), "provider"])
        share = a.second_provider_share
        rows += [
            (
                "withdrawn at once, second provider found",
                mean * other + lost_usd,
                lost,
                f"{a.switch_days:g} days without an answer, then {who}.{unpriced}",
            ),
            (
                "second provider kept warm",
                mean * ((1 - share) * price + share * other) + evaluation,
                0.0,
                f"{share:.0%} of the traffic at {who}, and its evaluation",
            ),
            ("withdrawn at once, second provider warm", mean * other + evaluation, 0.0, f"all traffic at {who} from the first day"),
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
    return pd.DataFrame([(case, usd, usd - base, gone, remark) for case, usd, gone, remark in rows], columns=columns)
