"""Which workloads earn their compute, which should move or be retired, and when not to scale: each with saving, confidence and owner."""

from typing import NamedTuple

import pandas as pd

from capplan.book.scenario import ReviewAssumptions
from capplan.questions.review.flags import UTILISATION

COLUMNS = ["workload", "owner", "verdict", "yearly_saving_amount", "saving_share", "confidence", "would_have_to_be_true"]
MONTHS_PER_YEAR = 12
RETIRE, KEEP, DO_NOT_SCALE = "retire it", "keep it", "do not scale it"


class Option(NamedTuple):
    """A way to spend less on a workload: what to do, the share of its cost that saves, how sure that is, and what it rests on."""

    workload: str
    verdict: str
    saving_share: float
    confidence: str
    would_have_to_be_true: str


def portfolio_verdicts(
    economics: pd.DataFrame, flags: pd.DataFrame, options: list[Option], months: int, a: ReviewAssumptions
) -> pd.DataFrame:
    r"""Say of each workload what to do with it, the largest saving first.

    .. math:: s = 12\,\frac{x_w}{M}\,\sigma

    with x the attributed cost of M months and σ the share of it that is saved: of an option as it is stated, of work that nobody does or
    that costs more than it is worth all of it (or its loss), and of accelerators that compute a share u of their time where u* is usual
    1 - u / u*.

    Args:
        economics: See `scoreboard.unit_economics`.
        flags: See `flags.work_flags`.
        options: Ways to spend less, of workloads in `economics`; others are left out.
        a: usual_utilisation_share.

    Returns:
        DataFrame: workload, owner, verdict, yearly_saving_amount (in the plan's currency; of each alone: they do not add up), saving_share
            (of its cost), confidence (high, medium, low), would_have_to_be_true. A workload with nothing to say against it is kept.
    """
    rows: list[tuple] = []
    about = economics.set_index("workload")
    yearly = about["amount"] * MONTHS_PER_YEAR / max(months, 1)
    for name, row in about.iterrows():
        if row["amount"] <= 0:
            continue
        found = [(one.verdict, one.saving_share, one.confidence, one.would_have_to_be_true) for one in options if one.workload == name]
        if pd.isna(row["amount_per_thousand"]):
            found.append((RETIRE, 1.0, "medium", "nobody needs it: no work came for the spend that is attributed to it"))
        elif row["margin_per_thousand"] < 0:
            loss = -row["margin_per_thousand"] / row["amount_per_thousand"]
            found.append((RETIRE, loss, "medium", "its stated value is all it is worth, and its price cannot rise by the loss"))
        idle = flags[(flags["workload"] == name) & (flags["sign"] == UTILISATION) & flags["flagged"]]
        for share in idle["measured_share"]:
            said = f"its accelerators, which compute {share:.0%} of their time, come to the usual {a.usual_utilisation_share:.0%}"
            found.append((DO_NOT_SCALE, 1 - share / a.usual_utilisation_share, "low", said))
        stated = pd.notna(row["value_per_thousand"])
        stays = (
            KEEP,
            0.0,
            *(("high", "a unit stays worth what it costs") if stated else ("low", "it is worth its cost, which nobody stated")),
        )
        found = [one for one in found if one[1] > 0] or [stays]
        rows += [(name, row["owner"], verdict, float(yearly[name]) * share, share, *rest) for verdict, share, *rest in found]
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"yearly_saving_amount": float, "saving_share": float})
    return table.sort_values("yearly_saving_amount", ascending=False, ignore_index=True, kind="stable")
