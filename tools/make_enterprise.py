"""Make the generated tables of data/enterprise: usage, other costs and the billing export of the invented company.

Run it with `python tools/make_enterprise.py`; the same seed gives the same bytes. The small tables of the book (workloads, contracts, quotations,
limits, ...) are kept by hand and are read here, so that the bill follows from contracts, prices and usage.

What the shapes follow (figures measured on the public traces, hour by hour):

- ServeGen m-large, 14 days (arXiv 2505.09999): peak over mean 1.86, 99th percentile over mean 1.82, trough over mean 0.30; the mean day runs from
  0.79 to 1.14 of its mean, daily totals from 0.54 to 1.43; around day and hour the logarithm has a standard deviation of 0.24 with a lag-1
  correlation of 0.70.
- ServeGen m-small, 14 days: peak over mean 2.06, 99th percentile 1.89; the mean day runs from 0.66 to 1.46.
- Microsoft Philly, accelerators in use, 10 October to 15 December 2017: peak over mean 2.30, standard deviation over mean 0.47, correlation from
  hour to hour 0.976; weekdays from 0.79 (Monday) to 1.13 (Thursday), hours of the day between 0.97 and 1.06.

Served traffic is level x growth x hour of the day x day of the week x autocorrelated noise x holiday dip. Batch work is level x growth x day of the
week x slow autocorrelated noise; what exceeds the team's share of the fleet waits in a queue and runs later, what exceeds the serving capacity of a
region is refused. `queued_quantity` is the queue at the end of the hour.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

BOOK = Path(__file__).resolve().parents[1] / "data" / "enterprise"
SEED = 20261201
FIRST, LAST = "2025-11-01", "2026-11-30"
HOURS_PER_YEAR = 8760
BILLED_MONTHS = ("2026-09", "2026-10", "2026-11")
LAST_COST_MONTH = "2029-01"
#: Monday to Sunday. Serving: a working week with daily totals inside ServeGen's band; batch: Philly.
SERVING_WEEK = (1.06, 1.08, 1.07, 1.06, 1.03, 0.85, 0.85)
BATCH_WEEK = (0.79, 0.98, 1.04, 1.13, 1.11, 1.08, 0.83)


@dataclass(frozen=True)
class Series:
    """One workload in one region.

    Parameters
    ----------
    level
        Mean work an hour in the last weeks, in the workload's unit.
    growth_per_year
        Factor by which the level grew in the year before.
    peak_hour
        Hour of the day (UTC) of the peak of served traffic.
    swing, second_swing
        Amplitudes of the daily and the half-daily wave.
    week
        Factors from Monday to Sunday.
    noise, memory
        Standard deviation of the logarithm around the pattern, and its correlation from hour to hour.
    cap
        Work an hour that can be done at most.
    queues
        Does work beyond the cap wait and run later, or is it refused?
    digits
        Decimals that are kept.
    """

    workload: str
    region: str
    level: float
    growth_per_year: float
    peak_hour: float = 0.0
    swing: float = 0.0
    second_swing: float = 0.0
    week: tuple[float, ...] = SERVING_WEEK
    noise: float = 0.16
    memory: float = 0.7
    cap: float = np.inf
    queues: bool = False
    digits: int = 0


def batch(workload: str, region: str, level: float, growth_per_year: float, cap_over_level: float) -> Series:
    """Describe a batch workload with Philly's week, variation and memory."""
    return Series(
        workload,
        region,
        level,
        growth_per_year,
        week=BATCH_WEEK,
        noise=0.447,
        memory=0.976,
        cap=cap_over_level * level,
        queues=True,
        digits=1,
    )


SERIES = (
    Series("chat", "us", 450_000, 1.60, peak_hour=18, swing=0.36, second_swing=0.06),
    Series("chat", "eu", 190_000, 1.80, peak_hour=12, swing=0.40, second_swing=0.07, cap=320_000),
    Series("drafts", "us", 260_000, 1.40, peak_hour=17, swing=0.44, second_swing=0.08, cap=490_000),
    Series("summaries", "any", 52_000, 1.55, peak_hour=17, swing=0.46, second_swing=0.08),
    Series("research", "any", 6_400, 1.90, peak_hour=16, swing=0.33, second_swing=0.05, noise=0.2),
    batch("data_prep", "any", 36, 1.25, 1.8),
    batch("pretraining", "us", 60, 1.20, 1.7),
    batch("alignment", "us", 40, 1.35, 1.7),
    batch("release", "us", 11, 1.15, 2.4),
    batch("tuning", "us", 32, 1.60, 1.7),
    batch("evaluation", "any", 22, 1.40, 1.9),
)


