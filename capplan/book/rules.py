"""Rules between the tables of a book: references, times, contracts, probabilities."""

import pandas as pd

from capplan.book.tables.registry import columns_of
from capplan.book.terms import COUNTS, MEASURES
from capplan.contract_kinds import RENEWABLE_TERMS, STATED_LENGTH, TERM_MONTHS
from capplan.errors import Fault, suggestion

Tables = dict[str, pd.DataFrame]
#: Price columns that may be zero: an owned machine has a purchase price instead.
FREE_TERMS = ("owned",)
PROBABILITY_TOLERANCE = 1e-6
#: Fewer parameters or tokens of a training run than this are billions or trillions typed without their zeros: the column, the least, the
#: unit, its name.
LEAST_COUNTS = {"parameters": (1e5, 1e9, "billions"), "tokens": (1e5, 1e12, "trillions")}


def _rows(table: str, frame: pd.DataFrame, bad: pd.Series, column: str, rule: str, remedy: str, shown: int = 4) -> list[Fault]:
    """Make a fault of every bad row, the first few one by one."""
    found = [
        Fault(f"{table}.csv", int(frame.index[position]), column, str(frame[column].iloc[position]), rule, remedy)
        for position in bad.to_numpy().nonzero()[0]
    ]
    if len(found) > shown + 1:
        found = [
            *found[:shown],
            Fault(f"{table}.csv", 0, column, "", f"{len(found) - shown} more rows break the same rule ({rule})", remedy),
        ]
    return found


def check_references(tables: Tables, known: Tables) -> list[Fault]:
    """Every name that a book uses must exist, in the book or in the reference facts.

    Args:
        tables: The book's own tables, with their lines in the file as index.
    """
    faults = []
    for table, frame in tables.items():
        for column in columns_of(table):
            if not column.refers or frame.empty:
                continue
            target, target_column = column.refers.split(".")
            if target == "workloads" and target not in tables:
                continue
            names = set(known[target][target_column].dropna()) if target in known else set()
            value = frame[column.name]
            unknown = value.notna() & ~value.isin(names)
            for name in value[unknown].unique():
                remedy = f"{suggestion(name, names)} Or add it to {target}.csv." if names else f"Add {target}.csv with this name."
                faults += _rows(
                    table, frame, unknown & (value == name), column.name, f"{target} has no such {target_column}", remedy, shown=1
                )
    return faults


def check_usage_times(usage: pd.DataFrame) -> list[Fault]:
    """Each workload's intervals must follow each other without gaps, in one step."""
    faults = []
    if usage.empty or usage["time"].isna().any():
        return []
    for (workload, region), part in usage.groupby(["workload", "region"], sort=True):
        times = part["time"].sort_values()
        steps = times.diff().dropna()
        if steps.empty or (steps <= pd.Timedelta(0)).any():
            continue
        step = steps.mode().iloc[0]
        if step >= pd.Timedelta(days=28):
            continue
        wrong = steps[steps != step]
        for position, (index, size) in enumerate(wrong.items()):
            if position == 3:
                faults.append(
                    Fault(
                        "usage.csv",
                        0,
                        "time",
                        "",
                        f"{len(wrong) - 3} more gaps of {workload} in {region}",
                        "Fill all of them in the same way.",
                    )
                )
                break
            row = int(index)
            local = (
                " One missing hour in spring is the start of summer time: write times in UTC or with their zone."
                if size == 2 * step
                else ""
            )
            faults.append(
                Fault(
                    "usage.csv",
                    row,
                    "time",
                    str(times.loc[index]),
                    f"{workload} in {region} has a row every {_span(step)}, but {_span(size)} lie between this row and the one before",
                    f"Write 0 for intervals in which nothing ran, or leave out all rows before the gap.{local}",
                )
            )
    return faults


