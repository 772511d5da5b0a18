"""How good past forecasts were, in the field's measures: by series, grain and lead."""

import numpy as np
import pandas as pd

from capplan.questions.demand.accuracy import FINOPS_BANDS, owa, smape

MEASURES = (
    "outcomes wape_share bias_share naive_wape_share value_added_share smape mase owa coverage_share pinball run_share walk_share"
    " crawl_share"
).split()


def summarise(totals: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""Summarise forecasts of totals beside the naive forecast, which repeats the last total.

    .. math:: \text{value added} = 1 - \text{MASE}/\text{MASE}_{\text{naive}},\quad
              \text{OWA} = \tfrac12 (\text{sMAPE} / \text{sMAPE}_{\text{naive}} + \text{MASE} / \text{MASE}_{\text{naive}})

    Args:
        totals: actual, median, naive, scale, pinball, covered, error_share, and the keys.

    Returns:
        pandas.DataFrame: Keys, outcomes, wape_share (sum of absolute errors over sum of actuals), bias_share (sum of errors over sum of
            actuals within each workload, then the mean over workloads), naive_wape_share, value_added_share, smape (percent, 0 to 200),
            mase, owa (below 1 = better than naive), coverage_share (of nominal 90 %), pinball, run_share, walk_share, crawl_share (outcomes
            within 12, 15 and 20 % of the forecast).

    Source: Makridakis, Spiliotis, Assimakopoulos, The M4 competition, IJF 2020 (sMAPE, MASE, OWA); Gilliland, The Business Forecasting
        Deal, 2010 (value added).
    """
    rows = [(*(key if isinstance(key, tuple) else (key,)), *_measures(part)) for key, part in totals.groupby(keys, sort=True)]
    return pd.DataFrame(rows, columns=[*keys, *MEASURES])


def _measures(part: pd.DataFrame) -> tuple[float, ...]:
    actual, median, naive = (part[name].to_numpy(dtype=float) for name in ("actual", "median", "naive"))
    error, rival = np.abs(median - actual), np.abs(naive - actual)
    size = float(actual.sum()) or float("nan")
    scale = part["scale"].where(part["scale"] > 0).to_numpy(dtype=float)
    known = np.isfinite(scale)
    mase, naive_mase = ((values[known] / scale[known]).mean() if known.any() else float("nan") for values in (error, rival))
    own_smape, naive_smape = smape(actual, median), smape(actual, naive)
    bias = (part["median"] - part["actual"]).groupby(part["workload"]).sum() / part.groupby("workload")["actual"].sum().replace(0.0, np.nan)
    comparable = naive_smape > 0 and naive_mase > 0
    within = part["error_share"].abs()
    return (
        len(part),
        float(error.sum()) / size,
        float(bias.mean()),
        float(rival.sum()) / size,
        1 - mase / naive_mase if naive_mase > 0 else float("nan"),
        own_smape,
        mase,
        owa(own_smape, mase, naive_smape, naive_mase) if comparable else float("nan"),
        float(part["covered"].mean()),
        float(part["pinball"].mean()),
        *(float((within <= limit).mean()) for limit in FINOPS_BANDS.values()),
    )
