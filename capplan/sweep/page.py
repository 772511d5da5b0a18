"""What a sweep shows: which assumption moves the cost most, where the decision changes, and which decision is never far from the best."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from capplan.outputs import charts
from capplan.outputs.page.html import PageSection, TableBlock, render_page
from capplan.sweep.points import Axis
from capplan.sweep.run import Sweep
from capplan.text import counted, listed

#: Ranges are drawn and crossed in so many steps.
STEPS = 5
COST = "upper_usd"


def sweep_page(name: str, sweep: Sweep, axes: Sequence[Axis], currency: str, shares: tuple[pd.DataFrame, str] | None = None) -> str:
    """Render a sweep as one page that opens from disk.

    Args:
        currency: Currency of the book, for units.
        shares: Shares of the variance and what they say, where the sample was made for them (`variance.shares_or_reason`).
    """
    answered = sweep.points[sweep.points["status"] != "failed"]
    moved = effects(answered, axes)
    sections = [
        PageSection(
            "What moves the cost",
            _effects_text(moved),
            [chart.svg for chart in effect_charts(answered, moved, axes, currency)],
            [TableBlock(moved)],
        ),
        *(_shares_section(*shares) if shares else ()),
        *_map_section(answered, moved, currency),
        PageSection(
            "Which decision stands",
            "Each decision is signed at every point, and later purchases and use by the hour adapt: the regret is what that costs above the"
            " best of the point.",
            tables=[TableBlock(regret_table(sweep))],
        ),
        PageSection("All points", tables=[TableBlock(sweep.points, file="points.parquet", folded=True, caption="Figures of every point")]),
    ]
    cards = [
        ("points", f"{len(sweep.points):,}"),
        ("decisions", f"{len(sweep.decisions):,}"),
        ("failed", f"{len(sweep.points) - len(answered):,}"),
    ]
    varied = listed([axis.field.replace("_", " ") for axis in axes])
    return render_page(
        f"{name}: a sweep over {varied}",
        f"{counted(len(sweep.points), 'point')}, costs as the plan minimises them",
        sweep.headline,
        cards,
        sections,
    )


def effects(points: pd.DataFrame, axes: Sequence[Axis]) -> pd.DataFrame:
    """Return, for each assumption, the mean cost at its lowest and at its highest values over all other assumptions, largest effect first.

    A numeric assumption of a sample is cut into fifths, so that each end stands for many points.

    Returns:
        DataFrame: assumption, low_setting, high_setting, low_usd, high_usd, moves_usd.
    """
    rows = []
    for axis in axes:
        groups = points.groupby(steps_of(points[axis.field]), sort=False, observed=True)[COST].mean()
        if len(groups) < 2:
            continue
        # numbers in their order; names by their cost
        ordered = groups.sort_index() if pd.api.types.is_numeric_dtype(points[axis.field]) else groups.sort_values()
        rows.append(
            (
                axis.field,
                _setting(ordered.index[0]),
                _setting(ordered.index[-1]),
                float(ordered.iloc[0]),
                float(ordered.iloc[-1]),
                float(groups.max() - groups.min()),
            )
        )
    frame = pd.DataFrame(rows, columns=["assumption", "low_setting", "high_setting", "low_usd", "high_usd", "moves_usd"])
    return frame.sort_values("moves_usd", ascending=False, kind="stable", ignore_index=True)


def steps_of(values: pd.Series) -> pd.Series:
    """Put the values of an assumption into a few ordered steps; the few values of a grid are steps themselves."""
    if values.nunique() <= 2 * STEPS or not pd.api.types.is_numeric_dtype(values):
        return values
    return pd.qcut(values, STEPS, duplicates="drop").map(lambda interval: round(interval.mid, 9)).astype(float)


def effect_charts(points: pd.DataFrame, moved: pd.DataFrame, axes: Sequence[Axis], currency: str) -> list[Any]:
    """Draw the tornado, and the response to each numeric assumption."""
    if moved.empty:
        return []
    base = float(points[COST].mean())
    first = moved.iloc[0]
    drawn = [
        charts.tornado(
            moved.assign(label=moved["assumption"].str.replace("_", " ").str.capitalize(), low=moved["low_usd"], high=moved["high_usd"]),
            base=base,
            base_name="Mean of all points",
            title=f"{str(first['assumption']).replace('_', ' ').capitalize()} moves the cost most",
            axis=charts.Axis("Cost of the plan", currency),
            subtitle="Mean over all values of the other assumptions",
        )
    ]
    for axis in axes:
        if not pd.api.types.is_numeric_dtype(points[axis.field]) or points[axis.field].nunique() < 3:
            continue
        found = points.groupby(steps_of(points[axis.field]))[COST].agg(mean="mean", low="min", high="max").reset_index(names="x")
        title = axis.field.replace("_", " ").capitalize()
        drawn.append(
            charts.curve(
                found,
                title=f"{title}: how the cost follows",
                across=charts.Axis(title, "", "x"),
                up=charts.Axis("Cost of the plan", currency, "mean"),
                subtitle="Line: mean over the other assumptions; band: least and most",
            )
        )
    return drawn


def regret_table(sweep: Sweep) -> pd.DataFrame:
    """Return what keeping each decision costs across all points, the safest first.

    Returns:
        DataFrame: decision, points (at which it is best), signs, mean_regret_share, worst_regret_share, impossible_points.
    """
    if sweep.regrets.empty:
        return sweep.decisions.assign(mean_regret_share=0.0, worst_regret_share=0.0, impossible_points=0)
    possible = sweep.regrets[sweep.regrets["regret_share"] < math.inf].groupby("decision")["regret_share"]
    table = sweep.decisions[sweep.decisions["decision"].isin(sweep.regrets["decision"])].set_index("decision")
    table["mean_regret_share"], table["worst_regret_share"] = possible.mean(), possible.max()
    table["impossible_points"] = (sweep.regrets.set_index("decision")["regret_share"] == math.inf).groupby(level=0).sum()
    return table.reset_index().sort_values(["impossible_points", "worst_regret_share"], kind="stable", ignore_index=True)


def _setting(value: object) -> str:
    """Write a value of an assumption as short as it can be told from its neighbours."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shares_section(shares: pd.DataFrame, said: str) -> list[PageSection]:
    """Draw what each assumption causes by itself, and what only together with others."""
    title, drawn = "What the variance of the cost comes from", []
    if len(shares):
        parts = {
            "alone": shares["alone_share"].clip(lower=0),
            "with others": (shares["total_share"] - shares["alone_share"].clip(lower=0)).clip(lower=0),
        }
        rows = [shares[["assumption"]].assign(value=value, part=part) for part, value in parts.items()]
        bars = pd.concat(rows).rename(columns={"assumption": "label"})
        bars["label"] = bars["label"].str.replace("_", " ").str.capitalize()
        drawn = [charts.bars(bars, title=said.split(", ", maxsplit=1)[0], axis=charts.Axis("Share of the variance", "share"), part="part")]
    return [PageSection(title, said, [chart.svg for chart in drawn], [TableBlock(shares)])]


