"""Latency and throughput of a replica at a load: measured, calibrated or modelled, and how sure that is."""

import math

import numpy as np
import pandas as pd

from capplan.book.assumptions.performance import PerformanceAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.calibration import TARGETS, Evidence, calibrate, evidence_of, predict, target_of
from capplan.questions.serving.chip_limits import CORRECTED, ROUNDING, floors, hold
from capplan.questions.serving.lawful import CALIBRATED, MODELLED, Ladder, beside_measured, ladder_of, no_better
from capplan.questions.serving.measured import METRICS, TOKENS, interpolate, usable_runs
from capplan.questions.serving.replica_memory import BYTES_PER_GIB, BYTES_PER_WEIGHT
from capplan.questions.serving.roofline import complete, roofline, rows_of

#: Measured latency over the roofline's, middle and factor to the ends of a band of nine in ten: a judgement after looking at 3,669 public
#: measurements, no fit.
ROOFLINE_RATIO = {"first_token_seconds": (2.5, 6.0), "token_seconds": (1.6, 2.5), "request_seconds": (1.6, 2.5)}
#: Band of nine in ten of a value read off measured points: repeated measurements differ by that factor.
MEASURED_FACTOR = 1.1
#: A load of an accelerator, or a length of prompt or answer, this far (factor) beyond all measured ones gets the roofline's band, too.
FAR_FACTOR = 2.0
ORDERED = "moved to where other measurements of the same replica put it: no narrower number format and no larger replica is slower"
UNFINISHED = "rests on a measurement that its source calls work in progress"
NORMAL_P95 = 1.6448536269514722
NORMAL_P99 = 2.3263478740408408
PERCENTILES = {"p50": 0.0, "p95": NORMAL_P95, "p99": NORMAL_P99}


def request_seconds(first_token_seconds: pd.Series, token_seconds: pd.Series, output_tokens: pd.Series) -> pd.Series:
    """Return the time of a whole request: its first token, and the others one after another."""
    return first_token_seconds + token_seconds * (output_tokens - 1).clip(lower=0.0)


def replica_performance(
    setups: pd.DataFrame, serving_runs: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame, a: PerformanceAssumptions
) -> pd.DataFrame:
    r"""Say how fast one copy of a model serves at each load, and on what the answer rests.

    .. math:: x = \frac{n\,n_\text{out}}{\mathrm{TTFT} + (n_\text{out}-1)\,\mathrm{TPOT}}

    Throughput x follows from the n requests in progress and their latency (Little's law).

    Args:
        setups: One row a question: model, accelerator, accelerators (of one replica), engine, precision, input_tokens, output_tokens,
            concurrency (requests in progress in the replica); optionally the parallelism, as in serving_runs.
        serving_runs, models, accelerators: Tables of these names; serving_runs may be empty.

    Returns:
        DataFrame: The setups with first_token_seconds, token_seconds, request_seconds (means), output_tokens_per_second (of the replica),
            each with its band (_lower, _upper); first_token_seconds_p50, _p95, _p99 and token_seconds_p50, _p95, _p99; requests_per_second,
            basis ("measured" = read off measured points of this very setup, "calibrated" = from measured curves of others, "modelled" = the
            roofline alone), first_token_error_share and token_error_share (how much longer it may be, as a share of the value), and note.

    Raises:
        CapplanError: If a model or accelerator is unknown (naming the nearest), or the weights do not fit into the replica.
    """
    done = complete(setups)
    roof = roofline(done, models, accelerators)
    if not roof["fits"].all():
        row = done[~roof["fits"]].iloc[0]
        weights = float(rows_of(models, "model", pd.Series([row["model"]]))["parameters_total"].iloc[0])
        needed = weights * BYTES_PER_WEIGHT[row["precision"]] / BYTES_PER_GIB
        raise CapplanError(
            f"{row['model']} in {row['precision']} needs {needed:,.0f} GiB for its weights, more than {row['accelerators']:g} "
            f"{row['accelerator']} hold beside their working memory; give the replica more accelerators, or a smaller number format"
        )
    width = band_width(a.performance_band_share)
    runs = usable_runs(serving_runs, a.use_unfinished_runs)
    found = interpolate(done, runs)
    known = found["token_seconds"].notna()
    parts = tuple(pd.DataFrame(np.nan, index=done.index, columns=list(TARGETS)) for _ in range(3))
    basis, note = pd.Series("modelled", index=done.index), pd.Series("", index=done.index)
    if not known.all():
        evidence = evidence_of(runs, models, accelerators)
        settled, calibrated, told = _settled(done[~known], evidence, models, accelerators, a.performance_band_share)
        for table, part in zip(parts, settled, strict=True):
            table.loc[~known] = part.to_numpy()
        basis[~known], note[~known] = np.where(calibrated, "calibrated", "modelled"), told
    values, lower, upper = parts
    measured = found[list(METRICS)].assign(output_tokens=done["output_tokens"])
    for name in TARGETS:
        values.loc[known, name] = target_of(measured[known], name)
        lower.loc[known, name], upper.loc[known, name] = (values.loc[known, name] * MEASURED_FACTOR**sign for sign in (-width, width))
    basis[known] = "measured"
    note[known & found["unfinished"].astype(bool)] = UNFINISHED
    moved = _beside_measured(values, lower, upper, done, beside_measured(done, runs))
    note[known & moved] = (note + f"; {ORDERED}").str.removeprefix("; ")
    raised = hold((values, lower, upper), floors(done, roof, models, accelerators), done["output_tokens"])
    note[raised] = (note[raised] + f"; {CORRECTED}").str.removeprefix("; ")
    return _answer(done, values, lower, upper, found, a).assign(basis=basis, note=note).reset_index(drop=True)


