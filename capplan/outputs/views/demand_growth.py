"""The growth of each workload: what was, what is expected, what that was tested on, and what other kinds of growth would mean."""

from typing import Any

import pandas as pd

from capplan.outputs import charts
from capplan.questions.demand import Forecast
from capplan.questions.demand.outlook import TOLD_QUARTERS

#: Panels of the picture; the table holds all workloads.
PANELS = 12
LOW, HIGH = 0.05, 0.95
#: A kind of growth that ends nearer to the median than this is not drawn.
SEEN_SHARE = 0.05


def growth_table(forecast: Forecast, speeds: pd.DataFrame | None) -> pd.DataFrame:
    """List the credible kinds of growth of each workload with what each would mean in the last quarter.

    Args:
        speeds: The speeds table, or None: with it, work is told in accelerators too.

    Returns:
        pandas.DataFrame: Columns of `outlook_table`, and quarter (the last), quantity (work in it if this kind held), cases_below_share
            (share of the sample paths that need less; above 0.95 the plan's band does not hold it) and accelerators_more (against the
            median, at the mean speed of the accelerators known for the workload).
    """
    table = forecast.outlook.copy()
    if table.empty:
        return table.assign(quarter="", quantity=0.0, cases_below_share=0.0, accelerators_more=0.0)
    last = forecast.paths["quarter"].max()
    totals = forecast.paths[forecast.paths["quarter"] == last].groupby(["workload", "region", "path"])["quantity"].sum().unstack("path")
    own = totals.loc[pd.MultiIndex.from_frame(table[["workload", "region"]])].to_numpy()
    middle = forecast.quantiles[(forecast.quantiles["quarter"] == last) & (forecast.quantiles["quantile"] == 0.5)]
    keys = list(zip(table["workload"], table["region"], strict=True))
    median = middle.set_index(["workload", "region"])["quantity"].loc[keys].to_numpy()
    table["quarter"], table["quantity"] = last, median * table["times_median"].to_numpy()
    table["cases_below_share"] = (own < table["quantity"].to_numpy()[:, None]).mean(axis=1)
    hours = float(forecast.blocks.loc[forecast.blocks["quarter"] == last, "hours"].sum())
    speed = speeds.groupby("workload")["work_per_accelerator_hour"].mean() if speeds is not None else pd.Series(dtype=float)
    table["accelerators_more"] = (table["quantity"] - median) / hours / table["workload"].map(speed).astype(float)
    return table


def tested_words(row: pd.Series) -> str:
    """Say how often bands held at the told quarters.

    Examples:
        >>> tested_words(pd.Series({f"{name}_quarter_{q}": 4 - q // 4 for name in ("tests", "inside") for q in (1, 4, 8)}))
        'inside the 90 % band: 4 of 4 at quarter 1, 3 of 3 at quarter 4, 2 of 2 at quarter 8'
    """
    known = [q for q in TOLD_QUARTERS if row[f"tests_quarter_{q}"]]
    if not known:
        return "not tested at quarters 1, 4 or 8"
    held = ", ".join(f"{row[f'inside_quarter_{q}']:.0f} of {row[f'tests_quarter_{q}']:.0f} at quarter {q}" for q in known)
    missing = [str(q) for q in TOLD_QUARTERS if q not in known]
    return f"inside the 90 % band: {held}" + (f"; not tested at quarter {' or '.join(missing)}" if missing else "")


def growth_picture(forecast: Forecast, picked: tuple[str, ...]) -> dict[str, Any]:
    """Draw past, median, band and the courses of other kinds of growth, a panel a series, the likeliest kind and its tests as its title."""
    table = forecast.outlook[forecast.outlook["workload"].isin(picked)]
    if table.empty:
        return {}
    first = table.drop_duplicates(["workload", "region"])
    shown = first.head(PANELS)
    names = {(row["workload"], row["region"]): _panel(row) for _, row in shown.iterrows()}

    def named(frame: pd.DataFrame) -> pd.DataFrame:
        series = [names.get(key) for key in zip(frame["workload"], frame["region"], strict=True)]
        return frame.assign(series=series).dropna(subset=["series"])

    wide = named(forecast.months).pivot_table(index=["series", "month"], columns="quantile", values="quantity", sort=False).reset_index()
    days = wide["month"].dt.days_in_month
    bands = pd.DataFrame({"series": wide["series"], "month": wide["month"]}).assign(
        low=wide[LOW] / days, median=wide[0.5] / days, high=wide[HIGH] / days
    )
    past = named(forecast.history)
    past = past.assign(month=past["time"].dt.to_period("M").dt.to_timestamp(), work=past["quantity_per_day"] * past["days"])
    past = (
        past.groupby(["series", "month"], as_index=False)[["work", "days"]].sum().assign(value=lambda frame: frame["work"] / frame["days"])
    )
    courses = named(forecast.courses).merge(bands[["series", "month", "median"]], on=["series", "month"])
    apart = (courses.groupby(["series", "kind"])["times_median"].transform("last") - 1).abs() >= SEEN_SHARE
    courses = courses[apart].assign(value=lambda frame: frame["median"] * frame["times_median"])
    left = f" The {len(first) - PANELS} others are in the table." if len(first) > PANELS else ""
    untested = int((first["tests_quarter_8"] == 0).sum())
    return {
        "growth": charts.growth(
            bands,
            past,
            courses,
            title=(
                "Bands of quarter 8 could be tested on the own past of all workloads"
                if not untested
                else f"Bands of quarter 8 could not be tested on the own past of {untested} of {len(first)} workloads"
            ),
            axis=charts.Axis("Work a day", "units"),
            subtitle=(
                "Median and 90 % band over the sample paths; dashed, where demand would go if only that kind of growth held, as far as the"
                f" forecast follows kinds of growth and where it ends {SEEN_SHARE:.0%} or more from the median.{left}"
            ),
        )
    }


def _panel(row: pd.Series) -> str:
    """Name a panel by its workload, the kind of growth found, and its tests."""
    place = "" if row["region"] == "any" else f", {row['region']}"
    weight = "" if row["believed_share"] >= 1 else f", which counts {row['believed_share']:.0%} in a history this short"
    return f"{row['workload']}{place}: growth {row['kind']} ({row['probability']:.0%} sure){weight}; {tested_words(row)}"
