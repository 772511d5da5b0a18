"""The accepted plan against the bill: what moved spend, how well the forecast held, and what follows."""

from dataclasses import dataclass

import pandas as pd

from capplan.book.accepted import AcceptedPlan
from capplan.book.currencies import rates_by_month
from capplan.book.scenario import ReviewAssumptions
from capplan.errors import CapplanError
from capplan.questions.ledger.bill import sorted_bill
from capplan.questions.review.accuracy import accuracy_by_workload, forecast_accuracy, held_against, measured_work
from capplan.questions.review.bridge import CENT_SHARE, DRIVERS, variance_bridge
from capplan.questions.review.capacity_requests import judge_requests
from capplan.questions.review.flags import work_flags
from capplan.questions.review.run_costs import hour_rates, run_costs
from capplan.questions.review.scoreboard import attributed, chargeback, rate_card, unit_economics
from capplan.questions.review.spend_rows import spend_of_bill
from capplan.questions.review.vendors import vendor_register
from capplan.questions.review.what_came import prices_that_came, work_that_came
from capplan.text import counted, money


@dataclass(frozen=True)
class Review:
    """An accepted plan held against what came.

    Args:
        bridge: driver, meaning, amount: from planned spend (first row) to what was billed (last row); the steps add up to the cent.
        variance: month, driver, provider, accelerator, contract_id, workload, team, amount (see `bridge.variance_bridge`): any sum of it is
            a bridge.
        spend: month, provider, planned, actual, difference.
        accuracy: Month by month (see `accuracy.forecast_accuracy`).
        forecast: By workload (see `accuracy.accuracy_by_workload`).
        economics, charged, rates, hour_rates: What a unit of each workload cost and whether it earns that, what each team bears, and what
            work and an accelerator-hour are charged at (see `scoreboard` and `run_costs`).
        vendors: Who is depended on, and what that may cost (see `vendors.vendor_register`).
        requests: Requests for capacity, answered (see `capacity_requests.judge_requests`).
        flags: What runs worse than it should (see `flags.work_flags`).
        runs: What each training run cost (see `run_costs.run_costs`).
        work_came, prices_came: What came in the terms of the plan's inputs (see `what_came`).
        months: Months that were reviewed, first to last.
        headline, notes: One sentence; what was derived, left out or could not be told.
    """

    bridge: pd.DataFrame
    variance: pd.DataFrame
    spend: pd.DataFrame
    accuracy: pd.DataFrame
    forecast: pd.DataFrame
    economics: pd.DataFrame
    charged: pd.DataFrame
    rates: pd.DataFrame
    hour_rates: pd.DataFrame
    vendors: pd.DataFrame
    requests: pd.DataFrame
    flags: pd.DataFrame
    runs: pd.DataFrame
    work_came: pd.DataFrame
    prices_came: pd.DataFrame
    months: tuple[pd.Timestamp, ...]
    headline: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Came:
    """What came since: the book's tables of these names, checked; other_costs and sites say what a charge that is no machine stands for."""

    billing: pd.DataFrame
    usage: pd.DataFrame
    workloads: pd.DataFrame
    commitments: pd.DataFrame
    skus: pd.DataFrame
    offers: pd.DataFrame
    sites: pd.DataFrame
    other_costs: pd.DataFrame
    services: pd.DataFrame
    api_contracts: pd.DataFrame
    capacity_requests: pd.DataFrame
    jobs: pd.DataFrame
    training_runs: pd.DataFrame
    scaling_runs: pd.DataFrame
    spend_agreements: pd.DataFrame
    fx: pd.DataFrame