def red_noise(count: int, deviation: float, memory: float, random: np.random.Generator) -> np.ndarray:
    """Draw a first-order autoregression: x[t] = memory x[t-1] + e[t], with stationary standard deviation `deviation`."""
    shocks = random.standard_normal(count)
    values = np.empty(count)
    values[0] = shocks[0] * deviation
    scale = deviation * np.sqrt(1 - memory**2)
    for step in range(1, count):
        values[step] = memory * values[step - 1] + scale * shocks[step]
    return values


def run_with_queue(arriving: np.ndarray, cap: float) -> tuple[np.ndarray, np.ndarray]:
    """Run arriving work at no more than `cap` an hour; return what ran in each hour and what waits at its end."""
    ran, waiting = np.empty_like(arriving), np.empty_like(arriving)
    queue = 0.0
    for step, work in enumerate(arriving):
        ran[step] = min(queue + work, cap)
        queue += work - ran[step]
        waiting[step] = queue
    return ran, waiting


def daily_wave(series: Series, hour: np.ndarray) -> np.ndarray:
    """Return the factor of the hour of the day; its mean over a day is 1."""
    angle = 2 * np.pi * (hour - series.peak_hour) / 24
    return 1 + series.swing * np.cos(angle) + series.second_swing * np.cos(2 * angle)


def make_usage() -> pd.DataFrame:
    """Make the hourly usage of all series."""
    time = pd.date_range(FIRST, f"{LAST} 23:00", freq="h")
    hour, weekday = time.hour.to_numpy(), time.weekday.to_numpy()
    years_before_end = np.arange(len(time) - 1, -1, -1) / HOURS_PER_YEAR
    holidays = ((time.month == 12) & (time.day >= 22)) | ((time.month == 1) & (time.day <= 2))
    parts = []
    for number, series in enumerate(SERIES):
        random = np.random.default_rng([SEED, number])
        wave = daily_wave(series, hour) * np.asarray(series.week)[weekday]
        noise = np.exp(red_noise(len(time), series.noise, series.memory, random) - series.noise**2 / 2)
        wanted = series.level * series.growth_per_year**-years_before_end * wave * noise * np.where(holidays, 0.78, 1.0)
        served, unmet = (
            run_with_queue(wanted, series.cap)
            if series.queues
            else (np.minimum(wanted, series.cap), wanted - np.minimum(wanted, series.cap))
        )
        part = pd.DataFrame({"time": time.strftime("%Y-%m-%d %H:%M"), "workload": series.workload, "region": series.region})
        part["quantity"] = np.round(served, series.digits)
        unmet = pd.Series(np.round(unmet, series.digits)).replace(0.0, np.nan)
        part["queued_quantity"] = unmet if series.queues else np.nan
        part["refused_quantity"] = np.nan if series.queues else unmet
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def make_other_costs() -> pd.DataFrame:
    """Make the monthly costs beside accelerators, three months of history and the whole horizon."""
    lines = (
        ("object-storage", "storage", 61_000, 1.30, "data", "CC-510", "6310"),
        ("internet-egress", "egress", 21_500, 1.35, "assistant", "CC-410", "6320"),
        ("private-network", "network", 9_200, 1.00, "platform", "CC-530", "6320"),
        ("cloud-support", "support", 38_000, 1.10, "platform", "CC-530", "6330"),
        ("infrastructure-staff", "people", 318_000, 1.06, "platform", "CC-530", "5100"),
        ("monitoring-and-scheduler", "software", 27_000, 1.05, "platform", "CC-530", "6340"),
        ("human-evaluation", "evaluation", 19_000, 1.15, "research", "CC-520", "6350"),
    )
    months = pd.date_range(f"{BILLED_MONTHS[0]}-01", f"{LAST_COST_MONTH}-01", freq="MS", inclusive="left")
    rows = [
        (name, month.strftime("%Y-%m-%d"), kind, round(usd * yearly ** (step / 12), -2), team, center, account)
        for name, kind, usd, yearly, team, center, account in lines
        for step, month in enumerate(months)
    ]
    return pd.DataFrame(rows, columns=["cost_id", "month", "kind", "usd", "team", "cost_center", "account"])


def needed_accelerators(usage: pd.DataFrame, speeds: pd.DataFrame, workloads: list[str], region: str | None, accelerator: str) -> pd.Series:
    """Return the accelerators of a kind that an hour's usage of some workloads keeps busy, by hour."""
    speed = speeds[speeds["accelerator"] == accelerator].set_index("workload")["work_per_accelerator_hour"]
    chosen = usage[usage["workload"].isin(workloads) & ((usage["region"] == region) if region else True)]
    return (chosen["quantity"] / chosen["workload"].map(speed)).groupby(chosen["time"]).sum()


