"""Cash by the day it is paid: what discounting at another rate needs, and a month's sum has lost."""

from collections.abc import Iterable

import pandas as pd

from capplan.questions.ledger.schedules import ACCOUNTS, Entry

PAYMENT_KEYS = ["date", "component", "contract_id", "provider", "status", "team", "cost_center", "account"]


def payments_by_day(entries: Iterable[Entry]) -> pd.DataFrame:
    """List all payments by day.

    Args:
        entries: Entries of any views; those of the cash view are kept.

    Returns:
        DataFrame: date, component, contract_id, provider, status, team, cost_center, account, usd.
    """
    rows = [
        (
            e.date.normalize(),
            e.component,
            e.contract_id,
            e.provider,
            e.status,
            e.bearer.team,
            e.bearer.cost_center,
            e.account or ACCOUNTS.get(e.component, "other"),
            e.usd,
        )
        for e in entries
        if e.view == "cash"
    ]
    frame = pd.DataFrame(rows, columns=[*PAYMENT_KEYS, "usd"]).astype({"date": "datetime64[ns]", "usd": "float64"})
    return frame.groupby(PAYMENT_KEYS, as_index=False, sort=True)["usd"].sum()