def review_plan(plan: AcceptedPlan, came: Came, a: ReviewAssumptions) -> Review:
    r"""Hold an accepted plan against what was billed and used since.

    .. math:: \text{billed} = \text{planned} + \sum_d \Delta_d

    Whole months only: those that the plan planned, the bill holds, and that have ended.

    Args:
        plan, came: What was planned, and what came.

    Raises:
        CapplanError: If no month of the bill was planned; or its currency has no rate.
    """
    planned = plan.spend
    until = came.usage["time"].max() + pd.Timedelta(hours=1) if len(came.usage) else None
    months, notes = _months(planned, came.billing, until)
    bill = came.billing[came.billing["month"].isin(months)].reset_index(drop=True)
    bill = sorted_bill(_in_currency(bill, came.fx, plan), came.commitments, came.skus, came.sites, came.other_costs, came.fx)
    actual, told = spend_of_bill(bill, came.skus, came.offers, came.spend_agreements)
    planned = planned[planned["month"].isin(months)]
    compared = held_against(plan.work, measured_work(came.usage, until), until) if until is not None else _nothing(plan.work)
    work, teams = _by_class(compared, plan.work), _teams(came.workloads)
    variance = variance_bridge(planned, actual, work, _list_prices(came, plan))
    variance["team"] = variance["workload"].map(teams).fillna("")
    shares = attributed(planned, variance)
    worth = came.workloads.assign(value_usd_per_unit=came.workloads["value_usd_per_unit"] / _usd_rate(plan, came.fx))
    economics, charged = unit_economics(shares, work, worth, a), chargeback(shares, teams)
    after = months[-1] + pd.DateOffset(months=1)
    ahead = plan.spend[plan.spend["month"] >= after]
    held = came.commitments.assign(provider=came.commitments["sku"].map(came.skus.set_index("sku")["provider"]))
    used = came.usage[came.usage["time"].between(months[0], after, inclusive="left")]
    accuracy = forecast_accuracy(compared, a)
    bridge = bridge_table(planned, actual, variance)
    runs, untold = run_costs(came.jobs, came.training_runs, came.workloads, actual, months)
    return Review(
        bridge=bridge,
        variance=variance,
        spend=spend_table(planned, actual),
        accuracy=accuracy,
        forecast=accuracy_by_workload(accuracy),
        economics=economics,
        charged=charged,
        rates=rate_card(economics, charged),
        hour_rates=hour_rates(actual),
        vendors=vendor_register(ahead, {**vars(came), "commitments": held, "usage": used}, after, plan.currency, a),
        requests=judge_requests(came.capacity_requests, _request_prices(came), a),
        flags=work_flags(came.jobs, came.usage, came.workloads, came.scaling_runs, a),
        runs=runs,
        work_came=work_that_came(plan.work, compared),
        prices_came=prices_that_came(planned, actual),
        months=tuple(months),
        headline=_headline(bridge, accuracy, months, plan.currency, a),
        notes=(*notes, *told, *untold),
    )


def _months(planned: pd.DataFrame, billing: pd.DataFrame, until: pd.Timestamp | None) -> tuple[list[pd.Timestamp], list[str]]:
    """Return the months that can be reviewed, and say which cannot."""
    mine, theirs = set(planned["month"]), set(billing["month"])
    open_month, last_day = _unfinished(billing)
    notes = []
    if open_month in mine & theirs:
        theirs.remove(open_month)
        notes.append(f"{open_month:%Y-%m} has not ended in the bill (its last charge starts on {last_day:%Y-%m-%d}): it is left out.")
    if not mine & theirs:
        first, last = (f"{min(months):%Y-%m} to {max(months):%Y-%m}" if months else "no month" for months in (mine, theirs))
        raise CapplanError(
            " ".join([f"nothing to review: the plan holds {first}, the bill {last}.", *notes])
            + " Ingest the bills since the plan was accepted (capplan ingest"
            " focus FILE --into BOOK), or name another plan with --plan"
        )
    months = sorted(mine & theirs)
    if until is not None and months[-1] + pd.DateOffset(months=1) > until:
        if months[:-1]:
            notes.append(f"{months[-1]:%Y-%m} has not ended in the measured usage (which ends on {until:%Y-%m-%d}): it is left out.")
            months = months[:-1]
        else:
            notes.append(
                f"{months[-1]:%Y-%m} has not ended in the measured usage (which ends on {until:%Y-%m-%d}): its work is not compared."
            )
    gap = [month for month in pd.date_range(months[0], months[-1], freq="MS") if month not in months]
    if gap:
        notes.append(f"The bill has nothing for {', '.join(f'{month:%Y-%m}' for month in gap)}: left out.")
    return months, notes


def _unfinished(billing: pd.DataFrame) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the last month of a bill whose charges end before it does, and the day of the last one; NaT where it has ended.

    A month of which all charges start on its first day is billed by the month.
    """
    month = billing["month"].max()
    last = billing.loc[billing["month"] == month, "charged_until"].max()
    ends = month + pd.offsets.MonthEnd(0) if pd.notna(month) else month
    return (month, last) if pd.notna(last) and month < last.normalize() < ends else (pd.NaT, pd.NaT)


def _in_currency(bill: pd.DataFrame, fx: pd.DataFrame, plan: AcceptedPlan) -> pd.DataFrame:
    """Add amounts in the plan's currency at the rates of each month and at those of the plan's day, and the cost at list in US dollars."""
    bill = bill.assign(amount=bill["effective_cost"], amount_at_plan_rates=bill["effective_cost"], list_usd=bill["list_cost"])
    then = pd.Series(plan.as_of.replace(day=1), index=bill.index, dtype="datetime64[ns]")
    for currency, part in bill.groupby("currency"):
        own = rates_by_month(part["month"], str(currency), fx)
        bill.loc[part.index, "list_usd"] = part["list_cost"] * own
        if currency == plan.currency:
            continue
        ours = rates_by_month(part["month"], plan.currency, fx)
        before = rates_by_month(then[part.index], str(currency), fx) / rates_by_month(then[part.index], plan.currency, fx)
        bill.loc[part.index, "amount"] = part["effective_cost"] * own / ours
        bill.loc[part.index, "amount_at_plan_rates"] = part["effective_cost"] * before
    return bill


def _nothing(work: pd.DataFrame) -> pd.DataFrame:
    return work.head(0).rename(columns={"expected": "planned"}).assign(actual=pd.Series(dtype=float))


def _by_class(compared: pd.DataFrame, work: pd.DataFrame) -> pd.DataFrame:
    """Sum work up by class, which is what the plan's rows are tagged with."""
    classes = dict(zip(work["workload"], work["class"], strict=True))
    names = [classes.get(name, name) for name in compared["workload"]]
    return compared.assign(workload=names).groupby(["month", "workload"], as_index=False)[["planned", "actual"]].sum()


