"""Parameters of a training run: in all, or those that work on a token; a known architecture tells one from the other."""

import pandas as pd

from capplan.errors import Fault

#: Parameters this near (share) to those of a known model are its own.
SAME_SHARE = 0.1


def fill_parameters(own: dict[str, pd.DataFrame], models: pd.DataFrame, faults: list[Fault]) -> list[str]:
    """Fill both kinds of parameters into the roadmap of a book's own tables, unless it has faults; return what was taken for what."""
    name = "training_runs"
    if name not in own or f"{name}.csv" in {fault.file for fault in faults}:
        return []
    own[name], notes = with_active_parameters(own[name], models)
    return notes


def with_active_parameters(runs: pd.DataFrame, models: pd.DataFrame | None) -> tuple[pd.DataFrame, list[str]]:
    r"""Return the roadmap with both kinds of parameters where one is stated or the architecture is known, and what was taken for what.

    .. math:: P_a = P\,\frac{P_a'}{P'}

    with P' and P_a' those of the named architecture. A number in the column parameters (those that work on a token) that is the total of a
    mixture of experts is taken as that.

    Args:
        runs: Rows of training_runs.
        models: The table models; None = no architecture is known.
    """
    table, notes = runs.copy(), []
    for name in ("parameters", "parameters_total"):
        table[name] = pd.to_numeric(table[name]) if name in table else float("nan")
    known = {} if models is None or models.empty else models.drop_duplicates("model").set_index("model").to_dict("index")
    for place, row in table.iterrows():
        model = known.get(row.get("model")) if row.get("model") is not None and not pd.isna(row.get("model")) else None
        active, total = row["parameters"], row["parameters_total"]
        if model is None:
            if pd.isna(active) and not pd.isna(total):
                # Without an architecture a run is dense.
                table.loc[place, "parameters"] = total
            continue
        ratio = model["parameters_active"] / model["parameters_total"]
        if pd.isna(active) and pd.isna(total) and not pd.isna(row.get("tokens")):
            active = model["parameters_active"]
        if pd.isna(total) and ratio < 1 - SAME_SHARE and abs(active / model["parameters_total"] - 1) <= SAME_SHARE:
            notes.append(
                f"Training run {row.get('run_id', '')} states {active:.4g} parameters, which are all of {row['model']}:"
                f" {active * ratio:.4g} of them work on a token."
            )
            active, total = active * ratio, active
        elif pd.isna(active):
            active = total * ratio
        table.loc[place, "parameters"], table.loc[place, "parameters_total"] = active, active / ratio if pd.isna(total) else total
    return table, notes
