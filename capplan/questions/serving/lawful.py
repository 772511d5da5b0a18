"""Answers about a served model, held to what must be.

Nothing is faster under more load, on a machine that is worse in every regard, in a wider number format, or on fewer accelerators.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from capplan.questions.serving.features import features_of
from capplan.questions.serving.learners import Values
from capplan.questions.serving.measured import CURVE, METRICS, TOKENS, interpolate
from capplan.questions.serving.replica_memory import PARALLEL, cache_format
from capplan.questions.serving.roofline import roofline

#: In what an accelerator can be better than another.
REGARDS = ("memory_gib", "memory_bandwidth_gbps", "bf16_tflops", "fp8_tflops", "fp4_tflops", "link_gbps")
#: What makes setups the same but for their load.
ALIKE = (*CURVE, *TOKENS, "cache_precision", "engine_version", "as_of", "stated_workers", "length")
#: Number formats of the weights that are at least as wide, and need at least as many bytes and as much time to multiply.
WIDER = {"fp4": ("fp8", "bf16"), "fp8": ("bf16",), "int8": ("bf16",), "int4": ("bf16",), "fp16": ("bf16",), "bf16": (), "fp32": ()}
NARROWER = {name: tuple(other for other, wide in WIDER.items() if name in wide and other in ("fp8", "fp4")) for name in WIDER}
#: Bases of an answer, from weak to strong; a weak one never moves a strong one.
MODELLED, CALIBRATED = 0, 1


@dataclass(frozen=True)
class Change:
    """Setups with something changed, and the place of the setup that each comes from."""

    places: NDArray[np.int64]
    table: pd.DataFrame


@dataclass(frozen=True)
class Ladder:
    """Setups at loads of 1, 2, 4, ... requests, each beside those that cannot be better, and those in narrower formats."""

    rows: pd.DataFrame  #: Setups alike but for their load (combinations), times loads.
    #: roof, features: Of these rows.
    roof: pd.DataFrame
    features: pd.DataFrame
    steps: int  #: Number of loads.
    #: place, height: For each setup asked, its combination, and the logarithm to base two of its load.
    place: NDArray[np.int64]
    height: Values
    #: owner, lesser: Pairs of a combination and one that cannot be better (itself among them).
    owner: NDArray[np.int64]
    lesser: NDArray[np.int64]
    #: wide, narrow: Pairs of a combination and the same in a narrower number format.
    wide: NDArray[np.int64]
    narrow: NDArray[np.int64]

    def needed(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mark the rows that an answer about the chosen setups rests on."""
        combinations = np.zeros(len(self.rows) // self.steps, dtype=bool)
        own = np.isin(self.owner, np.unique(self.place[chosen]))
        combinations[self.lesser[own]] = True
        return np.repeat(combinations, self.steps)

    @property
    def holding(self) -> NDArray[np.bool_]:
        """Say which combinations (rows) hold all requests of a load (columns) in their cache at once."""
        asked = self.rows["concurrency"] / self.rows["decode_workers"]
        return (self.roof["held"] >= asked * (1 - 1e-9)).to_numpy().reshape(-1, self.steps)

    def settled(self, seconds: Values, rank: NDArray[np.int64] | None = None, *, whole: bool = False) -> Values:
        """Return seconds of all rows (empty = not known) in the order that must be, one row a combination.

        First no load is faster than a smaller one; then nothing is slower than what cannot be better and is known as well; at last nothing
        is faster than its narrower format that is known better. A replica whose cache is full writes the answers it holds quickly while
        others wait: its first and further tokens are no measure for one that holds all, its whole requests are.

        Args:
            rank: Basis of each row; all alike where none is given.
            whole: Are these times of whole requests?
        """
        climbed = np.maximum.accumulate(seconds.reshape(-1, self.steps), axis=1)
        known = np.zeros(len(climbed), dtype=int) if rank is None else rank.reshape(-1, self.steps)[:, 0]
        holds = np.ones(climbed.shape, dtype=bool) if whole else self.holding
        least = climbed.copy()
        able = known[self.lesser] >= known[self.owner]
        np.fmin.at(least, self.owner[able], np.where(holds[self.lesser[able]], climbed[self.lesser[able]], np.inf))
        most = least.copy()
        better = known[self.narrow] > known[self.wide]
        np.fmax.at(most, self.wide[better], np.where(holds[self.wide[better]], least[self.narrow[better]], 0.0))
        return np.maximum.accumulate(most, axis=1)

    def read(self, settled: Values, chosen: NDArray[np.bool_] | None = None) -> Values:
        """Read settled values off at the loads of the chosen setups: a line over the load between two rungs."""
        place, height = (self.place, self.height) if chosen is None else (self.place[chosen], self.height[chosen])
        low = np.minimum(height.astype(int), self.steps - 2)
        share = 2.0 ** (height - low) - 1.0
        return np.asarray((1 - share) * settled[place, low] + share * settled[place, low + 1])


def ladder_of(
    setups: pd.DataFrame,
    models: pd.DataFrame,
    accelerators: pd.DataFrame,
    known: tuple[tuple[str, str], ...],
    worse: dict[str, list[str]] | None,
) -> Ladder:
    """Lay out the combinations and loads that an answer about setups rests on.

    Args:
        setups: Filled in by `complete`; their weights fit.
        worse: For an accelerator, those that are no better, from `no_better`; None = each setup stands for itself.
    """
    names = [name for name in ALIKE if name in setups]
    codes, _ = pd.factorize(_words(setups, names))
    first = setups[~pd.Series(codes).duplicated().to_numpy()].reset_index(drop=True)
    combinations = first if worse is None else _combinations(first, worse)
    words = _words(combinations, names)
    combinations = combinations[~words.duplicated()].reset_index(drop=True)
    fits = roofline(combinations, models, accelerators)["fits"].to_numpy()
    combinations = combinations[fits].reset_index(drop=True)
    at = {word: place for place, word in enumerate(_words(combinations, names))}
    own = np.array([at[word] for word in _words(first, names)], dtype=np.int64)
    owner, lesser = [*range(len(combinations))], [*range(len(combinations))]
    wide: list[int] = []
    narrow: list[int] = []
    if worse is not None:
        every = combinations.index.to_numpy()
        for change, pairs in ((_lesser(combinations, worse), (owner, lesser)), (_changed(combinations, NARROWER), (wide, narrow))):
            for place, word in zip(every[change.places], _words(change.table, names), strict=True):
                if word in at:
                    pairs[0].append(int(place))
                    pairs[1].append(at[word])
    height = np.log2(setups["concurrency"].to_numpy(dtype=float).clip(min=1.0))
    steps = max(2, int(np.ceil(height.max())) + 1)
    rows = combinations.loc[combinations.index.repeat(steps)].reset_index(drop=True)
    rows["concurrency"] = np.tile(2.0 ** np.arange(steps), len(combinations))
    roof = roofline(rows, models, accelerators)
    features = features_of(rows, roof, models, accelerators, known)
    pairs_of = (np.array(part, dtype=np.int64) for part in (owner, lesser, wide, narrow))
    return Ladder(rows, roof, features, steps, own[codes], height, *pairs_of)


def no_better(accelerators: pd.DataFrame, measured: list[str]) -> dict[str, list[str]]:
    """Return for each accelerator the measured ones that it is at least as good as in every regard.

    Examples:
        >>> table = pd.DataFrame({"accelerator": ["a", "b"], **{name: [1.0, 2.0] for name in REGARDS}})
        >>> no_better(table, ["a", "b"])
        {'a': [], 'b': ['a']}
    """
    table = accelerators.set_index("accelerator")[list(REGARDS)].fillna(0.0)
    return {name: [other for other in measured if other != name and (table.loc[other] <= table.loc[name]).all()] for name in table.index}


def beside_measured(done: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the bounds that measurements set for setups (empty = none), for each latency.

    Most: the least that was measured of what cannot be better (no narrower format, no more accelerators), under no less load. Least: the
    most
    that was measured of what cannot be worse, under no more load.

    Args:
        done: Setups, filled in by `complete`.
        runs: From `usable_runs`.
    """
    found = pd.DataFrame(np.nan, index=done.index, columns=[f"{name}_{end}" for name in METRICS for end in ("least", "most")])
    if runs.empty:
        return found
    known = set(runs["model"])
    for end, change in (("most", _lesser(done, {})), ("least", _greater(done))):
        table = change.table
        near = table["model"].isin(known).to_numpy()
        if not near.any():
            continue
        names = [f"{name}_{end}" for name in METRICS]
        bounds = interpolate(table[near].reset_index(drop=True), runs)[names].groupby(change.places[near])
        for name, values in (bounds.min() if end == "most" else bounds.max()).items():
            found.loc[done.index[values.index], name] = values.to_numpy()
    return found


def is_plain(setups: pd.DataFrame) -> NDArray[np.bool_]:
    """Say which replicas share each layer among all their accelerators: of those a smaller one cannot be better."""
    return (
        ~setups["separate"].astype(bool)
        & (setups["data_parallel"] == 1)
        & (setups["expert_parallel"] == 1)
        & (setups["tensor_parallel"] == setups["accelerators"])
    ).to_numpy()


def _combinations(first: pd.DataFrame, worse: dict[str, list[str]]) -> pd.DataFrame:
    """Return setups with all that they are compared to: wider and narrower formats, and of each what cannot be better."""
    formats = pd.concat([first, _changed(first, WIDER).table, _changed(first, NARROWER).table], ignore_index=True)
    return pd.concat([formats, _lesser(formats, worse).table], ignore_index=True)


def _lesser(setups: pd.DataFrame, worse: dict[str, list[str]]) -> Change:
    """List what cannot be better than each setup: no better accelerator, no narrower format, no more accelerators."""
    plain = is_plain(setups)
    found = []
    for place, (accelerator, precision, count) in enumerate(
        zip(setups["accelerator"], setups["precision"], setups["accelerators"], strict=True)
    ):
        counts = [float(count), *(float(fewer) for fewer in PARALLEL if fewer < count and plain[place])]
        formats = (precision, *WIDER[precision])
        machines = (accelerator, *worse.get(accelerator, []))
        found += [(place, machine, form, width) for machine in machines for form in formats for width in counts]
    return _as_changed(setups, found)


def _greater(setups: pd.DataFrame) -> Change:
    """List what cannot be worse than each setup: no wider format, no fewer accelerators."""
    plain = is_plain(setups)
    found = []
    for place, (accelerator, precision, count) in enumerate(
        zip(setups["accelerator"], setups["precision"], setups["accelerators"], strict=True)
    ):
        counts = [float(count), *(float(more) for more in PARALLEL if more > count and plain[place])]
        found += [(place, accelerator, form, width) for form in (precision, *NARROWER[precision]) for width in counts]
    return _as_changed(setups, found)


def _changed(setups: pd.DataFrame, formats: dict[str, tuple[str, ...]]) -> Change:
    """List each setup in other number formats of its weights."""
    found = [
        (place, accelerator, form, float(count))
        for place, (accelerator, precision, count) in enumerate(
            zip(setups["accelerator"], setups["precision"], setups["accelerators"], strict=True)
        )
        for form in formats[precision]
    ]
    return _as_changed(setups, found)


def _as_changed(setups: pd.DataFrame, found: list[tuple[int, str, str, float]]) -> Change:
    """Return rows of setups with another accelerator, format and count, and the place of the row that each comes from."""
    places = np.array([place for place, *_ in found], dtype=np.int64)
    table = setups.iloc[places].reset_index(drop=True)
    if found:
        # A cache in the format that goes with the weights changes with them; one that was asked for stays.
        formats = zip(table["precision"], [each[2] for each in found], table["cache_precision"], strict=True)
        table["cache_precision"] = [cache_format(new) if cache == cache_format(old) else cache for old, new, cache in formats]
        table["accelerator"], table["precision"] = [each[1] for each in found], [each[2] for each in found]
        counts = np.array([each[3] for each in found])
        changed = counts != table["accelerators"].to_numpy(dtype=float)
        for name in ("accelerators", "tensor_parallel", "prefill_tensor_parallel"):
            table[name] = np.where(changed, counts, table[name]).astype(setups[name].dtype)
    return Change(places, table)


def _words(setups: pd.DataFrame, names: list[str]) -> pd.Series:
    """Return what a combination is, as words."""
    numbers = setups[names].astype({name: float for name in names if name in ("accelerators", *TOKENS) or name.endswith("_parallel")})
    return pd.Series([" ".join(row) for row in numbers.astype(str).itertuples(index=False, name=None)], index=setups.index, dtype=object)