class Bill:
    """Rows of a billing export, collected one by one."""

    def __init__(self, month: str) -> None:
        self.month, self.rows = f"{month}-01", list[dict[str, object]]()

    def add(self, provider: str, service: str, region: str, sku: str, usd: float, effective: float | None = None, **kind: object) -> None:
        """Add one charge; a prepaid one is effective without being billed."""
        row = {"charge_category": "Usage", "pricing_category": "Standard", "commitment_status": "none", "list_cost": usd, **kind}
        self.rows.append(
            {
                "month": self.month,
                "provider": provider,
                "service": service,
                "account": "quillmere-production",
                "region": region,
                "sku": sku,
                "currency": "USD",
                "billed_cost": round(usd, 2),
                "effective_cost": round(usd if effective is None else effective, 2),
                **row,
            }
        )


def api_prices(services: pd.DataFrame) -> dict[str, float]:
    """Return the price of one request of every workload that calls an API, from the public price list."""
    from genai_prices import Usage, calc_price

    prices = {}
    for row in services[services["provider"].notna()].itertuples():
        cached = round(row.input_tokens * row.cached_share)
        used = Usage(input_tokens=int(row.input_tokens), cache_read_tokens=cached, output_tokens=int(row.output_tokens))
        when = pd.Timestamp(f"{LAST} 12:00", tz="UTC").to_pydatetime()
        prices[row.workload] = float(
            calc_price(used, model_ref=row.model, provider_id=row.provider, genai_request_timestamp=when).total_price
        )
    return prices


