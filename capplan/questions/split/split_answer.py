"""What each way of sharing a fleet does to serving, to jobs and to cost."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.split import SplitAssumptions
from capplan.questions.split.two_parts import LENDING, SEPARATE, SHARED, Fleet
from capplan.text import duration_words, money

HOURS_PER_YEAR = 8760.0
NAMES = {"separate": "two separate clusters", "shared": "one shared pool", "lending": "lending with reclaim"}


@dataclass(frozen=True)
class Split:
    """How the fleet is divided.

    Args:
        arrangements: [arrangement, accelerators, inference_accelerators (its own), usd (of the fleet over the trace), slo_share (inference
            load that found an accelerator ready), short_accelerator_hours, queue_mean_seconds, queue_p90_seconds, completion_mean_seconds,
            preemptions, goodput_share, idle_accelerator_hours (inference's own, without load), harvested_accelerator_hours (of its own
            nodes, used by jobs), used_share (of the fleet's hours: load served and useful work of jobs), needed_accelerators (of the
            smallest fleet that meets the delay target; empty = none does), needed_usd_per_year, needed_slo_share, late_usd_per_year (both
            of that fleet), total_usd_per_year, meets_targets, chosen].
        hours: [arrangement, time, inference (served load), training, harvested (the part of training on inference's own nodes), idle]:
            accelerators on average of each interval of the load.
        gains: [measure, unit, separate, lending, ratio]: lending against two separate clusters on the fleet as it is; above 1 lending is
            better.
        sensitivity: [reclaim_delay_minutes, preemption_cost_minutes, slo_share, needed_accelerators, gain_usd_per_year]: what lending saves
            against two separate clusters that meet the same delay target; below 0 it loses. Empty where no search was asked for.
        quotas: [queue, role (inference, training or cohort), team, accelerator, nominal_accelerators, borrowing_limit, lending_limit,
            cohort (its parent for a cohort)]: the chosen arrangement as quotas; empty limits are none.
        fleet: [node, accelerator, accelerator_count, own]: every node, and whose own it is ("training" or "inference").
        chosen: Name of the chosen arrangement.
        headline, notes: The deciding sentence; repairs and assumptions.
    """

    arrangements: pd.DataFrame
    hours: pd.DataFrame
    gains: pd.DataFrame
    sensitivity: pd.DataFrame
    quotas: pd.DataFrame
    fleet: pd.DataFrame
    chosen: str
    headline: str
    notes: tuple[str, ...]

    def measure(self, arrangement: str, name: str) -> float:
        """Return one figure of one arrangement."""
        return float(self.arrangements.set_index("arrangement").loc[arrangement, name])


def gains_of(table: pd.DataFrame) -> pd.DataFrame:
    """Compare lending with separate clusters as it is: [measure, unit, separate, lending, ratio]; a ratio above 1 is a gain."""
    rows = table.set_index("arrangement")
    found = []
    for measure, column, unit, size, less in (
        ("mean queue delay", "queue_mean_seconds", "hours", 3600.0, True),
        ("mean time to completion", "completion_mean_seconds", "hours", 3600.0, True),
        ("use of the fleet", "used_share", "share", 1.0, False),
    ):
        before, after = float(rows.loc[SEPARATE, column]) / size, float(rows.loc[LENDING, column]) / size
        above, below = (before, after) if less else (after, before)
        found.append((measure, unit, before, after, above / below if below > 0 else (1.0 if above == below else np.inf)))
    return pd.DataFrame(found, columns=["measure", "unit", "separate", "lending", "ratio"])


def choose(table: pd.DataFrame, searched: bool) -> str:
    """Return the arrangement that meets the targets at the least cost; the simpler one where two cost the same.

    Where none meets them, the one that serves most of the load; without a search for sizes, the one with the shortest mean wait among
    those that serve enough.
    """
    fit = table[table["meets_targets"]]
    if fit.empty:
        return str(table.loc[table["slo_share"].idxmax(), "arrangement"])
    cost = "total_usd_per_year" if searched else "queue_mean_seconds"
    return str(fit.loc[fit[cost].idxmin(), "arrangement"])


def quotas_of(fleet: Fleet, jobs: pd.DataFrame, chosen: str, a: SplitAssumptions) -> pd.DataFrame:
    """Write the chosen arrangement as quotas of queues.

    Training's quota is divided among its teams by the accelerator-hours of the trace. Separate clusters put inference into no cohort; a
    shared pool sets
    no limits; lending limits what inference lends and, by a cohort of the teams, what training borrows, as in the simulation.
    """
    work = (jobs["duration_seconds"].fillna(jobs["duration_seconds"].median()) * jobs["accelerators"]).groupby(jobs["team"]).sum()
    work = work[work > 0].sort_index() if (work > 0).any() else work.clip(lower=1.0)
    rows = []
    for kind, part in fleet.nodes.groupby("accelerator", sort=False):
        own = part.groupby("own")["accelerator_count"].sum()
        serving, training = int(own.get("inference", 0)), int(own.get("training", 0))
        if kind == fleet.kind:
            lends = int(a.lending_share * serving) if chosen == LENDING else None
            # inference keeps to its own under lending; in a shared pool it takes what it needs
            rows.append(
                (
                    "inference",
                    "inference",
                    "",
                    kind,
                    serving,
                    0 if chosen == LENDING else None,
                    lends,
                    None if chosen == SEPARATE else "fleet",
                )
            )
        exact = (work / work.sum() * training).to_numpy()
        shares = np.floor(exact + 1e-9).astype(int)
        shares[np.argsort(-(exact - shares), kind="stable")[: training - int(shares.sum())]] += 1
        for team, share in zip(work.index, shares, strict=True):
            rows.append(
                (f"training-{team}", "training", str(team), kind, int(share), None, None, "fleet" if chosen == SHARED else "training")
            )
        if chosen == LENDING:
            # the teams together borrow no more than training may, and lend inference nothing
            borrows = int(a.borrowing_share * training) if kind == fleet.kind else 0
            rows.append(("training", "cohort", "", kind, 0, borrows, 0, "fleet"))
    frame = pd.DataFrame(
        rows, columns=["queue", "role", "team", "accelerator", "nominal_accelerators", "borrowing_limit", "lending_limit", "cohort"]
    )
    return frame.astype({"borrowing_limit": "Int64", "lending_limit": "Int64"})


def headline_of(table: pd.DataFrame, gains: pd.DataFrame, chosen: str, searched: bool, a: SplitAssumptions) -> str:
    """Return the deciding sentence."""
    rows = table.set_index("arrangement")
    mine, other = rows.loc[chosen], rows.loc[SEPARATE]
    ratio = float(gains["ratio"].iloc[0])
    wait = (
        "lending leaves the mean wait of jobs as it is"
        if abs(ratio - 1) < 0.005
        else (
            f"lending cuts the mean wait of jobs by a factor of {ratio:.2g}"
            if ratio >= 1
            else f"lending makes jobs wait {1 / ratio:.2g} times as long"
        )
    )
    fleet = f"on the fleet as it is, {wait} and leaves {1 - rows.loc[LENDING, 'slo_share']:.2%} of the inference load short"
    if not mine["meets_targets"]:
        return (
            f"No arrangement meets both targets; {NAMES[chosen]} serve{'' if chosen == SEPARATE else 's'} most, {mine['slo_share']:.2%} of"
            " the load."
        )
    if not searched:
        return f"Best: {NAMES[chosen]}, mean wait {duration_words(mine['queue_mean_seconds'])}; {fleet}."
    target = (
        f"the targets ({100 * a.serving_target_share:.4g} % of the load served, nine of ten jobs started within"
        f" {duration_words(60 * a.delay_target_minutes)})"
    )
    if chosen == SEPARATE:
        return f"Two separate clusters are best: {int(mine['needed_accelerators']):,} accelerators meet {target}; {fleet}."
    if not other["meets_targets"]:
        return (
            f"{NAMES[chosen].capitalize()} meets {target} with {int(mine['needed_accelerators']):,} accelerators, separate clusters do not;"
            f" {fleet}."
        )
    saved = int(other["needed_accelerators"] - mine["needed_accelerators"])
    usd = float(other["total_usd_per_year"] - mine["total_usd_per_year"])
    return (
        f"{NAMES[chosen].capitalize()} is best: {int(mine['needed_accelerators']):,} accelerators meet {target}, {saved:,} fewer than two"
        f" separate clusters, which saves {money(usd)} a year; {fleet}."
    )
