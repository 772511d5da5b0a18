"""The accounts of a company's books that the components of a ledger go to."""

import pandas as pd

from capplan.errors import CapplanError, suggestion
from capplan.questions.ledger.schedules import ACCOUNTS


def mapped_accounts(entries: pd.DataFrame, account_map: pd.DataFrame) -> pd.DataFrame:
    """Return the account and its name of each entry: by the account map, else the account that other costs state, else our own words.

    Args:
        entries: component, status, account (stated, or our own words).
        account_map: The table of this name.

    Returns:
        DataFrame: account, account_name.

    Raises:
        CapplanError: Where the book has an account map that leaves a component out, naming all of them.
    """
    table = account_map.set_index("component") if len(account_map) else pd.DataFrame(columns=["account", "account_name"])
    account = entries["component"].map(table["account"])
    name = entries["component"].map(table["account_name"] if "account_name" in table else pd.Series(dtype=object)).fillna("")
    stated = (entries["status"] == "stated") & (entries["account"] != "other")
    if len(account_map):
        missing = sorted(set(entries.loc[account.isna() & ~stated, "component"]))
        if missing:
            raise CapplanError(
                f"account_map.csv has no account for {', '.join(missing)}; add a row component,account for each. "
                f"{suggestion(missing[0], list(table.index))}"
            )
    own = entries["component"].map(ACCOUNTS).fillna(entries["component"])
    words = name.where(name != "", own.where(~stated, entries["component"]))
    return pd.DataFrame({"account": account.fillna(entries["account"]), "account_name": words}, index=entries.index)


def account_labels(entries: pd.DataFrame, account_map: pd.DataFrame) -> pd.Series:
    """Return the account of each entry as a ledger shows it: number and name where the book has an account map."""
    found = mapped_accounts(entries, account_map)
    return (found["account"] + " " + found["account_name"]).str.strip() if len(account_map) else found["account"]
