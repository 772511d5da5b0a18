"""Tuning sweeps: how much training each way to search takes, what stopping early saves, and how long it lasts on a limited pool."""

import math

import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError
from capplan.questions.training.flops import run_usd


def halving_rungs(trials: int, keep_one_in: int, first_epochs: float, most_epochs: float) -> pd.DataFrame:
    r"""List the rounds of successive halving: who trains how far.

    .. math:: n_i = \lfloor n / \eta^i \rfloor,\qquad r_i = r\,\eta^i \le R

    Args:
        trials, keep_one_in (n, eta):
        first_epochs, most_epochs (r, R): Training at which the first round is judged, and at which a trial is complete.

    Returns:
        DataFrame: rung, trials, epochs (reached by each), added_epochs (since the round before), work_epochs (trials x added: survivors go
            on from their checkpoint).

    Source: K. Jamieson and A. Talwalkar, Non-stochastic best arm identification, AISTATS 2016.

    Examples:
        >>> rungs = halving_rungs(81, 3, 1, 27)
        >>> rungs["trials"].tolist(), int(rungs["work_epochs"].sum())
        ([81, 27, 9, 3], 243)
    """
    if trials < 1 or keep_one_in < 2 or not 0 < first_epochs <= most_epochs:
        raise CapplanError(
            f"successive halving of {trials} trials, keeping one in {keep_one_in}, from {first_epochs:g} to {most_epochs:g} epochs: it"
            " needs 1 trial or more, one in 2 or more, and a first round of more than 0 and at most all epochs"
        )
    rows, reached, rung = [], 0.0, 0
    while True:
        count = trials // keep_one_in**rung
        target = min(first_epochs * keep_one_in**rung, most_epochs)
        if count < 1 or target <= reached:
            break
        rows.append((rung, count, target, target - reached, count * (target - reached)))
        reached, rung = target, rung + 1
    return pd.DataFrame(rows, columns=["rung", "trials", "epochs", "added_epochs", "work_epochs"])


def hyperband_brackets(most_epochs: float, keep_one_in: int) -> pd.DataFrame:
    r"""List the brackets of Hyperband: rounds of successive halving, from many short trials to few whole ones.

    .. math:: s_\max = \lfloor \log_\eta R \rfloor,
              \qquad n_s = \left\lceil \frac{s_\max + 1}{s + 1} \eta^s \right\rceil,\qquad r_s = R\,\eta^{-s}

    Args:
        most_epochs, keep_one_in (R, eta):

    Returns:
        DataFrame: bracket, and the columns of `halving_rungs`.

    Source: L. Li et al., Hyperband, JMLR 18(185), 2018, algorithm 1.

    Examples:
        >>> hyperband_brackets(81, 3).groupby("bracket", sort=False)["trials"].first().tolist()
        [81, 34, 15, 8, 5]
    """
    # A tenth of the last digit keeps exact powers from falling below themselves.
    top = math.floor(math.log(most_epochs) / math.log(keep_one_in) + 1e-9)
    parts = []
    for bracket in range(top, -1, -1):
        trials = math.ceil((top + 1) * keep_one_in**bracket / (bracket + 1))
        rungs = halving_rungs(trials, keep_one_in, most_epochs / keep_one_in**bracket, most_epochs)
        parts.append(rungs.assign(bracket=bracket))
    table = pd.concat(parts, ignore_index=True)
    return table[["bracket", *table.columns.drop("bracket")]]


def plan_sweep(usd_per_accelerator_hour: float, a: TrainingAssumptions) -> pd.DataFrame:
    r"""Say what each way to search for good settings takes: training, accelerators, hours, money.

    .. math:: H = \sum_i \left\lceil \frac{n_i}{\lfloor P/k \rfloor} \right\rceil (r_i - r_{i-1})\,h

    with P accelerators in the pool, k for a trial, h hours an epoch: trials of a round run in waves.

    Returns:
        DataFrame: method, trials, epochs (of training in all), epochs_without_stopping, saved_share, waves, hours, accelerators (at once),
            accelerator_hours, usd.

    Raises:
        CapplanError: If the pool is smaller than a trial, or than a population that must train side by side.
    """
    slots = a.sweep_pool_accelerators // a.trial_accelerators
    if slots < 1:
        raise CapplanError(
            f"sweep_pool_accelerators = {a.sweep_pool_accelerators}: one trial takes {a.trial_accelerators}; enlarge the pool or shrink the"
            " trial"
        )
    trials, most = a.sweep_trials, float(a.sweep_epochs)
    stopped = round(trials * a.sweep_stopped_share)
    early = pd.DataFrame(
        {"trials": [trials, trials - stopped], "added_epochs": [most * a.sweep_stopped_at_share, most * (1 - a.sweep_stopped_at_share)]}
    )
    side = max(2, round(trials ** (1 / 3)))
    rungs = max(0, math.floor(math.log(trials, a.sweep_keep_one_in) + 1e-9) - 1)
    whole = pd.DataFrame({"trials": [trials], "added_epochs": [most]})
    grid = pd.DataFrame({"trials": [side**3], "added_epochs": [most]})
    ways = {
        "grid": (grid, side**3),
        "random": (whole, trials),
        "random_with_early_stop": (early, trials),
        "successive_halving": (halving_rungs(trials, a.sweep_keep_one_in, max(1.0, most / a.sweep_keep_one_in**rungs), most), trials),
        "hyperband": (
            hyperband := hyperband_brackets(most, a.sweep_keep_one_in),
            int(hyperband.drop_duplicates("bracket")["trials"].sum()),
        ),
        "population_based": (pd.DataFrame({"trials": [a.sweep_population], "added_epochs": [most]}), a.sweep_population),
    }
    rows = []
    for method, (rounds, count) in ways.items():
        waves = -(-rounds["trials"] // slots)
        work = float((rounds["trials"] * rounds["added_epochs"]).sum())
        hours = float((waves * rounds["added_epochs"]).sum() * a.trial_hours_per_epoch)
        busy = work * a.trial_hours_per_epoch * a.trial_accelerators
        rows.append(
            {
                "method": method,
                "trials": count,
                "epochs": work,
                "epochs_without_stopping": count * most,
                "saved_share": 1 - work / (count * most),
                "waves": int(waves.sum()),
                "hours": hours,
                "accelerators": int(min(slots, rounds["trials"].max()) * a.trial_accelerators),
                "accelerator_hours": busy,
                "usd": run_usd(busy, usd_per_accelerator_hour),
            }
        )
    return pd.DataFrame(rows)
