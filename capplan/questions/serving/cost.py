"""What serving costs, fully loaded: per million tokens, per thousand requests, per feature."""

import numpy as np
import pandas as pd

from capplan.errors import CapplanError

#: Kinds of other cost that follow the traffic rather than the fleet.
BY_REQUESTS = ("egress", "network")
#: Kinds of other cost that a cost centre without a served workload bears for all: serving takes its share of them.
OVERHEAD = ("network", "people", "software", "support")


def fleet_components(hours: pd.DataFrame, spare_replicas: int, usd_per_accelerator_hour: float) -> dict[str, float]:
    """Split the bill of a fleet into what works, what stands free for the target, and what stands by for a failure.

    Args:
        hours: Rows of `size_fleet`: replicas, accelerators, busy_share.
        spare_replicas: Replicas beyond the need in every hour with traffic.

    Returns:
        dict: busy, headroom, spare (USD); their sum is the fleet's bill.
    """
    total = float(hours["accelerators"].sum())
    busy = float((hours["accelerators"] * hours["busy_share"]).sum())
    width = np.divide(hours["accelerators"], hours["replicas"], out=np.zeros(len(hours)), where=hours["replicas"].to_numpy() > 0)
    spare = float((np.minimum(hours["replicas"], spare_replicas) * width).sum())
    spare = min(spare, total - busy)
    return {
        name: amount * usd_per_accelerator_hour for name, amount in (("busy", busy), ("headroom", total - busy - spare), ("spare", spare))
    }


def loaded_costs(
    served: pd.DataFrame, components: pd.DataFrame, other_costs: pd.DataFrame, months: float, overhead_share: float
) -> pd.DataFrame:
    r"""Say what each served workload costs in all, a thousand requests and a million tokens, fully loaded.

    Other costs of a cost centre are shared among its served workloads: egress and network by requests, all else by what they spend on
    compute.
    Of cost centres without a served workload (a platform team), serving bears its share of people, network, software and support.

    .. math:: u_w = \frac{C_w + \sum_k O_k s_{kw}}{R_w}

    Args:
        served: workload, feature, cost_center, requests, tokens (in and out) in the period; one row a workload.
        components: workload, component, usd: compute of the period (fleet or API).
        other_costs: Rows of the table other_costs of one month.
        months: Length of the period in months.
        overhead_share: Share of all accelerator work that is serving: its share of the overhead of other cost centres.

    Returns:
        DataFrame: workload, feature, component, usd, usd_per_thousand_requests, usd_per_million_tokens; components of a workload add up to
            its cost. Without requests or tokens the unit costs are empty.

    Raises:
        CapplanError: If a component belongs to no served workload, or the overhead share is no share.
    """
    if not 0 <= overhead_share <= 1:
        raise CapplanError(f"the overhead share is {overhead_share:g}; it is a share from 0 to 1, so 90 % is 0.9")
    unknown = sorted(set(components["workload"]) - set(served["workload"]))
    if unknown:
        raise CapplanError(f"costs of {', '.join(unknown)} belong to no served workload; known: {', '.join(sorted(served['workload']))}")
    spent = components.groupby("workload")["usd"].sum().reindex(served["workload"]).fillna(0.0).to_numpy()
    requests = served["requests"].to_numpy(dtype=float)
    rows = [components[["workload", "component", "usd"]]]
    for kind, part in other_costs.groupby("kind", sort=True):
        for center, amount in part.groupby("cost_center")["usd"].sum().items():
            own = (served["cost_center"] == center).to_numpy()
            borne = 1.0 if own.any() else overhead_share if kind in OVERHEAD else 0.0
            key = np.where(own if own.any() else True, requests if kind in BY_REQUESTS else spent, 0.0)
            if key.sum() > 0 and borne > 0:
                shared = key / key.sum() * float(amount) * months * borne
                rows.append(pd.DataFrame({"workload": served["workload"], "component": str(kind), "usd": shared}))
    table = pd.concat(rows, ignore_index=True).groupby(["workload", "component"], as_index=False, sort=False)["usd"].sum()
    table = table[table["usd"] != 0].merge(served[["workload", "feature", "requests", "tokens"]], on="workload", how="left")
    table["usd_per_thousand_requests"] = 1e3 * table["usd"] / table["requests"].where(table["requests"] > 0)
    table["usd_per_million_tokens"] = 1e6 * table["usd"] / table["tokens"].where(table["tokens"] > 0)
    columns = ["workload", "feature", "component", "usd", "usd_per_thousand_requests", "usd_per_million_tokens"]
    return table.sort_values(["workload", "usd"], ascending=[True, False], ignore_index=True)[columns]


def feature_costs(loaded: pd.DataFrame, served: pd.DataFrame) -> pd.DataFrame:
    """Add the loaded cost of workloads up to features.

    Args:
        loaded: From `loaded_costs`.
        served: workload, feature, requests, tokens.

    Returns:
        DataFrame: feature, requests, tokens, usd, usd_per_thousand_requests, usd_per_million_tokens; dearest first.
    """
    whole = served.groupby("feature", as_index=False)[["requests", "tokens"]].sum()
    whole = whole.merge(loaded.groupby("feature", as_index=False)["usd"].sum(), on="feature", how="left").fillna({"usd": 0.0})
    whole["usd_per_thousand_requests"] = 1e3 * whole["usd"] / whole["requests"].where(whole["requests"] > 0)
    whole["usd_per_million_tokens"] = 1e6 * whole["usd"] / whole["tokens"].where(whole["tokens"] > 0)
    return whole.sort_values("usd", ascending=False, ignore_index=True)