def make_billing(usage: pd.DataFrame, other_costs: pd.DataFrame, book: Path) -> pd.DataFrame:
    """Make the billing export of the last three months from contracts, prices and usage.

    Accelerators of the United States are filled in this order: own machines, the savings plan, spot (batch work that may be interrupted, at most 48),
    on demand. Europe: the reserved machines, then on demand. The L40S under contract in the United States serve
    drafts, and the rest of drafts runs on demand; those in Europe run batch work that may be interrupted.
    """
    speeds = pd.read_csv(book / "speeds.csv")
    contracts = pd.read_csv(book / "commitments.csv").set_index("commitment_id")
    site = pd.read_csv(book / "sites.csv").iloc[0]
    discount = pd.read_csv(book / "spend_agreements.csv")["discount_share"].iloc[0]
    offers = pd.read_csv(book.parent / "reference" / "offers.csv").set_index("offer_id")["usd_per_hour"]
    api = api_prices(pd.read_csv(book / "services.csv"))
    interruptible = ["data_prep", "tuning", "evaluation"]
    steady = ["pretraining", "alignment", "release"]
    bills = []
    for month in BILLED_MONTHS:
        bill = Bill(month)
        now = usage[usage["time"].str.startswith(month)]
        hours = now["time"].nunique()
        prepaid = contracts.loc["aws-l40s-eu-3y"]
        on_l40s = prepaid["machines"] * speeds.set_index(["workload", "accelerator"])["work_per_accelerator_hour"]["data_prep", "L40S"]
        flexible = (needed_accelerators(now, speeds, interruptible, None, "H100") - on_l40s).clip(lower=0)
        load = needed_accelerators(now, speeds, ["chat", *steady], "us", "H100") + flexible
        own = 8 * pd.read_csv(book / "assets.csv")["machines"].sum()
        after_own = (load - own).clip(lower=0)
        plan = contracts.loc["aws-p5-savings-plan-3y"]
        covered = after_own.clip(upper=8 * plan["machines"])
        rest = after_own - covered
        spot = np.minimum(np.minimum(rest, flexible), 48)
        cost = plan["machines"] * plan["usd_per_hour"] * hours
        share = float(covered.sum()) / (8 * plan["machines"] * hours)
        bill.add("aws", "Amazon EC2", "us-east-1", "p5.48xlarge", cost * share, pricing_category="Committed", commitment_status="Used")
        bill.add(
            "aws", "Amazon EC2", "us-east-1", "p5.48xlarge", cost * (1 - share), pricing_category="Committed", commitment_status="Unused"
        )
        for label, machine_hours, offer in (
            ("Dynamic", float(spot.sum()) / 8, "aws-p5.48xlarge-us-east-1-spot"),
            ("Standard", float((rest - spot).sum()) / 8, "aws-p5.48xlarge-us-east-1-on-demand"),
        ):
            usd = machine_hours * offers[offer]
            bill.add(
                "aws", "Amazon EC2", "us-east-1", "p5.48xlarge", usd * (1 - discount), pricing_category=label, list_cost=usd,
                quantity=round(machine_hours, 1), quantity_unit="Hours",
            )  # fmt: skip
        europe = needed_accelerators(now, speeds, ["chat"], "eu", "H100")
        reserved = contracts.loc["nebius-h100-eu-1y"]
        beyond = float((europe - 8 * reserved["machines"]).clip(lower=0).sum()) / 8
        usd = beyond * offers["aws-p5.48xlarge-eu-north-1-on-demand"]
        bill.add(
            "aws",
            "Amazon EC2",
            "eu-north-1",
            "p5.48xlarge",
            usd * (1 - discount),
            list_cost=usd,
            quantity=round(beyond, 1),
            quantity_unit="Hours",
        )
        amortised = reserved["machines"] * reserved["usd_per_hour"] * hours
        for payment in pd.read_csv(book / "payments.csv").query("commitment_id == 'nebius-h100-eu-1y'").itertuples():
            if payment.date.startswith(month):
                bill.add(
                    "nebius",
                    "Compute",
                    "eu-north1",
                    reserved["sku"],
                    payment.usd,
                    0.0,
                    charge_category="Purchase",
                    pricing_category="Committed",
                )
        bill.add(
            "nebius",
            "Compute",
            "eu-north1",
            reserved["sku"],
            0.0,
            amortised,
            pricing_category="Committed",
            commitment_status="Used",
            list_cost=amortised,
        )
        l40s = contracts.loc["aws-l40s-us-1y"]
        bill.add(
            "aws",
            "Amazon EC2",
            "us-east-1",
            "g6e.xlarge",
            l40s["machines"] * l40s["usd_per_hour"] * hours,
            pricing_category="Committed",
            commitment_status="Used",
        )
        beyond = float((needed_accelerators(now, speeds, ["drafts"], "us", "L40S") - l40s["machines"]).clip(lower=0).sum())
        usd = beyond * offers["aws-g6e.xlarge-us-east-1-on-demand"]
        bill.add(
            "aws",
            "Amazon EC2",
            "us-east-1",
            "g6e.xlarge",
            usd * (1 - discount),
            list_cost=usd,
            quantity=round(beyond, 1),
            quantity_unit="Hours",
        )
        bill.add(
            "aws", "Amazon EC2", "eu-north-1", "g6e.xlarge", 0.0, prepaid["machines"] * prepaid["usd_per_hour"] * hours, pricing_category="Committed",
            commitment_status="Used", list_cost=prepaid["machines"] * offers["aws-g6e.xlarge-eu-north-1-on-demand"] * hours,
        )  # fmt: skip
        block = contracts.loc["aws-p5-block"]
        if month == BILLED_MONTHS[-1]:
            usd = block["upfront_paid_usd"]
            bill.add("aws", "Amazon EC2", "us-east-1", "p5.48xlarge", usd, 0.0, charge_category="Purchase", pricing_category="Committed")
        for workload, provider, service in (("summaries", "anthropic", "Claude API"), ("research", "openai", "OpenAI API")):
            requests = now.loc[now["workload"] == workload, "quantity"].sum()
            bill.add(provider, service, "none", workload, requests * api[workload], quantity=requests, quantity_unit="Requests")
        bill.add("ashburn-colocation", "Space and power", "ashburn", "committed-kw", site["committed_kw"] * site["usd_per_kw_month"])
        energy = own / 8 * 10.2 * site["pue"] * hours * site["usd_per_kwh"]
        bill.add(
            "ashburn-colocation", "Electricity", "ashburn", "kwh", energy, quantity=round(energy / site["usd_per_kwh"]), quantity_unit="kWh"
        )
        for name, service in (
            ("object-storage", "Amazon S3"),
            ("internet-egress", "Data transfer"),
            ("private-network", "Direct Connect"),
            ("cloud-support", "Support"),
        ):
            line = other_costs[(other_costs["cost_id"] == name) & (other_costs["month"] == bill.month)]
            bill.add("aws", service, "us-east-1", "none", float(line["usd"].iloc[0]))
        bills.append(pd.DataFrame(bill.rows))
    columns = [
        *(
            "month",
            "provider",
            "service",
            "account",
            "region",
            "sku",
            "charge_category",
            "pricing_category",
            "commitment_status",
            "currency",
        ),
        *("billed_cost", "effective_cost", "list_cost", "quantity", "quantity_unit"),
    ]
    frame = pd.concat(bills, ignore_index=True).reindex(columns=columns)
    frame["list_cost"] = frame["list_cost"].astype(float).round(2)
    return frame.sort_values(columns[:10], ignore_index=True)


def main(book: Path = BOOK, source: Path = BOOK) -> None:
    """Write the generated tables into `book`, from the hand-kept tables of `source`."""
    usage, other_costs = make_usage(), make_other_costs()
    tables = {"usage": usage, "other_costs": other_costs, "billing": make_billing(usage, other_costs, source)}
    for name, frame in tables.items():
        text = frame.to_csv(index=False, float_format="%.12g", lineterminator="\n")
        (book / f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{name}.csv: {len(frame)} rows\n")


if __name__ == "__main__":
    main()