def _effects_text(moved: pd.DataFrame) -> str:
    """Say in one sentence what moves the cost most."""
    if moved.empty:
        return "Only one value of each assumption was tried."
    first = moved.iloc[0]
    return (
        f"{str(first['assumption']).replace('_', ' ').capitalize()} moves the cost most, from {first['low_setting']} to"
        f" {first['high_setting']}."
    )


def _map_section(points: pd.DataFrame, moved: pd.DataFrame, currency: str) -> list[PageSection]:
    """Cross the two assumptions that move the cost most: the cost of each pair, coloured by the decision that is best there most often."""
    if len(moved) < 2:
        return []
    x, y = moved["assumption"].iloc[0], moved["assumption"].iloc[1]
    stepped = points.assign(x=steps_of(points[x]), y=steps_of(points[y])).groupby(["x", "y"], observed=True)
    table = stepped.agg(cost=(COST, "mean"), name=("decision", lambda names: names.value_counts().index[0])).reset_index()
    for name in "xy":
        # a sample leaves some pairs out, and the first row may lack any
        order = dict.fromkeys(map(_setting, table[name].sort_values()))
        table[name] = pd.Categorical(table[name].map(_setting), categories=list(order))
    chart = charts.heat_map(
        table,
        across=charts.Axis(x.replace("_", " ").capitalize(), "", "x"),
        down=charts.Axis(y.replace("_", " ").capitalize(), "", "y"),
        title="Where another decision is best",
        axis=charts.Axis("Cost of the plan", currency, "cost"),
        subtitle="Colour: the decision that is best there most often; number: mean cost",
    )
    return [PageSection("Where the decision changes", charts=[chart.svg])]