def _settled(
    done: pd.DataFrame, evidence: Evidence | None, models: pd.DataFrame, accelerators: pd.DataFrame, share: float
) -> tuple[tuple[pd.DataFrame, ...], np.ndarray, list[str]]:
    """Return latencies and the ends of their bands as the law orders them, which of them measured curves calibrate, and notes."""
    if evidence is None:
        ladder = ladder_of(done, models, accelerators, (), no_better(accelerators, []))
    else:
        done = evidence.asked(done)
        ladder = evidence.ladder(done, lawful=True)
    parts = _modelled(ladder.rows, ladder.roof, band_width(share))
    rank, words = np.full(len(ladder.rows), MODELLED), pd.Series("", index=ladder.rows.index)
    if evidence is not None:
        *calibrated, told = _calibrated(evidence, ladder, parts, share)
        for table, part in zip(parts, calibrated, strict=True):
            table.loc[told.index] = part
        rank[told.index], words[told.index] = CALIBRATED, told
    at = ladder.place * ladder.steps + np.minimum(np.ceil(ladder.height - 1e-9).astype(int), ladder.steps - 1)
    settled = tuple(_in_order(ladder, table, rank, summed=table is parts[0]) for table in parts)
    for name in METRICS:
        settled[1][name], settled[2][name] = np.minimum(settled[1][name], settled[0][name]), np.maximum(settled[2][name], settled[0][name])
    return settled, rank[at] == CALIBRATED, list(words.iloc[at])


def _in_order(ladder: Ladder, table: pd.DataFrame, rank: np.ndarray, *, summed: bool) -> pd.DataFrame:
    """Return latencies of the setups asked, in order.

    The parts of a value add up to its whole request: where that must be shorter, both are, where longer, the wait before the first token
    is. An end of a
    band has no such sum.
    """
    steps = (ladder.rows["output_tokens"] - 1).clip(lower=0.0).to_numpy().reshape(-1, ladder.steps)
    first, token = (ladder.settled(table[name].to_numpy(dtype=float), rank) for name in METRICS)
    if not summed:
        whole = ladder.settled(table["request_seconds"].to_numpy(dtype=float), rank, whole=True)
        return pd.DataFrame({name: ladder.read(part) for name, part in zip(TARGETS, (first, token, whole), strict=True)})
    own = first + steps * token
    whole = ladder.settled(own.ravel(), rank, whole=True)
    token = np.maximum.accumulate(token * np.minimum(1.0, whole / own), axis=1)
    return pd.DataFrame({name: ladder.read(part) for name, part in zip(TARGETS, (whole - steps * token, token, whole), strict=True)})


