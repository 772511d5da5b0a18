"""Fit of measured scaling runs: laws side by side, with bands, held-out error, peak, knee and the last worthwhile accelerator."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.scaling import ScalingAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.scaling.laws import FORMS, Law, fit_law
from capplan.questions.scaling.measured_runs import MINIMUM_COUNTS, measured_points
from capplan.questions.scaling.new_run import NewRun, predictor

#: How far beyond the largest run the curve is drawn, and in how many steps.
REACH, STEPS = 4.0, 60
LARGEST_COUNT = 1e7


@dataclass(frozen=True)
class ScalingFit:
    """What accelerators add.

    Args:
        parameters: curve, law, parameter, value, standard_error.
        quality: curve, law, chosen, points, residual_standard_error, held_out_accelerators, held_out_error_share (the largest count
            predicted from the others; empty with fewer than four counts).
        curve: curve, law, accelerators, throughput, lower, upper (where a new run will lie), efficiency_share (of the smallest run's
            measured throughput per accelerator), all of `NewRun`; marginal_share (what one more adds by the chosen law, of the law's
            smallest run); up to four times the largest run.
        limits: curve, law, scaling, smallest_accelerators, largest_accelerators, peak_accelerators, peak_throughput, knee_accelerators,
            worthwhile_accelerators, limit_throughput; empty where the law has none.
        runs: curve, accelerators, throughput, fitted, efficiency_share (measured, of the law's throughput of one).
        laws: The chosen law by curve, fitted as it is published (least squares on throughput): its parameters, peak and knee.
        new_runs: By curve, what a new run will give: fitted by relative residuals, from the measured base, with a band for the run.
        headline, notes:
    """

    parameters: pd.DataFrame
    quality: pd.DataFrame
    curve: pd.DataFrame
    limits: pd.DataFrame
    runs: pd.DataFrame
    laws: tuple[tuple[str, Law], ...]
    new_runs: tuple[tuple[str, NewRun], ...]
    headline: str
    notes: tuple[str, ...]

    def law(self, curve: str | None = None) -> Law:
        """Return the chosen law of a curve; of the only one where there is one."""
        known = dict(self.laws)
        if curve is None and len(known) == 1:
            return next(iter(known.values()))
        if curve not in known:
            raise CapplanError(f"curve {curve!r} was not fitted; {nearest(str(curve), known)}")
        return known[curve]

    def at(self, accelerators: float, confidence_share: float = 0.95) -> pd.DataFrame:
        """Say what each curve gives on one number of accelerators.

        Args:
            confidence_share: Probability that the band covers.

        Returns:
            DataFrame: curve, law, accelerators, throughput, lower, upper (of a new run), efficiency_share (of the smallest run's measured
                throughput per accelerator), marginal_share (what one more adds by the law, of its smallest run), beyond_measured.

        Raises:
            CapplanError: For fewer than one accelerator.
        """
        if not accelerators >= 1:
            raise CapplanError(f"accelerators = {accelerators!r}: a run has at least 1")
        rows = []
        known = self.limits.set_index("curve")
        for (name, law), (_, new) in zip(self.laws, self.new_runs, strict=True):
            count = np.array([float(accelerators)])
            lower, upper = new.band(count, confidence_share)
            smallest = float(known.loc[name, "smallest_accelerators"])
            rows.append(
                {
                    "curve": name,
                    "law": law.name,
                    "accelerators": float(accelerators),
                    "throughput": float(new.throughput(count)[0]),
                    "lower": float(lower[0]),
                    "upper": float(upper[0]),
                    "efficiency_share": float(new.efficiency(count)[0]),
                    "marginal_share": float(law.marginal(count)[0]) / (float(law.throughput(smallest)[0]) / smallest),
                    "beyond_measured": bool(accelerators > known.loc[name, "largest_accelerators"]),
                }
            )
        return pd.DataFrame(rows)

    def predict(self, accelerators: np.ndarray | float, curve: str | None = None) -> np.ndarray:
        """Throughput on numbers of accelerators, by the chosen law of a curve."""
        return self.law(curve).throughput(accelerators)

    def efficiency(self, accelerators: np.ndarray | float, curve: str | None = None) -> np.ndarray:
        """Throughput per accelerator of a new run, as a share of that measured in the smallest one; at most 1, and 1 below it."""
        known = dict(self.new_runs)
        name = curve if curve is not None else self.new_runs[0][0]
        if name not in known:
            raise CapplanError(f"curve {name!r} was not fitted; {nearest(str(name), known)}")
        return known[name].efficiency(accelerators)


def fit_scaling(runs: pd.DataFrame, a: ScalingAssumptions) -> ScalingFit:
    r"""Say what one more accelerator adds.

    .. math:: X(N) = \frac{\gamma N}{1 + \alpha(N-1) + \beta N(N-1)},\quad N_\text{peak} = \sqrt{\frac{1-\alpha}{\beta}},\quad
              N_\text{knee} = \frac{1}{\alpha},\quad X_\infty = \frac{\gamma}{\alpha}\ (\beta = 0)

    beside Amdahl's law (beta = 0), Gustafson's and a power law, each by bounded least squares, as they are published. What a new run will
    give is
    read from relative residuals: the law that is asked for, or the geometric mean of the Universal Scalability Law, which saturates, and
    the
    power law, which never does; public curves lie between the two.

    Args:
        runs: accelerators, throughput; optional curve, unit (times are turned into rates), scaling, global_batch.
        a: Law to answer with, threshold of a worthwhile accelerator, confidence of bands.

    Raises:
        CapplanError: For fewer than three different counts, counts below 1, mixed or missing units.

    Source: N. J. Gunther, Guerrilla Capacity Planning, Springer, 2007; G. Amdahl, AFIPS 1967; J. Gustafson, CACM 31(5), 1988.
    """
    points, kinds, notes = measured_points(runs)
    parameters, quality, curves, limits, measured = [], [], [], [], []
    chosen: dict[str, Law] = {}
    new_runs: dict[str, NewRun] = {}
    remarks = list(notes)
    for curve, part in points.groupby("curve", sort=True):
        name = str(curve)
        n, x = part["accelerators"].to_numpy(), part["throughput"].to_numpy()
        laws = {law: fit_law(law, n, x) for law in FORMS}
        held = {law: _held_out(law, n, x) for law in FORMS}
        main = _choice(a, kinds[name], held)
        chosen[name] = laws[main]
        new_runs[name] = predictor(n, x, kinds[name], None if a.scaling_law == "auto" and main == "usl" else main)
        for law, fitted in laws.items():
            errors = fitted.parameter_errors()
            parameters += [
                (name, law, key, value, errors[key] if fitted.freedom > 0 else np.nan) for key, value in fitted.parameters.items()
            ]
            quality.append(
                (name, law, law == main, len(n), fitted.residual_standard_error, n.max() if held[law] is not None else np.nan, held[law])
            )
        curves.append(_drawn(name, laws[main], new_runs[name], n, a))
        limits.append(_limits(name, kinds[name], laws[main], n, a))
        one = laws[main].throughput(1.0)[0]
        measured.append(part.assign(fitted=laws[main].throughput(n), efficiency_share=x / (one * n)))
        if laws[main].freedom < 1:
            remarks.append(f"{name}: as many parameters as points; its band rests on the scatter of public curves alone.")
        if x[n == n.max()].mean() / n.max() > x[n == n.min()].mean() / n.min() * 1.02:
            remarks.append(
                f"{name}: larger runs do more per accelerator than the smallest, which no law continues; the fit takes scaling as linear."
            )
    table = pd.DataFrame(limits)
    return ScalingFit(
        parameters=pd.DataFrame(parameters, columns=["curve", "law", "parameter", "value", "standard_error"]),
        quality=pd.DataFrame(
            quality,
            columns=["curve", "law", "chosen", "points", "residual_standard_error", "held_out_accelerators", "held_out_error_share"],
        ).astype({"held_out_error_share": float}),
        curve=pd.concat(curves, ignore_index=True),
        limits=table,
        runs=pd.concat(measured, ignore_index=True)[["curve", "accelerators", "throughput", "fitted", "efficiency_share"]],
        laws=tuple(chosen.items()),
        new_runs=tuple(new_runs.items()),
        headline=_headline(table.iloc[_place(a.scaling_curve, chosen)], a),
        notes=tuple(remarks),
    )


def _held_out(law: str, n: np.ndarray, x: np.ndarray) -> float | None:
    """Relative error at the largest count, predicted from the others."""
    rest = n < n.max()
    if len(np.unique(n[rest])) < MINIMUM_COUNTS:
        return None
    return float(fit_law(law, n[rest], x[rest]).throughput(n.max())[0] / x[~rest].mean() - 1)


def _choice(a: ScalingAssumptions, kind: str, held: dict[str, float | None]) -> str:
    """Name the law to answer with."""
    if a.scaling_law != "auto":
        return a.scaling_law
    usl, gustafson = held["usl"], held["gustafson"]
    if kind == "weak" and usl is not None and gustafson is not None and abs(gustafson) < abs(usl):
        return "gustafson"
    return "usl"


def _drawn(name: str, law: Law, new: NewRun, n: np.ndarray, a: ScalingAssumptions) -> pd.DataFrame:
    """Tabulate what new runs will give between the smallest run and some way beyond the largest."""
    counts = np.unique(np.concatenate([np.round(np.geomspace(n.min(), REACH * n.max(), STEPS)), n]))
    lower, upper = new.band(counts, a.confidence_share)
    return pd.DataFrame(
        {
            "curve": name,
            "law": law.name,
            "accelerators": counts,
            "throughput": new.throughput(counts),
            "lower": lower,
            "upper": upper,
            "efficiency_share": new.efficiency(counts),
            "marginal_share": law.marginal(counts) / (law.throughput(n.min())[0] / n.min()),
        }
    )


def _limits(name: str, kind: str, law: Law, n: np.ndarray, a: ScalingAssumptions) -> dict[str, object]:
    """Find where a law peaks, bends, and stops being worthwhile."""
    p = law.parameters
    alpha, beta = p.get("alpha", 0.0), p.get("beta", 0.0)
    peak = float(np.sqrt((1 - alpha) / beta)) if beta > 0 else np.nan
    knee = min(1 / alpha if alpha > 0 else np.inf, peak if np.isfinite(peak) else np.inf)
    return {
        "curve": name,
        "law": law.name,
        "scaling": kind,
        "smallest_accelerators": float(n.min()),
        "largest_accelerators": float(n.max()),
        "peak_accelerators": peak,
        "peak_throughput": float(law.throughput(peak)[0]) if np.isfinite(peak) else np.nan,
        "knee_accelerators": knee if np.isfinite(knee) else np.nan,
        "worthwhile_accelerators": _worthwhile(law, n, a.marginal_share_floor),
        "limit_throughput": p["gamma"] / alpha if alpha > 0 else np.nan,
    }


def _worthwhile(law: Law, n: np.ndarray, floor: float) -> float:
    """Find the count from which one more adds less than the floor; empty where none up to ten million does."""
    from scipy.optimize import brentq

    each = float(law.throughput(n.min())[0] / n.min())

    def above(count: float) -> float:
        return float(law.marginal(count)[0]) / each - floor

    if above(1.0) < 0:
        return 1.0
    if above(LARGEST_COUNT) >= 0:
        return np.nan
    return float(brentq(above, 1.0, LARGEST_COUNT, xtol=1e-6))


def _place(curve: str | None, chosen: dict[str, Law]) -> int:
    """Find the curve that the headline speaks of."""
    if curve is None:
        return 0
    if curve not in chosen:
        raise CapplanError(f"scaling_curve names {curve!r}; {nearest(curve, chosen)}")
    return list(chosen).index(curve)


def _headline(row: pd.Series, a: ScalingAssumptions) -> str:
    """Say up to where accelerators are worth adding."""
    start = f"{row['curve']}: "
    if np.isnan(row["worthwhile_accelerators"]):
        return (
            f"{start}every further accelerator adds at least {a.marginal_share_floor:.0%} of what one does in the smallest run; no limit is"
            " in sight."
        )
    text = (
        f"{start}beyond {row['worthwhile_accelerators']:,.0f} accelerators one more adds less than {a.marginal_share_floor:.0%} of what one"
        " does in the smallest run"
    )
    if row["worthwhile_accelerators"] > row["largest_accelerators"]:
        text += f" (extrapolated: the largest measured run has {row['largest_accelerators']:,.0f})"
    if np.isfinite(row["peak_accelerators"]):
        text += f"; throughput peaks at {row['peak_accelerators']:,.{0 if row['peak_accelerators'] >= 100 else 1}f}"
    return text + "."
