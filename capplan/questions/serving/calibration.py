"""Calibration of the roofline by measured curves, with bands that curves held out have confirmed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np
import pandas as pd

from capplan.questions.serving.features import CATEGORIES, features_of, parts_of
from capplan.questions.serving.lawful import Ladder, ladder_of, no_better
from capplan.questions.serving.learners import Blend, Trees, Values, fit_blend, fit_trees
from capplan.questions.serving.measured import METRICS, SAME_TOKENS_SHARE, TOKENS
from capplan.questions.serving.roofline import roofline
from capplan.questions.serving.support import SHARED, support_of

#: Curves are divided into so many parts; each is predicted by what the others say.
FOLDS = 5
#: Fewer measured curves than this calibrate nothing.
FEWEST_CURVES = 10
#: The errors of all other models count beside those of one as if they were so many points of its own.
SHARED_POINTS = 100.0
#: Bands reach no further out than this quantile of the errors: beyond it there are too few.
LAST_QUANTILE = 0.99
#: Least measurements in a leaf of the trees that say how large an error is to be expected.
WIDTH_LEAF = 10
#: An error this small (share) is as good as none.
SMALL_ERROR = 0.01
SEED = 7
TARGETS = (*METRICS, "request_seconds")
#: The band of a model is wider by this share over the number of its curves: few tell less. Chosen on twelve random halves of public curves.
WIDER_BY_CURVES = 0.5
#: What a question may have that no measurement has: its band is at least as wide as leaving each of them out has shown.
NOVELTIES = ("accelerator", "model", "engine", "precision", "length")
#: Things left out one after another; where there are more, several at once.
MOST_LEFT_OUT = 6


Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def on_one_thread(work: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """Run on one thread: sums come out the same on every machine, and threads of a busy one do not wait for each other."""

    @wraps(work)
    def alone(*given: Asked.args, **named: Asked.kwargs) -> Answer:
        import sklearn.ensemble  # noqa: F401 - only libraries that are loaded by now are limited
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            return work(*given, **named)

    return alone


@dataclass(frozen=True)
class Evidence:
    """Measured curves, and the facts that the roofline needs of them; equal where their content is."""

    #: The measurements, from `usable_runs`, of replicas whose weights fit by the roofline, with the length of their requests.
    runs: pd.DataFrame = field(compare=False)
    #: models, accelerators: Tables of these names.
    models: pd.DataFrame = field(compare=False)
    accelerators: pd.DataFrame = field(compare=False)
    digest: str  #: Of all of these.

    @property
    def known(self) -> tuple[tuple[str, str], ...]:
        """Column and value of each category measured."""
        return tuple((name, value) for name in CATEGORIES for value in sorted(self.runs[name].unique()))

    def ladder(self, setups: pd.DataFrame, lawful: bool) -> Ladder:
        """Lay out the loads of setups, and with them, where the law counts, all they are compared to."""
        worse = no_better(self.accelerators, sorted(self.runs["accelerator"].unique())) if lawful else None
        return ladder_of(setups, self.models, self.accelerators, self.known, worse)

    def asked(self, setups: pd.DataFrame) -> pd.DataFrame:
        """Return setups with the words by which the length of their requests is known, and version and day where they state none."""
        setups = _dated(setups.reset_index(drop=True), self.runs)
        setups["length"] = _lengths(setups, self.runs)
        return setups


@dataclass(frozen=True)
class Calibration:
    """What measured curves say about the roofline."""

    evidence: Evidence  #: The curves.
    blends: dict[str, Blend]  #: Fitted on all of them, one a latency.
    #: One row a measurement: model, and for each target the logarithm of measured over predicted when the curve was held out, over the
    #: error that was expected there.
    errors: pd.DataFrame
    widths: dict[str, Trees]  #: For each target, the fitted error to be expected.
    features: pd.DataFrame  #: Of the measurements.

    def seen(self, setups: pd.DataFrame, features: pd.DataFrame, apart: Values) -> Values:
        """Return what the error to be expected of setups is read from."""
        return np.column_stack([features.to_numpy(dtype=float), apart, support_of(setups, features, self.evidence.runs, self.features)])


def evidence_of(runs: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame) -> Evidence | None:
    """Return what a calibration would rest on, or nothing where there are too few curves to calibrate and to tell how well.

    Runs of models and accelerators that the tables do not describe have no roofline and are left out.

    Args:
        runs: From `usable_runs`.
    """
    runs = runs[runs["model"].isin(models["model"]) & runs["accelerator"].isin(accelerators["accelerator"])]
    if runs["curve"].nunique() < FEWEST_CURVES:
        return None
    runs = runs.reset_index(drop=True)
    fitting = runs[roofline(runs, models, accelerators)["fits"].to_numpy()].reset_index(drop=True)
    fitting["length"] = _lengths(fitting, fitting)
    if fitting["curve"].nunique() < FEWEST_CURVES:
        return None
    digest = " ".join(str(pd.util.hash_pandas_object(table.astype(str)).sum()) for table in (fitting, models, accelerators))
    return Evidence(fitting, models, accelerators, digest)


@lru_cache(maxsize=4)
@on_one_thread
def calibrate(evidence: Evidence) -> Calibration:
    """Learn what measured curves say about the roofline, and how wrong that is on curves held out."""
    runs, tables = evidence.runs, (evidence.models, evidence.accelerators)
    roof = roofline(runs, *tables)
    features = features_of(runs, roof, *tables, evidence.known)
    fold = _folds(runs["curve"])
    predicted, apart = _held_out(evidence, fold, lawful=False)
    support = np.empty((len(runs), len(SHARED) + 1))
    for part in range(FOLDS):
        here = fold == part
        support[here] = support_of(runs[here], features[here], runs[~here], features[~here])
    seen = np.column_stack([features.to_numpy(dtype=float), apart, support])
    errors, widths = runs[["model"]].copy(), {}
    for name in TARGETS:
        error = np.log(target_of(runs, name).to_numpy() / target_of(predicted, name).to_numpy())
        size = np.log(np.abs(error) + SMALL_ERROR)
        expected = np.empty(len(runs))
        for part in range(FOLDS):
            here = fold == part
            expected[here] = np.exp(fit_trees(seen[~here], size[~here], SEED, WIDTH_LEAF).predict(seen[here]))
        errors[name], widths[name] = error / expected, fit_trees(seen, size, SEED, WIDTH_LEAF)
    return Calibration(evidence, _blends(evidence, roof, features, np.ones(len(runs), dtype=bool)), errors, widths, features)


@lru_cache(maxsize=16)
@on_one_thread
def left_out(evidence: Evidence, kind: str) -> pd.DataFrame:
    """Return the errors (logarithm of measured over predicted) where each value of a kind was left out altogether.

    Empty where all measurements have the same value.
    """
    runs = evidence.runs
    codes, values = pd.factorize(runs[kind], sort=True)
    if len(values) < 2:
        return pd.DataFrame(columns=list(TARGETS), dtype=float)
    predicted, _ = _held_out(evidence, codes % MOST_LEFT_OUT, lawful=kind == "accelerator")
    return pd.DataFrame({name: np.log(target_of(runs, name) / target_of(predicted, name)) for name in TARGETS})


@on_one_thread
def predict(
    calibration: Calibration, setups: pd.DataFrame, roof: pd.DataFrame, share: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.Series]:
    """Return the calibrated latencies of setups each for itself, and the factors to the ends of their bands.

    Args:
        calibration: From `calibrate`.
        setups, roof: From `Evidence.asked`, and their roofline; the weights fit.
        share: Share of measurements that a band should cover.

    Returns:
        tuple: Values, lower and upper factors (columns TARGETS), and for each setup what it has that was never measured, as words. Values
            are empty where nothing tells how far off such a thing may be.
    """
    evidence, index = calibration.evidence, setups.index
    setups, roof = setups.reset_index(drop=True), roof.reset_index(drop=True)
    features = features_of(setups, roof, evidence.models, evidence.accelerators, evidence.known)
    values, apart = _blended(calibration.blends, features, roof)
    values["output_tokens"] = setups["output_tokens"]
    values = pd.DataFrame({name: target_of(values, name) for name in TARGETS})
    seen = calibration.seen(setups, features, apart)
    curves = evidence.runs.groupby("model")["curve"].nunique()
    wider = 1 + WIDER_BY_CURVES / setups["model"].map(curves).fillna(1.0)
    lower, upper = pd.DataFrame(index=setups.index), pd.DataFrame(index=setups.index)
    for name in TARGETS:
        width = wider * np.exp(calibration.widths[name].predict(seen))
        ends = {model: _family_ends(calibration.errors, model, name, share) for model in setups["model"].unique()}
        for place, factors in enumerate((lower, upper)):
            factors[name] = np.exp(width * setups["model"].map({model: end[place] for model, end in ends.items()}))
    new = pd.Series("", index=setups.index)
    for kind in NOVELTIES:
        unseen = ~setups[kind].isin(evidence.runs[kind])
        if not unseen.any():
            continue
        errors = left_out(evidence, kind)
        if errors.empty:
            values.loc[unseen] = np.nan
            continue
        level = _level(share, len(errors))
        for name in TARGETS:
            low, high = np.exp(np.quantile(errors[name], [1 - level, level]))
            lower.loc[unseen, name] = lower.loc[unseen, name].clip(upper=low)
            upper.loc[unseen, name] = upper.loc[unseen, name].clip(lower=high)
        new[unseen] = new[unseen] + [f" {kind} {value}" for value in setups.loc[unseen, kind]]
    return (
        values.set_axis(index),
        lower.clip(upper=1.0).set_axis(index),
        upper.clip(lower=1.0).set_axis(index),
        new.str.strip().set_axis(index),
    )


def target_of(table: pd.DataFrame, name: str) -> pd.Series:
    """Return a latency, or the time of a whole request from its parts."""
    if name != "request_seconds":
        return table[name]
    return table["first_token_seconds"] + table["token_seconds"] * (table["output_tokens"] - 1).clip(lower=0.0)


def _lengths(setups: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Return the length of each setup's requests as words: that of the first measurement that is as long, or its own."""
    own, told = setups[list(TOKENS)].drop_duplicates(), {}
    measured = runs[list(TOKENS)].drop_duplicates().to_numpy(dtype=float)
    for pair in own.itertuples(index=False, name=None):
        near = np.abs(np.log(measured / np.array(pair, dtype=float))).max(axis=1) <= np.log1p(SAME_TOKENS_SHARE)
        first = measured[np.argmax(near)] if near.any() else pair
        told[pair] = f"{first[0]:,.0f} + {first[1]:,.0f} tokens"
    return pd.Series([told[pair] for pair in setups[list(TOKENS)].itertuples(index=False, name=None)], index=setups.index, dtype=object)


