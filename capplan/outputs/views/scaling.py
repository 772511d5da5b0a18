"""Views of training runs: what one more accelerator adds, and how much of a paid hour is progress."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.book import Book
from capplan.book.scenario import ScalingAssumptions as Assumptions
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.scaling import ScalingFit, fit_scaling
from capplan.text import number_text

LAWS = {"usl": "Universal Scalability Law", "amdahl": "Amdahl's law", "gustafson": "Gustafson's law", "power": "Power law"}


TIMES = {"seconds": "a second", "minutes": "a minute", "hours": "an hour", "days": "a day"}


@once
def show_scaling(book: Book, scenario: Scenario) -> View:
    """Show what one more accelerator really adds."""
    book = book.with_changes(scenario.changes)
    a = scenario.section(Assumptions)
    runs = book.need("scaling_runs", "The scaling view")
    fit = fit_scaling(runs, a)
    curve = a.scaling_curve or str(fit.limits["curve"].iloc[0])
    at = fit.at(a.scaling_accelerators, a.confidence_share)
    here = at[at["curve"] == curve].iloc[0]
    limits = fit.limits[fit.limits["curve"] == curve].iloc[0]
    pictures = {
        "throughput": _throughput(fit, curve, here, limits, _unit(runs, curve)),
        "gain": _gain(fit, curve, here, limits, a),
        "efficiency": _efficiency(fit),
        **_held_out(fit, curve),
    }
    chosen = fit.quality[fit.quality["chosen"]][["curve", "points", "held_out_error_share"]]
    table = fit.limits.merge(at.drop(columns=["law"]), on="curve").merge(chosen, on="curve")
    table["law"] = table["law"].map(LAWS)
    fields = ("scaling_curve", "marginal_share_floor", "scaling_law", "scaling_accelerators", "confidence_share")
    details = {"parameters": fit.parameters, "quality": fit.quality, "curve": fit.curve, "runs": fit.runs}
    measured = "beyond what was measured, " if here["beyond_measured"] else ""
    headline = (
        f"{fit.headline} On {a.scaling_accelerators:,} accelerators {measured}each does {here['efficiency_share']:.0%} of what it does in"
        f" the smallest run, and one more adds {max(float(here['marginal_share']), 0.0):.0%}."
    )
    value, curves = float(limits["worthwhile_accelerators"]), {"scaling_curve": tuple(sorted(fit.limits["curve"]))}
    return View(headline, pictures, table, value, "accelerators", fields, (*book.notes, *fit.notes), details, curves, telling=3)


def _unit(runs: pd.DataFrame, curve: str) -> str:
    """Name the unit of a curve's throughput; times were turned into rates."""
    unit = str(runs.loc[runs["curve"] == curve, "unit"].iloc[0])
    return f"runs in {TIMES[unit]}" if unit in TIMES else unit


def _drawn(fit: ScalingFit, curve: str, up_to: float) -> pd.DataFrame:
    """Points of a fitted curve up to a count."""
    part = fit.curve[fit.curve["curve"] == curve]
    return part[part["accelerators"] <= max(up_to, float(part["accelerators"].iloc[1]))]


def _reach(limits: pd.Series, here: pd.Series) -> float:
    """Count up to which a curve is drawn: twice what was measured, or as far as is asked for."""
    return max(2 * float(limits["largest_accelerators"]), 1.15 * float(here["accelerators"]))


def _throughput(fit: ScalingFit, curve: str, here: pd.Series, limits: pd.Series, unit: str) -> Any:
    """Draw throughput with its band, the measured runs and the line that perfect scaling would be."""
    line = _drawn(fit, curve, _reach(limits, here))
    banded = line["lower"].notna().all()
    runs = fit.runs[fit.runs["curve"] == curve]
    law = LAWS[str(limits["law"])]
    ends = {"low": "lower", "high": "upper"} if banded else {"low": "throughput", "high": "throughput"}
    shown = line[["accelerators", "throughput"]].assign(series=law, **{end: line[column] for end, column in ends.items()})
    points = pd.DataFrame({"x": runs["accelerators"], "y": runs["throughput"], "label": ""})
    points.loc[points.index[-1], "label"] = "Measured"
    each = float(here["throughput"]) / float(here["accelerators"])
    return charts.curve(
        shown,
        series="series",
        points=points,
        title=(
            f"{curve}: on {here['accelerators']:,.0f} accelerators each does {here['efficiency_share']:.0%} of what it does on"
            f" {limits['smallest_accelerators']:,.0f}"
        ),
        across=charts.Axis("Accelerators", "accelerators", "accelerators"),
        up=charts.Axis("Throughput", unit, "throughput"),
        subtitle=(
            f"{law} through {len(runs)} runs ({limits['scaling']} scaling){', with the band that a new run lies in' if banded else ''}; "
            f"{number_text(each)} {unit} for each accelerator at the count asked for"
        ),
    )