def _teams(workloads: pd.DataFrame) -> dict[str, str]:
    """Return the team of each class of work and workload; classes of several teams have none."""
    named = workloads.assign(label=workloads["work_class"].fillna(workloads["workload"]))
    shared = named.groupby("label")["team"].agg(lambda teams: teams.iloc[0] if teams.nunique() == 1 else "")
    return {**named.set_index("workload")["team"].to_dict(), **shared.to_dict()}


def _request_prices(came: Came) -> dict[str, float]:
    """Return the least price on demand of an hour of each accelerator in US dollars; of any accelerator under the empty name."""
    priced = came.offers[came.offers["term"] == "on_demand"].merge(came.skus[["sku", "accelerator", "accelerator_count"]], on="sku")
    each = (priced["usd_per_hour"] / priced["accelerator_count"]).groupby(priced["accelerator"]).min().to_dict()
    return {**each, "": min(each.values(), default=float("nan"))}


def _usd_rate(plan: AcceptedPlan, fx: pd.DataFrame) -> float:
    """Return US dollars for one unit of the plan's currency on its day."""
    return float(rates_by_month(pd.Series([plan.as_of.replace(day=1)], dtype="datetime64[ns]"), plan.currency, fx).iloc[0])


def _list_prices(came: Came, plan: AcceptedPlan) -> dict[tuple[str, str], float]:
    """Return the least list price of an accelerator-hour on demand by provider and accelerator, in the plan's currency at its day."""
    priced = came.offers[came.offers["term"] == "on_demand"].merge(
        came.skus[["sku", "provider", "accelerator", "accelerator_count"]], on="sku"
    )
    each = (priced["usd_per_hour"] / priced["accelerator_count"]).groupby([priced["provider"], priced["accelerator"]]).min()
    rate = _usd_rate(plan, came.fx)
    return {(str(provider), str(accelerator)): float(usd) / rate for (provider, accelerator), usd in each.items()}


def bridge_table(planned: pd.DataFrame, actual: pd.DataFrame, variance: pd.DataFrame) -> pd.DataFrame:
    """Return the bridge: driver, meaning, amount; drivers that moved nothing are left out."""
    sums = variance.groupby("driver")["amount"].sum()
    steps = [(driver, words, float(sums[driver])) for driver, words in DRIVERS.items() if abs(sums.get(driver, 0.0)) >= CENT_SHARE]
    start, end = float(planned["amount"].sum()), float(actual["amount"].sum())
    return pd.DataFrame([("planned", "planned", start), *steps, ("billed", "billed", end)], columns=["driver", "meaning", "amount"])


def spend_table(planned: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Return spend by month and provider: month, provider, planned, actual, difference."""
    sums = {name: frame.groupby(["month", "provider"])["amount"].sum() for name, frame in (("planned", planned), ("actual", actual))}
    table = pd.DataFrame(sums).fillna(0.0).rename_axis(["month", "provider"]).reset_index()
    return table.assign(difference=table["actual"] - table["planned"])


def span(months: tuple[pd.Timestamp, ...]) -> str:
    """Name a row of months."""
    return f"{months[0]:%Y-%m}" if len(months) == 1 else f"{months[0]:%Y-%m} to {months[-1]:%Y-%m}"


def _headline(bridge: pd.DataFrame, accuracy: pd.DataFrame, months: list[pd.Timestamp], currency: str, a: ReviewAssumptions) -> str:
    """Say like against like what was billed, what moved it, and how the forecast held."""
    steps = bridge.iloc[1:-1]
    silent = float(steps.loc[steps["driver"] == "not_billed", "amount"].sum())
    start, end = float(bridge["amount"].iloc[0]) + silent, float(bridge["amount"].iloc[-1])
    moved = steps[steps["driver"] != "not_billed"]
    told = moved[moved["amount"].abs() >= a.worth_a_word_share * abs(start)].sort_values("amount", key=abs, ascending=False).head(4)
    parts = ", ".join(f"{row.meaning} {money(row.amount, currency, signed=True)}" for row in told.itertuples())
    share = f" ({(end - start) / start:+.1%})" if start else ""
    because = f": {parts}" if parts else ""
    rest = f" {money(-silent, currency)} more were planned that no bill holds." if silent else ""
    held = (
        f" Of {counted(len(accuracy), 'forecast')} of a month's work {int(accuracy['inside'].sum())} held within the 90 % band."
        if len(accuracy)
        else ""
    )
    moved_by = f"{money(end - start, currency, signed=True)}{share}"
    return f"{span(tuple(months))}: {money(end, currency)} billed, {moved_by} against the plan{because}.{rest}{held}"