def _dated(setups: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Add the version of the engine and the day where a question says nothing of them: the newest that was measured of the engine."""
    setups = setups.copy()
    newest = (runs.sort_values("as_of", na_position="first", kind="stable") if "as_of" in runs else runs).drop_duplicates(
        "engine", keep="last"
    )
    for name in ("engine_version", "as_of"):
        if name in runs and name not in setups:
            setups[name] = setups["engine"].map(newest.set_index("engine")[name])
    return setups


def _folds(curves: pd.Series) -> Values:
    """Return the fold of each row: whole curves, dealt in an order that does not follow their names."""
    names = sorted(curves.unique())
    order = np.random.default_rng(SEED).permutation(len(names))
    return curves.map({name: int(place) % FOLDS for name, place in zip(names, order, strict=True)}).to_numpy()


def _blends(evidence: Evidence, roof: pd.DataFrame, features: pd.DataFrame, chosen: Values) -> dict[str, Blend]:
    """Fit the learners of both latencies on the chosen measurements."""
    runs = evidence.runs
    return {
        name: fit_blend(
            features[chosen],
            np.log(roof.loc[chosen, name]).to_numpy(),
            parts_of(roof[chosen], name),
            np.log(runs.loc[chosen, name]).to_numpy(),
            SEED,
        )
        for name in METRICS
    }


def _held_out(evidence: Evidence, fold: Values, *, lawful: bool) -> tuple[pd.DataFrame, Values]:
    """Predict each fold by what the others say: the latencies with the output tokens, and how far the learners are apart."""
    runs, tables = evidence.runs, (evidence.models, evidence.accelerators)
    roof = roofline(runs, *tables)
    features, ladder = features_of(runs, roof, *tables, evidence.known), evidence.ladder(runs, lawful)
    predicted, apart = runs[["output_tokens"]].copy(), np.empty((len(runs), len(METRICS)))
    for part in np.unique(fold):
        here = fold == part
        rows = ladder.needed(here)
        found, spread = _blended(_blends(evidence, roof, features, ~here), ladder.features[rows], ladder.roof[rows])
        every = np.full((len(rows), 2 * len(METRICS)), np.nan)
        every[rows] = np.column_stack([found[list(METRICS)].to_numpy(), spread])
        for place, name in enumerate(METRICS):
            predicted.loc[here, name] = ladder.read(ladder.settled(every[:, place]), here)
            own = every[:, len(METRICS) + place].reshape(-1, ladder.steps)
            apart[here, place] = ladder.read(own, here)
    return predicted, apart


def _blended(blends: dict[str, Blend], features: pd.DataFrame, roof: pd.DataFrame) -> tuple[pd.DataFrame, Values]:
    """Return the seconds of each row, and how far the learners are apart (one column a latency)."""
    found = {name: blends[name].predict(features, np.log(roof[name]).to_numpy(), parts_of(roof, name)) for name in METRICS}
    return pd.DataFrame({name: np.exp(logs) for name, (logs, _) in found.items()}), np.column_stack(
        [spread for _, spread in found.values()]
    )


def _level(share: float, count: float) -> float:
    """Return the quantile of so many errors that a new one stays below with the chance of one side of a band (split conformal)."""
    return min(LAST_QUANTILE, (1 + share) / 2 * (1 + 1 / count))


def _family_ends(errors: pd.DataFrame, model: str, name: str, share: float) -> tuple[float, float]:
    """Return the ends of a model's errors (in expected errors): its own, and those of all others as SHARED_POINTS points."""
    own = (errors["model"] == model).to_numpy()
    weight = np.where(own, 1.0, SHARED_POINTS / max(1, int((~own).sum())))
    values = errors[name].to_numpy()
    order = np.argsort(values)
    reached = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    level = min(LAST_QUANTILE, (1 + share) / 2)
    return float(np.interp(1 - level, reached, values[order])), float(np.interp(level, reached, values[order]))
