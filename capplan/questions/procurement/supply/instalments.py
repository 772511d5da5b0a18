"""Payment schedules of offers: which share of a contract's price is due when, and what that is worth today."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.procurement.supply.market import attached
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records
from capplan.units import add_months

#: Roles of contracts whose price is their own; a reservation is billed as it runs.
SCHEDULED_ROLES = ("full", "units", "dollars")
#: Shares of a schedule may miss 1 by this much.
ROUNDING_SHARE = 1e-6
COLUMNS = ["choice", "date", "quarter", "usd", "present_usd"]


def checked_instalments(payments: pd.DataFrame | None, contracts: pd.DataFrame, offers: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the schedule of each contract that has one, earliest payment first.

    Args:
        payments: Table offer_payments; None where a book has none.
        contracts: Offers that are contracts, with roles.
        offers: Table offers, for the names of those that were left out.

    Raises:
        CapplanError: If a schedule names no offer or one that has no price of its own, does not add up, or goes on after the contract's
            end.
    """
    found = {}
    instead = "has no contract price that could be paid by a schedule; delete its rows"
    for name, row, part in attached(payments, "offer_payments", contracts, offers, SCHEDULED_ROLES, instead):
        total = float(part["share"].sum()) + float(row["upfront_share"])
        if abs(total - 1) > ROUNDING_SHARE:
            raise CapplanError(
                f"offer_payments: the shares of {name} sum to {total:.6g}, with upfront_share {row['upfront_share']:g}; they must sum to 1"
            )
        last = float(part["months_after_start"].max())
        if last > row["term_months"]:
            raise CapplanError(
                f"offer_payments: {name} is paid until month {last:g}, and ends after {row['term_months']:g}; correct one of them"
            )
        found[name] = part
    return found


def due(schedules: Mapping[str, pd.DataFrame], table: pd.DataFrame, price_usd: np.ndarray, timeline: Timeline) -> pd.DataFrame:
    """List the payments of one lot of each choice that is paid by a schedule.

    Args:
        schedules: What `checked_instalments` returns.
        table: Choices: offer_id, kind, start.
        price_usd (n,): Whole price of one lot.
        timeline: Quarters and discounting; a payment on the day after the last quarter counts to it.

    Returns:
        DataFrame: choice, date, quarter (index), usd, present_usd.
    """
    rows = []
    for j, row in enumerate(records(table[["offer_id", "kind", "start"]])):
        schedule = schedules.get(row["offer_id"]) if row["kind"] == "offer" else None
        if schedule is None:
            continue
        for months, share in zip(schedule["months_after_start"], schedule["share"], strict=True):
            date = add_months(row["start"], months)
            quarter, factor = timeline.when(date)
            rows.append((j, date, quarter, share * price_usd[j], share * price_usd[j] * factor))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"choice": "int64", "quarter": "int64", "usd": "float64", "present_usd": "float64"})
