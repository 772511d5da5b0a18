"""The billing export of the invented company: three months that follow from its contracts, its prices and its usage.

The machines of the United States are filled in this order: own ones, those of the savings plan, spot (batch work that may be interrupted,
at most `SPOT_ACCELERATORS`),
on demand. In Europe the reserved machines come first, then on demand. The L40S under contract in the United States serve drafts,
and what is left of drafts runs on demand; those in Europe run batch work that may be interrupted.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SPOT_ACCELERATORS = 48
INTERRUPTIBLE = ["data_prep", "tuning", "evaluation"]
STEADY = ["chat", "pretraining", "alignment", "release"]
API_SERVICES = {"summaries": ("anthropic", "Claude API"), "research": ("openai", "OpenAI API")}
AWS_SERVICES = {
    "object-storage": "Amazon S3",
    "internet-egress": "Data transfer",
    "private-network": "Direct Connect",
    "cloud-support": "Support",
}
KEY = ["month", "provider", "service", "account", "region", "sku", "charge_category", "pricing_category", "commitment_status", "currency"]
LIST_OFFERS = {
    "aws-p5-savings-plan-3y": "aws-p5.48xlarge-us-east-1-on-demand",
    "aws-l40s-us-1y": "aws-g6e.xlarge-us-east-1-on-demand",
    "aws-l40s-eu-3y": "aws-g6e.xlarge-eu-north-1-on-demand",
    "nebius-h100-eu-1y": "nebius-h100-8x-eu-north1-on-demand",
}
AMOUNTS = ["billed_cost", "effective_cost", "list_cost", "quantity", "quantity_unit"]


class Company:
    """What the bill follows from: the hand-kept tables of the book and the reference prices."""

    def __init__(self, book: Path) -> None:
        self.contracts = pd.read_csv(book / "commitments.csv").set_index("commitment_id")
        self.payments = pd.read_csv(book / "payments.csv")
        self.speeds = pd.read_csv(book / "speeds.csv").set_index(["workload", "accelerator"])["work_per_accelerator_hour"]
        self.services = pd.read_csv(book / "services.csv")
        self.site = pd.read_csv(book / "sites.csv").iloc[0]
        self.discount = pd.read_csv(book / "spend_agreements.csv")["discount_share"].iloc[0]
        sheets = [pd.read_csv(file) for file in sorted((book.parent / "reference" / "prices").glob("*.csv"))]
        self.price = pd.concat(sheets).set_index("offer_id")["usd_per_hour"]
        machines = pd.read_csv(book / "assets.csv").merge(pd.read_csv(book.parent / "reference" / "skus.csv"), on="sku")
        self.own_accelerators = int((machines["machines"] * machines["accelerator_count"]).sum())
        self.own_kw = float((machines["machines"] * machines["power_kw"]).sum())

    def needed(self, usage: pd.DataFrame, workloads: list[str], region: str | None, accelerator: str) -> pd.Series:
        """Return the accelerators of a kind that the usage of some workloads keeps busy, by hour."""
        chosen = usage[usage["workload"].isin(workloads) & ((usage["region"] == region) if region else True)]
        speed = chosen["workload"].map(self.speeds.xs(accelerator, level="accelerator"))
        return (chosen["quantity"] / speed).groupby(chosen["time"]).sum()

    def request_price(self, workload: str, day: str) -> float:
        """Return the price of one request of a workload that calls an API, from the public price list."""
        from genai_prices import Usage, calc_price

        row = self.services.set_index("workload").loc[workload]
        used = Usage(
            input_tokens=int(row["input_tokens"]),
            cache_read_tokens=round(row["input_tokens"] * row["cached_share"]),
            output_tokens=int(row["output_tokens"]),
        )
        when = pd.Timestamp(f"{day} 12:00", tz="UTC").to_pydatetime()
        found = calc_price(used, model_ref=row["model"], provider_id=row["provider"], genai_request_timestamp=when)
        return float(found.total_price)


class Month:
    """The charges of one month, collected one by one."""

    def __init__(self, company: Company, month: str, usage: pd.DataFrame, other_costs: pd.DataFrame) -> None:
        self.company, self.month = company, month
        self.usage = usage[usage["time"].str.startswith(month)]
        self.hours = self.usage["time"].nunique()
        self.other_costs = other_costs[other_costs["month"] == f"{month}-01"].set_index("cost_id")["usd"]
        self.rows: list[dict[str, object]] = []

    def charge(
        self, provider: str, service: str, region: str, sku: str, billed: float, effective: float | None = None, **more: object
    ) -> None:
        """Add one charge; what is prepaid is effective without being billed, and billed without being effective when it is paid."""
        plain = {"charge_category": "Usage", "pricing_category": "Standard", "commitment_status": "none", "list_cost": billed}
        where = {"month": f"{self.month}-01", "provider": provider, "service": service, "account": "quillmere-production"}
        costs = {"billed_cost": billed, "effective_cost": billed if effective is None else effective}
        self.rows.append({**where, "region": region, "sku": sku, "currency": "USD", **costs, **plain, **more})

    def metered(self, sku: str, region: str, machine_hours: float, offer: str, pricing: str = "Standard") -> None:
        """Add machine hours at a list price, less the discount of the spend agreement."""
        usd = machine_hours * self.company.price[offer]
        more = {"pricing_category": pricing, "list_cost": usd, "quantity": round(machine_hours, 1), "quantity_unit": "Hours"}
        self.charge("aws", "Amazon EC2", region, sku, usd * (1 - self.company.discount), **more)

    def term(self, contract: str, provider: str, service: str, share: float = 1.0, *, prepaid: bool = False, unused: bool = False) -> None:
        """Add the month's part of a contract."""
        row = self.company.contracts.loc[contract]
        machine_hours = row["machines"] * self.hours * share
        usd, listed = machine_hours * row["usd_per_hour"], machine_hours * self.company.price[LIST_OFFERS[contract]]
        status = {"pricing_category": "Committed", "commitment_status": "Unused" if unused else "Used", "list_cost": listed}
        self.charge(provider, service, row["region"], row["sku"], 0.0 if prepaid else usd, usd, **status)

    def purchase(self, contract: str, provider: str, service: str, usd: float) -> None:
        """Add a payment for a contract whose cost is effective at other times."""
        row = self.company.contracts.loc[contract]
        self.charge(provider, service, row["region"], row["sku"], usd, 0.0, charge_category="Purchase", pricing_category="Committed")

    def united_states(self) -> None:
        """Bill the H100 of the United States and the L40S everywhere."""
        company, accelerators = self.company, 8
        europe_l40s = company.contracts.loc["aws-l40s-eu-3y", "machines"] * company.speeds["data_prep", "L40S"]
        flexible = (company.needed(self.usage, INTERRUPTIBLE, None, "H100") - europe_l40s).clip(lower=0)
        beyond_own = (company.needed(self.usage, STEADY, "us", "H100") + flexible - company.own_accelerators).clip(lower=0)
        planned = accelerators * company.contracts.loc["aws-p5-savings-plan-3y", "machines"]
        covered = beyond_own.clip(upper=planned)
        spot = (beyond_own - covered).clip(upper=flexible).clip(upper=SPOT_ACCELERATORS)
        on_demand = beyond_own - covered - spot
        used_share = float(covered.mean()) / planned
        self.term("aws-p5-savings-plan-3y", "aws", "Amazon EC2", used_share)
        self.term("aws-p5-savings-plan-3y", "aws", "Amazon EC2", 1 - used_share, unused=True)
        self.metered("p5.48xlarge", "us-east-1", float(spot.sum()) / accelerators, "aws-p5.48xlarge-us-east-1-spot", "Dynamic")
        self.metered("p5.48xlarge", "us-east-1", float(on_demand.sum()) / accelerators, "aws-p5.48xlarge-us-east-1-on-demand")
        self.term("aws-l40s-us-1y", "aws", "Amazon EC2")
        drafts = company.needed(self.usage, ["drafts"], "us", "L40S") - company.contracts.loc["aws-l40s-us-1y", "machines"]
        self.metered("g6e.xlarge", "us-east-1", float(drafts.clip(lower=0).sum()), "aws-g6e.xlarge-us-east-1-on-demand")
        self.term("aws-l40s-eu-3y", "aws", "Amazon EC2", prepaid=True)

    def europe(self) -> None:
        """Bill the H100 of Europe."""
        reserved = 8 * self.company.contracts.loc["nebius-h100-eu-1y", "machines"]
        beyond = (self.company.needed(self.usage, ["chat"], "eu", "H100") - reserved).clip(lower=0)
        self.metered("p5.48xlarge", "eu-north-1", float(beyond.sum()) / 8, "aws-p5.48xlarge-eu-north-1-on-demand")
        self.term("nebius-h100-eu-1y", "nebius", "Compute", prepaid=True)
        paid = self.company.payments
        for usd in paid.loc[(paid["commitment_id"] == "nebius-h100-eu-1y") & paid["date"].str.startswith(self.month), "usd"]:
            self.purchase("nebius-h100-eu-1y", "nebius", "Compute", usd)

    def everything_else(self) -> None:
        """Bill the APIs, the room and its power, and the services beside accelerators."""
        site = self.company.site
        for workload, (provider, service) in API_SERVICES.items():
            requests = self.usage.loc[self.usage["workload"] == workload, "quantity"].sum()
            usd = requests * self.company.request_price(workload, f"{self.month}-15")
            self.charge(provider, service, "none", workload, usd, quantity=requests, quantity_unit="Requests")
        self.charge("ashburn-colocation", "Space and power", "ashburn", "committed-kw", site["committed_kw"] * site["usd_per_kw_month"])
        kwh = self.company.own_kw * site["pue"] * self.hours
        self.charge(
            "ashburn-colocation", "Electricity", "ashburn", "kwh", kwh * site["usd_per_kwh"], quantity=round(kwh), quantity_unit="kWh"
        )
        for cost, service in AWS_SERVICES.items():
            self.charge("aws", service, "us-east-1", "none", float(self.other_costs[cost]))


def make_billing(usage: pd.DataFrame, other_costs: pd.DataFrame, book: Path, months: tuple[str, ...]) -> pd.DataFrame:
    """Make the billing export of some months.

    Parameters
    ----------
    usage, other_costs
        The generated tables; times and months as text.
    book
        Folder with the hand-kept tables of the book.
    months
        Billed months, like 2026-09; the capacity block is paid in the last one.
    """
    company, rows = Company(book), list[dict[str, object]]()
    for name in months:
        month = Month(company, name, usage, other_costs)
        month.united_states()
        month.europe()
        month.everything_else()
        if name == months[-1]:
            month.purchase("aws-p5-block", "aws", "Amazon EC2", company.contracts.loc["aws-p5-block", "upfront_paid_usd"])
        rows += month.rows
    frame = pd.DataFrame(rows).reindex(columns=[*KEY, *AMOUNTS])
    cents = ["billed_cost", "effective_cost", "list_cost"]
    frame[cents] = frame[cents].astype(float).round(2)
    return frame.sort_values(KEY, ignore_index=True)
