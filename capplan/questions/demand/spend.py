"""What a unit of work costs, to test a forecast of work as a forecast of spend."""

import pandas as pd


def unit_prices(prices: pd.DataFrame, speeds: pd.DataFrame) -> dict[str, float]:
    """Say what a unit of each workload costs on the accelerator that does it cheapest on demand.

    The price only weighs workloads against each other; it is the same in forecast and outcome, so it adds no error of its own.

    Args:
        prices: accelerator, term, effective_usd_per_accelerator_hour.
        speeds: workload, accelerator, work_per_accelerator_hour.

    Returns:
        dict: USD a unit by workload; workloads without a speed on a priced accelerator are left out.

    Examples:
        >>> prices = pd.DataFrame({"accelerator": ["A", "B"], "term": "on_demand", "effective_usd_per_accelerator_hour": [2.0, 6.0]})
        >>> speeds = pd.DataFrame({"workload": "chat", "accelerator": ["A", "B"], "work_per_accelerator_hour": [100.0, 400.0]})
        >>> unit_prices(prices, speeds)
        {'chat': 0.015}
    """
    cheapest = prices[prices["term"] == "on_demand"].groupby("accelerator")["effective_usd_per_accelerator_hour"].min()
    usd = speeds["accelerator"].map(cheapest) / speeds["work_per_accelerator_hour"]
    known = usd.groupby(speeds["workload"]).min().dropna()
    return {str(workload): float(value) for workload, value in known.items()}
