"""View of serving: fleets by the hour, the busiest day replayed, levers before hardware, latency budgets, loaded cost."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.answers.serving import serving_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.serving import Serving
from capplan.questions.serving.staffing import held_seconds
from capplan.records import word_list
from capplan.text import money, number_text, words

#: What the sliders move, most telling first: the first three move the fleet's peak, the others what levers, warm starts and rules save.
FIELDS = word_list(
    "headroom_share spare_replicas target_factor burst_factor prompt_cache_share semantic_cache_share quantised_precision"
    " cold_start_seconds warm_replicas admission_rule quota_accelerators route_share cascade_escalation_share output_cut_share draft_tokens"
    " serving_workload serving_accelerator"
)
HOURS_PER_WEEK = 168
MONTHS_PER_FOUR_WEEKS = 28 / (365.25 / 12)
COMPONENT_NAMES = {"busy": "Accelerators at work", "headroom": "Headroom", "spare": "Spare replicas", "api": "API"}


@once
def show_serving(book: Book, scenario: Scenario) -> View:
    """Show how many accelerators serve the traffic within its latency target, and what can be saved before hardware."""
    book = book.with_changes(scenario.changes)
    answer, notes = serving_of(book, scenario)
    one = answer.hosted[answer.workload]
    pictures = {
        "fleet": _fleet(answer),
        "burst": _burst(answer, scenario),
        "formulas": _formulas(answer, scenario),
        "policies": _policies(answer),
        **({"levers": _levers(answer), "levers_alone": _levers_alone(answer)} if answer.levers.base_usd > 0 else {}),
        **({"latency": _latency(answer)} if len(answer.budget.surfaces) else {}),
        **({"cost": _cost(answer)} if answer.features["usd_per_thousand_requests"].notna().any() else {}),
    }
    table = _table(answer)
    details = {
        "hours": one.hours,
        "choices": pd.concat([item.choices.assign(workload=name) for name, item in answer.hosted.items()], ignore_index=True),
        "policies": answer.policies,
        "replayed_hours": answer.replay.hours,
        "formulas": answer.bursts,
        "levers": answer.levers.table,
        "latency_parts": answer.budget.parts,
        "surfaces": answer.budget.surfaces,
        "costs": answer.costs,
        "features": answer.features,
        "speeds": answer.speeds,
    }
    peak = float(one.hours["accelerators"].max())
    return View(answer.headline, pictures, table, peak, "accelerators", FIELDS, (*book.notes, *notes, *answer.notes), details, telling=3)


def _table(answer: Serving) -> pd.DataFrame:
    """List every served workload: its fleet where it is hosted, and what it costs in all."""
    hours = [
        item.hours.assign(workload=name, accelerator=item.point["accelerator"], basis=item.point["basis"])
        for name, item in answer.hosted.items()
    ]
    fleets = pd.concat(hours, ignore_index=True).groupby(["workload", "accelerator", "basis"], as_index=False)
    table = fleets.agg(
        peak_accelerators=("accelerators", "max"),
        mean_accelerators=("accelerators", "mean"),
        peak_accelerators_upper=("accelerators_upper", "max"),
        busy_share=("busy_share", "mean"),
    )
    units = ["usd_per_thousand_requests", "usd_per_million_tokens"]
    costs = answer.costs.groupby("workload", as_index=False)[["usd", *units]].sum(min_count=1)
    costs = costs.rename(columns={name: f"cost_{name}" for name in units})
    costs["cost_usd_per_month"] = costs.pop("usd") / MONTHS_PER_FOUR_WEEKS
    table = table.merge(costs, on="workload", how="outer").sort_values("cost_usd_per_month", ascending=False, ignore_index=True)
    return table.fillna({"accelerator": "API", "basis": "price list"})


def _fleet(answer: Serving) -> Any:
    """Draw the accelerators needed in each hour of the busiest week."""
    one = answer.hosted[answer.workload]
    hours = one.hours
    length = min(HOURS_PER_WEEK, len(hours))
    sums = hours["requests"].rolling(length).sum()
    last = int(sums.idxmax()) + 1
    week = hours.iloc[last - length : last].reset_index(drop=True)
    week = week.assign(hour_of_week=np.arange(len(week), dtype=float), low=week["accelerators"], high=week["accelerators_upper"])
    name, least, most = one.point["accelerator"], int(week["accelerators"].min()), int(week["accelerators"].max())
    return charts.curve(
        week,
        title=f"{answer.workload} needs {least:,} to {most:,} {name} within its busiest week",
        subtitle=(
            f"Line: {one.point['basis']} throughput; shade: if latency lies at the upper end of its band. Headroom and spare replicas"
            " included"
        ),
        across=charts.Axis("Hours from the start of the week", "h", "hour_of_week"),
        up=charts.Axis(f"{name} needed", "accelerators", "accelerators", steps=True),
    )


def _burst(answer: Serving, scenario: Scenario) -> Any:
    """Draw what the planned fleet does on the busiest day with the burst."""
    one = answer.hosted[answer.workload]
    point, minutes = one.point, answer.replay.minutes
    width, held = int(point["accelerators"]), held_seconds(point, float(one.service["output_tokens"]))
    hours = minutes["minute"] / 60.0
    lines = {
        "At work for the requests that come": minutes["arrivals_per_second"] * held / int(point["concurrency"]) * width,
        "Paid for: serving, starting, warm": minutes["paid_replicas"] * width,
    }
    data = pd.concat(
        [pd.DataFrame({"hour": hours, "accelerators": values, "series": name}) for name, values in lines.items()], ignore_index=True
    )
    data = data[data["hour"] * 60 % 4 == 0]
    shed = answer.replay.shed_share
    lost = f", {shed:.1%} refused" if shed > 0.0005 else ""
    return charts.curve(
        data,
        series="series",
        title=(
            f"A burst of {scenario.burst_factor:g} times at {scenario.burst_hour}:00: {answer.replay.slo_share:.1%} of the day's requests"
            f" are answered in time{lost}"
        ),
        subtitle=(
            f"Busiest day of {answer.workload} in {answer.region}, replayed; a new replica takes {scenario.cold_start_seconds:g} s to start"
        ),
        across=charts.Axis("Time of day", "h", "hour"),
        up=charts.Axis(f"{point['accelerator']}", "accelerators", "accelerators"),
    )


def _formulas(answer: Serving, scenario: Scenario) -> Any:
    """Draw what the queueing formulas promise of the busiest hour with a burst, and what a simulation finds."""
    table = answer.bursts
    wrong = table[~table["valid"]]
    title = "The queueing formulas hold for every burst drawn here"
    if len(wrong):
        first = wrong.iloc[0]
        title = (
            f"At a burst of {first['burst_factor']:.3g} times, the queueing formulas promise {first['formula_share']:.0%} in time "
            f"and a simulation finds {first['simulated_share']:.0%}"
        )
    lines = {"Promised by the formulas": "formula_share", "Simulated": "simulated_share"}
    data = pd.concat([table[["burst_factor"]].assign(share=table[name], series=label) for label, name in lines.items()], ignore_index=True)
    return charts.curve(
        data,
        series="series",
        title=title,
        subtitle=(
            f"Busiest hour of {answer.workload} in {answer.region} with a burst of {scenario.burst_minutes:g} minutes; the fleet stays as"
            " it is, and the formulas see the hour's mean"
        ),
        across=charts.Axis("Traffic in the burst over that of the hour", "factor", "burst_factor"),
        up=charts.Axis("Requests answered in time", "share", "share"),
    )


def _policies(answer: Serving) -> Any:
    """Compare the ways to run the fleet on that day."""
    policies = answer.policies
    planned, fixed = policies.iloc[-1], policies.iloc[0]
    saved = 1 - planned["accelerator_hours"] / fixed["accelerator_hours"]
    verb = f"saves {saved:.0%} of" if saved >= 0 else f"adds {-saved:.0%} to"
    data = pd.DataFrame(
        {
            "label": [
                f"{row.policy}: {number_text(row.accelerator_hours, 'accelerators')} accelerator-hours" for row in policies.itertuples()
            ],
            "value": 1 - policies["slo_share"],
        }
    )
    return charts.bars(
        data,
        title=f"Following the hours and reacting {verb} the accelerator-hours of a fleet fixed at its peak",
        subtitle="The same requests of that day under each policy; a request sent to the smaller model counts as answered in time",
        axis=charts.Axis("Requests late or refused", "share"),
    )


def _levers(answer: Serving) -> Any:
    """Bridge the bill of today to the one with all levers, a month."""
    levers = answer.levers
    used = levers.table[levers.table["used"]]
    rows = [
        ("Fleet by the hour", levers.base_usd, "total"),
        *((row.lever, row.step_usd, "change") for row in used.itertuples()),
        ("All levers", levers.together_usd, "total"),
    ]
    data = pd.DataFrame(rows, columns=["label", "value", "kind"])
    data["value"] /= MONTHS_PER_FOUR_WEEKS
    return charts.waterfall(
        data,
        title=f"Levers before hardware save {1 - levers.together_usd / levers.base_usd:.0%} of the bill together",
        subtitle=(
            f"{answer.workload} in {answer.region}, a month; each step is what a lever adds to those left of it, less than it would save"
            " alone"
        ),
        axis=charts.Axis("Accelerators by the hour", "USD"),
    )


def _levers_alone(answer: Serving) -> Any:
    """Rank what each lever saves alone, beside what all save together."""
    levers = answer.levers
    table = levers.table.sort_values("saving_share", ascending=False)
    together = 1 - levers.together_usd / levers.base_usd
    summed = float(table.loc[table["used"], "saving_share"].sum())
    return charts.bars(
        pd.DataFrame({"label": [f"{row.lever}: {row.setting}" for row in table.itertuples()], "value": table["saving_share"].to_numpy()}),
        title=f"The levers' single savings add up to {summed:.0%}; together they save {together:.0%}",
        subtitle=(
            "Share of the bill that each lever saves alone; one in use already saves no more, and below zero it costs more than it saves"
            " and is left off"
        ),
        axis=charts.Axis("Saved alone", "share"),
        reference=together,
        reference_text="All together",
    )


def _latency(answer: Serving) -> Any:
    """Draw where the time of each surface goes, as a share of its target."""
    surfaces = answer.budget.surfaces.set_index("surface")
    parts = answer.budget.parts[answer.budget.parts["target_share"] > 0.002]
    parts = parts.sort_values("inside", kind="stable")
    labels = {name: f"{name}: {row['seconds']:.2g} s, {row['target_seconds']:g} s allowed" for name, row in surfaces.iterrows()}
    data = parts.assign(label=parts["surface"].map(labels), value=parts["target_share"], part=parts["part"].map(words))
    shares = " or ".join(f"{share:.0%}" for share in sorted(set(surfaces["target_share"])))
    title = answer.budget.headline.split(";")[0].rstrip(".")
    return charts.bars(
        data,
        part="part",
        title=title,
        subtitle=f"Mean time of each part as a share of the target; the label says within which time {shares} of requests are answered",
        axis=charts.Axis("Share of the target", "share"),
        reference=1.0,
        reference_text="Target",
    )


def _cost(answer: Serving) -> Any:
    """Draw the loaded cost of a thousand requests by feature."""
    features = answer.features.dropna(subset=["usd_per_thousand_requests"])
    requests = features.set_index("feature")["requests"]
    parts = answer.costs[answer.costs["feature"].isin(features["feature"])].groupby(["feature", "component"], as_index=False)["usd"].sum()
    parts["value"] = 1e3 * parts["usd"] / parts["feature"].map(requests)
    parts["part"] = parts["component"].map(lambda name: COMPONENT_NAMES.get(name, "Other costs"))
    order = features.sort_values("usd_per_thousand_requests", ascending=False)["feature"].tolist()
    parts = parts.groupby(["feature", "part"], as_index=False)["value"].sum()
    rank = [*COMPONENT_NAMES.values(), "Other costs"]
    parts = parts.sort_values(by=["feature", "part"], key=lambda column: column.map((order if column.name == "feature" else rank).index))
    dearest, total = features.sort_values("usd_per_thousand_requests").iloc[-1], float(features["usd"].sum()) / MONTHS_PER_FOUR_WEEKS
    return charts.bars(
        parts.rename(columns={"feature": "label"}),
        part="part",
        title=(
            f"A thousand requests of {dearest['feature']} cost {money(float(dearest['usd_per_thousand_requests']))}; all served features"
            f" {money(total)} a month"
        ),
        subtitle=(
            "Fully loaded: accelerators at list or quoted price by the hour, API, and the share of people, network, software and support"
        ),
        axis=charts.Axis("Cost of a thousand requests", "USD/1000 requests"),
    )