def _modelled(done: pd.DataFrame, roof: pd.DataFrame, width: float) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the latencies that the roofline alone lets expect, and the ends of their bands; a prompt may also find nobody ahead of it."""
    values = pd.DataFrame({name: roof[name] * ROOFLINE_RATIO[name][0] for name in METRICS}).assign(output_tokens=done["output_tokens"])
    values = pd.DataFrame({name: target_of(values, name) for name in TARGETS})
    factor = pd.Series({name: ROOFLINE_RATIO[name][1] ** width for name in TARGETS})
    lower = values / factor
    lower["first_token_seconds"] = lower["first_token_seconds"].clip(upper=roof["handling_seconds"] + roof["prefill_seconds"])
    return values, lower, values * factor


def _beside_measured(values: pd.DataFrame, lower: pd.DataFrame, upper: pd.DataFrame, done: pd.DataFrame, bounds: pd.DataFrame) -> pd.Series:
    """Move what measurements beside it contradict: no faster than what measured no worse, no slower than what cannot be better.

    Return which were moved.
    """
    before, moved = values.copy(), values[list(METRICS)].assign(output_tokens=done["output_tokens"])
    for name in METRICS:
        least, most = bounds[f"{name}_least"], bounds[f"{name}_most"]
        moved[name] = moved[name].clip(lower=least.fillna(0.0)).clip(upper=most.fillna(np.inf))
    for name in TARGETS:
        values[name] = target_of(moved, name)
        lower[name] *= values[name] / before[name]
        upper[name] *= values[name] / before[name]
    return (np.abs(values / before - 1) > ROUNDING).any(axis=1)


def _calibrated(
    evidence: Evidence, ladder: Ladder, modelled: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame], share: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.Series]:
    """Return latencies that measured curves let expect, the ends of their bands, and a note, where curves can tell how far off they are."""
    done = ladder.rows
    values, low, high, new = predict(calibrate(evidence), done, ladder.roof, share)
    rows = values.dropna().index
    values, new, runs = values.loc[rows], new[rows], evidence.runs
    lower, upper = values * low.loc[rows], values * high.loc[rows]
    said = new.map(lambda words: f"never measured: {words}; the band is as wide as leaving such out has shown" if words else "")
    far = pd.Series(False, index=rows)
    for asked, measured in (
        (done["concurrency"] / done["accelerators"], runs["concurrency"] / runs["accelerators"]),
        *((done[name], runs[name]) for name in TOKENS),
    ):
        far |= ~asked[rows].between(measured.min() / FAR_FACTOR, measured.max() * FAR_FACTOR)
    far = rows[far]
    lower.loc[far] = np.minimum(lower.loc[far], modelled[1].loc[far])
    upper.loc[far] = np.maximum(upper.loc[far], modelled[2].loc[far])
    said[far] = said[far] + "; load or length far beyond all measured ones"
    count = int(runs["work_in_progress"].eq(True).sum()) if "work_in_progress" in runs else 0
    if count:
        said = said + f"; {count} of the {len(runs)} measurements behind it are called work in progress by their source"
    return values, lower, upper, said.str.removeprefix("; ")


def band_width(share: float) -> float:
    """Return how wide a band of that share of cases is, beside one of nine in ten (logarithms of a normal distribution).

    Examples:
        >>> band_width(0.9), round(band_width(0.5), 3)
        (1.0, 0.41)
    """
    from scipy.special import ndtri

    return round(float(ndtri((1 + share) / 2)) / NORMAL_P95, 12)


def _answer(
    done: pd.DataFrame, values: pd.DataFrame, lower: pd.DataFrame, upper: pd.DataFrame, found: pd.DataFrame, a: PerformanceAssumptions
) -> pd.DataFrame:
    """Put values, bands and percentiles side by side."""
    answer = done.copy()
    for name in TARGETS:
        answer[name], answer[f"{name}_lower"], answer[f"{name}_upper"] = values[name], lower[name], upper[name]
    for end, opposite in (("", ""), ("_lower", "_upper"), ("_upper", "_lower")):
        answer[f"output_tokens_per_second{end}"] = done["concurrency"] * done["output_tokens"] / answer[f"request_seconds{opposite}"]
    answer["requests_per_second"] = done["concurrency"] / answer["request_seconds"]
    for name, ratio in (("first_token_seconds", a.first_token_p99_ratio), ("token_seconds", a.token_p99_ratio)):
        ratios = (found[f"{name}_p99"] / values[name]).fillna(ratio).clip(lower=1.0)
        width = [spread_of(value) for value in ratios]
        for label, normal in PERCENTILES.items():
            answer[f"{name}_{label}"] = values[name] * np.exp(np.array(width) * normal - np.array(width) ** 2 / 2)
    for name in METRICS:
        answer[f"{name.removesuffix('_seconds')}_error_share"] = upper[name] / values[name] - 1
    return answer


def spread_of(p99_ratio: float) -> float:
    r"""Return the width of the lognormal distribution whose 99th percentile is that many means.

    .. math:: \ln r = z\,\sigma - \sigma^2/2 \;\Rightarrow\; \sigma = z - \sqrt{z^2 - 2\ln r}

    Args:
        p99_ratio (r): 99th percentile over mean; above e to the power z squared over two there is none, and the widest is returned.

    Examples:
        >>> round(spread_of(1.0), 6)
        0.0
    """
    return NORMAL_P99 - math.sqrt(max(0.0, NORMAL_P99**2 - 2 * math.log(p99_ratio)))