def _gain(fit: ScalingFit, curve: str, here: pd.Series, limits: pd.Series, a: Assumptions) -> Any:
    """Draw what each accelerator does, and what one more adds, against the threshold."""
    line = _drawn(fit, curve, _reach(limits, here))
    names = {"efficiency_share": "Each accelerator does", "marginal_share": "One more adds", "floor": "Threshold"}
    long = (
        line.assign(floor=a.marginal_share_floor)
        .melt("accelerators", list(names), "series", "share")
        .assign(series=lambda frame: frame["series"].map(names))
    )
    worth = float(limits["worthwhile_accelerators"])
    inside = np.isfinite(worth) and worth <= line["accelerators"].max()
    points = pd.DataFrame({"x": [worth], "y": [a.marginal_share_floor], "label": [f"{worth:,.0f} accelerators"]}) if inside else None
    title = (
        f"{curve}: beyond {worth:,.0f} accelerators one more adds less than {a.marginal_share_floor:.0%}"
        if np.isfinite(worth)
        else f"{curve}: one more accelerator always adds at least {a.marginal_share_floor:.0%}"
    )
    return charts.curve(
        long,
        series="series",
        points=points,
        title=title,
        across=charts.Axis("Accelerators", "accelerators", "accelerators"),
        up=charts.Axis("Share of one accelerator in the smallest run", "share", "share"),
        subtitle=f"Measured up to {limits['largest_accelerators']:,.0f} accelerators; what lies beyond is the law's",
    )


def _efficiency(fit: ScalingFit) -> Any:
    """Draw the efficiency of every curve over how many times the smallest run it is."""
    known = fit.limits.set_index("curve")
    smallest, largest = (fit.curve["curve"].map(known[name]) for name in ("smallest_accelerators", "largest_accelerators"))
    part = fit.curve[fit.curve["accelerators"] <= largest]
    part = part.assign(
        times=part["accelerators"] / smallest[part.index], name=part["curve"] + " (" + part["curve"].map(known["scaling"]) + ")"
    )
    ends = part.groupby("curve")["efficiency_share"].last()
    best, worst = ends.idxmax(), ends.idxmin()
    return charts.curve(
        part,
        series="name",
        title=(
            f"{best} keeps {ends[best]:.0%} of its efficiency in its largest run"
            + ("" if len(ends) == 1 else f", {worst} {ends[worst]:.0%}")
        ),
        across=charts.Axis("Accelerators, as a multiple of the smallest run", "times", "times"),
        up=charts.Axis("Efficiency", "share", "efficiency_share"),
        subtitle=(
            "Strong: the same batch on more accelerators; weak: a batch that grows with them; mixed: the batch differs between the runs"
        ),
    )


def _held_out(fit: ScalingFit, curve: str) -> dict[str, Any]:
    """Draw how far each law misses the largest run when it only knows the smaller ones."""
    part = fit.quality[(fit.quality["curve"] == curve) & fit.quality["held_out_error_share"].notna()]
    if part.empty:
        return {}
    part = part.assign(label=part["law"].map(LAWS), value=part["held_out_error_share"].abs()).sort_values("value", kind="stable")
    first = part.iloc[0]
    return {
        "held_out": charts.bars(
            part,
            title=f"{curve}: {first['label']} foretells the largest run best, to {first['value']:.1%}",
            axis=charts.Axis("Error at the largest run, without its sign", "share"),
            subtitle=f"Each law fitted without the run on {first['held_out_accelerators']:,.0f} accelerators, then asked for it",
        )
    }