def _span(size: pd.Timedelta) -> str:
    minutes = size / pd.Timedelta(minutes=1)
    for unit, length in (("days", 1440), ("hours", 60), ("minutes", 1)):
        if minutes >= length and minutes % length == 0:
            count = int(minutes // length)
            return f"{count} {unit if count != 1 else unit[:-1]}"
    return str(size)


def check_offers(offers: pd.DataFrame) -> list[Fault]:
    """Prices and lengths that an offer must state."""
    if offers.empty:
        return []
    owned = offers["term"].isin(FREE_TERMS)
    faults = _rows(
        "offers",
        offers,
        ~owned & (offers["usd_per_hour"] == 0),
        "usd_per_hour",
        "a price of zero is never taken",
        "State the price, or delete the offer.",
    )
    faults += _rows(
        "offers",
        offers,
        offers["negotiated_usd_per_hour"] == 0,
        "negotiated_usd_per_hour",
        "a price of zero is never taken",
        "State the price, or leave the cell empty.",
    )
    faults += _rows(
        "offers", offers, owned & offers["capex_usd"].isna(), "capex_usd", "an owned machine needs its purchase price", "State capex_usd."
    )
    faults += _rows(
        "offers",
        offers,
        offers["term"].isin(STATED_LENGTH) & offers["term_months"].isna(),
        "term_months",
        "leases and capacity blocks must state their length",
        "State term_months.",
    )
    fixed = offers["term"].map(TERM_MONTHS)
    faults += _rows(
        "offers",
        offers,
        fixed.notna() & offers["term_months"].notna() & (fixed != offers["term_months"]),
        "term_months",
        "the length contradicts the term (1y = 12 months, 3y = 36 months)",
        "Leave term_months empty, or choose lease as the term.",
    )
    return faults


def check_work(tables: Tables) -> list[Fault]:
    """Events, training runs, limits and stated demand must say enough, and not too much."""
    faults = []
    if "events" in tables and len(events := tables["events"]):
        both = events["factor"].notna() == events["level"].notna()
        faults += _rows("events", events, both, "factor", "give either a factor or a level", "Fill in exactly one of the two.")
    if "training_runs" in tables and len(runs := tables["training_runs"]):
        vague = runs["quantity"].isna() & (runs["parameters"].isna() | runs["tokens"].isna())
        faults += _rows("training_runs", runs, vague, "quantity", "a run needs its quantity, or parameters and tokens", "Fill them in.")
    if "price_paths" in tables and len(paths := tables["price_paths"]) and "step_share" in paths:
        undated = paths["step_date"].isna() if "step_date" in paths else pd.Series(True, index=paths.index)
        half = undated & (paths["step_share"].fillna(0.0) != 0)
        faults += _rows("price_paths", paths, half, "step_share", "a step happens on a day", "Fill in the day, or leave step_share empty.")
    if "commitments" in tables:
        faults += check_renewals(tables["commitments"])
    if "generations" in tables and len(tables["generations"]):
        faults += check_generations(tables["generations"])
    if "limits" in tables and len(tables["limits"]):
        faults += check_limits(tables["limits"])
    if "other_costs" in tables and len(others := tables["other_costs"]):
        both = others["currency"].notna() & others["amount"].notna()
        neither = others["currency"].isna() & others["amount"].isna()
        wrong = ~(both & others["usd"].isna() | neither & others["usd"].notna())
        remedy = "Write a number into usd, or into amount with its currency; not both."
        faults += _rows("other_costs", others, wrong, "usd", "a cost is stated once, in dollars or in a currency of its own", remedy)
    if "demand_scenarios" in tables and len(stated := tables["demand_scenarios"]):
        several = stated.groupby("scenario")["probability"].transform("nunique") > 1
        faults += _rows(
            "demand_scenarios", stated, several, "probability", "a scenario has one probability, equal in all its rows", "Make them equal."
        )
        total = stated.groupby("scenario")["probability"].first().sum()
        if not several.any() and abs(total - 1) > PROBABILITY_TOLERANCE:
            faults.append(
                Fault(
                    "demand_scenarios.csv",
                    0,
                    "probability",
                    f"{total:g}",
                    "the probabilities of the scenarios must sum to 1",
                    "Correct the probabilities.",
                )
            )
    return faults


def check_renewals(commitments: pd.DataFrame) -> list[Fault]:
    """Only kinds of contract that are renewed state a price of it."""
    if commitments.empty or "renewal_usd_per_hour" not in commitments:
        return []
    priced = commitments["renewal_usd_per_hour"].notna() & ~commitments["term"].isin(RENEWABLE_TERMS)
    rule = f"only {', '.join(RENEWABLE_TERMS)} give a right to renew"
    remedy = "Leave it empty, or correct the term; what can be had anew is an offer."
    return _rows("commitments", commitments, priced, "renewal_usd_per_hour", rule, remedy)


def check_limits(limits: pd.DataFrame) -> list[Fault]:
    """Say of each limit what it counts, and nothing that its kind does not count."""
    faults: list[Fault] = []
    budget = limits["kind"] == "budget_usd"
    faults += _rows(
        "limits", limits, budget & limits["measure"].isna(), "measure", "a budget must say what it counts", f"Write {', '.join(MEASURES)}."
    )
    if "counts" in limits:
        others = limits["counts"].notna() & ~limits["kind"].isin(list(COUNTS.values()))
        remedy = f"Leave it empty, or make the limit one of {', '.join(dict.fromkeys(COUNTS.values()))}."
        faults += _rows("limits", limits, others, "counts", "only limits on accelerators count something of their own", remedy)
    share = limits["kind"].isin(["spot_share", "provider_share"])
    faults += _rows("limits", limits, share & (limits["amount"] > 1), "amount", "a share lies between 0 and 1", "Write 0.2 for 20 %.")
    if "currency" in limits:
        foreign = limits["currency"].notna() & ~budget
        faults += _rows("limits", limits, foreign, "currency", "only budgets are amounts of money", "Leave it empty.")
    return faults


def check_generations(generations: pd.DataFrame) -> list[Fault]:
    """No machine succeeds itself, also not by way of others, and all rows of one say the same of it but its speed-up."""
    succeeds = dict(zip(generations["accelerator"], generations["succeeds"], strict=True))
    faults = []
    for name, first in succeeds.items():
        seen, before = {name}, first
        while before in succeeds and before not in seen:
            seen.add(before)
            before = succeeds[before]
        if before == name:
            bad = generations["accelerator"] == name
            faults += _rows(
                "generations", generations, bad, "succeeds", "a machine must not be its own ancestor", "Correct succeeds.", shown=1
            )
    for column in ("succeeds", "available_p50", "available_p90", "price_ratio", "power_ratio", "probability"):
        if column in generations:
            several = generations.groupby("accelerator")[column].transform(lambda part: part.nunique(dropna=False)) > 1
            rule = "is equal in all rows of an accelerator"
            faults += _rows(
                "generations", generations, several, column, rule, "Make them equal; only speed-ups differ by workload.", shown=1
            )
    return faults


def check_payments(tables: Tables) -> list[Fault]:
    """Find payment schedules that do not add up to their contract."""
    if "payments" not in tables or "commitments" not in tables or tables["payments"].empty:
        return []
    payments, commitments = tables["payments"], tables["commitments"].set_index("commitment_id")
    faults = []
    for contract, part in payments.groupby("commitment_id"):
        if contract not in commitments.index:
            continue
        row = commitments.loc[contract]
        total = contract_total_usd(row)
        paid = part["usd"].sum() + row["upfront_paid_usd"]
        if abs(paid - total) > 0.005 * len(part) + 1e-6 * abs(total):
            first = int(part.index[0])
            faults.append(
                Fault(
                    "payments.csv",
                    first,
                    "usd",
                    f"{paid:,.2f}",
                    f"the payments of {contract}, with what was paid at signing, must sum to the contract's {total:,.2f} USD",
                    "Correct the schedule or the contract's price.",
                )
            )
    return faults


def contract_total_usd(commitment: pd.Series) -> float:
    """Return a signed contract's whole price: machines x price x hours from its first to its last day."""
    hours = (commitment["end"] - commitment["start"] + pd.Timedelta(days=1)) / pd.Timedelta(hours=1)
    return float(commitment["machines"] * commitment["usd_per_hour"] * hours)


def check_training_runs(runs: pd.DataFrame) -> list[Fault]:
    """Parameters and tokens are counted in units; a number of billions is no run."""
    faults = []
    for name, (least, unit, words) in LEAST_COUNTS.items():
        small = runs[name] < least
        for value in runs.loc[small, name].unique():
            remedy = f"Was it typed in {words}? Then write {value * unit:.6g}."
            faults += _rows(
                "training_runs",
                runs,
                small & (runs[name] == value),
                name,
                f"must be counted in units, {least:,.0f} or more",
                remedy,
                shown=1,
            )
    return faults


def check_tables(tables: Tables, known: Tables) -> list[Fault]:
    """Check all rules between tables; see `check_references` for the arguments."""
    faults = check_references(tables, known)
    if "usage" in tables:
        faults += check_usage_times(tables["usage"])
    if "offers" in tables:
        faults += check_offers(tables["offers"])
    if "training_runs" in tables:
        faults += check_training_runs(tables["training_runs"])
    return faults + check_work(tables) + check_payments(tables)
