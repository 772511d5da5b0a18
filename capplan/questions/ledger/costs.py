"""Every kind of cost as ledger entries: contracts, purchases, usage, tokens, machines, rooms and other costs."""

from dataclasses import replace

import pandas as pd

from capplan.book.currencies import rates_by_month
from capplan.book.rules import contract_total_usd
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.contracts import HOURS_OF_SUPPORT
from capplan.questions.ledger.schedules import HOURS_PER_DAY, Bearer, Contract, Entry, as_incurred, machine_entries, month_end, month_shares
from capplan.questions.ledger.unit_prices import BY_USE, OWN, STATED, Prices, Row, price_of_use, purchase_name
from capplan.questions.pricing import escalated, owned_running_usd_per_hour
from capplan.records import records
from capplan.units import HOURS_PER_YEAR, add_months, quarter_end, quarter_start

MONTHS_PER_YEAR = 12
#: What is billed by use without hours of its own.
MOVED = ("egress",)
#: Other costs that are paid in their own month, without an invoice.
PAID_AT_ONCE = ("people",)
#: What is no longer paid for machines that are given back.
LEFT_EARLY = "left_early"


def _bearer(row: Row | pd.Series) -> Bearer:
    """Return who bears the cost of a row."""
    return Bearer(str(row["team"]), str(row["cost_center"]))


def contracts_to_book(
    commitments: pd.DataFrame, payments: pd.DataFrame, providers: pd.Series, prices: Prices, a: LedgerAssumptions
) -> list[Contract]:
    """Return contracts that are signed already.

    Args:
        commitments, payments: The tables of these names, contracts as `signed` returns them.
        a: What was paid upfront was paid before `as_of`, at the latest the day before.

    Raises:
        CapplanError: Listing every contract whose payments do not add up, that ends before it starts, or whose notice is due after its end.
    """
    found, faults = [], []
    for row in records(commitments):
        usd = row["machines"] * row["usd_per_hour"] * (row["over"] - row["start"]).days * HOURS_PER_DAY
        own = payments[payments["commitment_id"] == row["commitment_id"]].sort_values("date")
        before = pd.Timestamp(a.as_of) - pd.Timedelta(days=1)
        contract = Contract(
            contract_id=row["name"],
            component="commitment",
            provider=str(providers.get(row["sku"], "")),
            first=row["start"],
            last=row["end"],
            usd=usd,
            upfront_usd=row["upfront_paid_usd"],
            upfront_on=min(row["start"], before),
            payments=tuple(zip(own["date"], own["usd"], strict=True)),
            bearer=_bearer(row),
            price=prices.of(f"contract {row['name']}"),
        )
        faults += [fault for fault in (contract.fault(),) if fault]
        if pd.notna(row["notice_date"]) and row["notice_date"] > row["end"]:
            faults.append(
                f"{row['commitment_id']}: notice is due on {row['notice_date']:%Y-%m-%d}, after the contract's end on {row['end']:%Y-%m-%d}"
            )
        found.append(contract)
    unknown = sorted(set(payments["commitment_id"]) - set(commitments["commitment_id"]))
    faults += [f"payments.csv names the contract {name}, which commitments.csv does not have" for name in unknown]
    if faults:
        raise CapplanError("contracts that cannot be booked: " + "; ".join(faults))
    return found


def departure_entries(departures: pd.DataFrame, commitments: pd.DataFrame, assets: pd.DataFrame, a: LedgerAssumptions) -> list[Entry]:
    """Take off what is no longer paid for machines of signed contracts that are given back, and book what giving them back costs or brings.

    Args:
        departures: contract_id, provider, day, machines, not_owed_usd, exit_usd, firm of the plan.
        commitments, assets: What `signed` and `owned` return; what was prepaid of it is written off on the day.
    """
    found: list[Entry] = []
    held, own = commitments.set_index("name"), assets.set_index("name")
    for row in records(departures):
        if row["contract_id"] in own.index:
            found += _sale_entries(row, own.loc[row["contract_id"]], a)
            continue
        about, name, status = held.loc[row["contract_id"]], str(row["contract_id"]), "firm" if row["firm"] else "indicative"
        bearer, provider = _bearer(about), str(row["provider"])
        rate = row["machines"] * about["usd_per_hour"] * HOURS_PER_DAY
        left = float(rate * (about["over"] - row["day"]).days)
        prepaid = min(float(about["upfront_paid_usd"]) / contract_total_usd(about), 1.0) if about["usd_per_hour"] > 0 else 0.0
        gone = Contract(name, LEFT_EARLY, provider, row["day"], about["end"], -left * (1 - prepaid), status=status, bearer=bearer)
        found += gone.entries(a.payment_terms_days)
        written_off = Entry(row["day"], "p_and_l", LEFT_EARLY, name, left * prepaid, status, provider, bearer=bearer)
        if left * prepaid:
            found.append(written_off)
            found += [
                replace(written_off, date=month, quantity=-left * prepaid * share)
                for month, share in month_shares(row["day"], about["end"])
            ]
        exit_cost = Entry(row["day"], "", "exit_cost", name, float(row["exit_usd"]), status, "", bearer=bearer)
        found += as_incurred(exit_cost, a.payment_terms_days) if row["exit_usd"] else []
    return found


def _sale_entries(row: Row, asset: pd.Series, a: LedgerAssumptions) -> list[Entry]:
    """Book machines owned that are sold: their book value goes, what they bring comes, and their support and electricity fall away."""
    name, status, day = str(row["contract_id"]), "firm" if row["firm"] else "indicative", row["day"]
    bearer, provider, last = _bearer(asset), "own", asset["over"] - pd.Timedelta(days=1)
    price = asset["capex_usd"] * row["machines"] / asset["machines"]
    rest = price * asset["residual_share"]
    book = (price - rest) * (asset["over"] - day).days / (asset["over"] - asset["start"]).days
    brings = rest - float(row["exit_usd"])
    blank = Entry(day, "", "residual", name, -brings, status, provider, bearer=bearer)
    found = [replace(blank, view=view) for view in ("billed", "cash")]
    found += [replace(blank, view=view, date=last, quantity=rest) for view in ("billed", "cash") if rest]
    found.append(replace(blank, view="p_and_l", component="depreciation", quantity=book + rest - brings))
    for month, share in month_shares(day, last):
        found.append(replace(blank, date=month, view="p_and_l", component="depreciation", quantity=-book * share))
    years = (asset["over"] - day) / pd.Timedelta(hours=1) / HOURS_OF_SUPPORT
    support = float(asset["support_usd_per_year"] * row["machines"] / asset["machines"] * years)
    for component, usd in ((LEFT_EARLY, support), ("power", float(row["not_owed_usd"]) - support)):
        found += Contract(name, component, provider, day, last, -usd, status=status, bearer=bearer).entries(a.payment_terms_days)
    return found


def purchase_entries(
    purchases: pd.DataFrame,
    offer_payments: pd.DataFrame,
    bearers: dict[str, list[tuple[Bearer, float]]],
    machines: pd.DataFrame,
    sites: pd.DataFrame,
    prices: Prices,
    a: LedgerAssumptions,
) -> list[Entry]:
    """Book what the plan buys, each purchase by the shares of the teams that use it.

    Args:
        purchases: offer_id, provider, term, quarter, end_quarter, upfront_usd, usd (whole contract, upfront part included), sign_by, firm;
            `signed_on` where a signature comes later than it should, and `starts` and `ends` where service does not begin and end with the
            quarters.
        offer_payments: The table of this name: offers that are paid by a schedule.
        bearers: Teams and their shares by purchase (see `purchase_name`).
        machines, sites: The tables skus and sites: power and space of owned machines follow the prices of their site.
    """
    found: list[Entry] = []
    as_of = pd.Timestamp(a.as_of)
    for row in records(purchases):
        name, status = purchase_name(row), "firm" if row["firm"] else "indicative"
        first = row["starts"] if pd.notna(row.get("starts")) else quarter_start(str(row["quarter"]))
        last = row["ends"] if pd.notna(row.get("ends")) else quarter_end(str(row["end_quarter"])) - pd.Timedelta(days=1)
        known = next((row[name] for name in ("signed_on", "sign_by") if pd.notna(row.get(name))), first)
        signed = max(as_of, known)
        running = _running_usd(row, first, last, machines, sites, a) if row["term"] == "owned" else {}
        for bearer, share in bearers.get(name, [(Bearer(), 1.0)]):
            upfront, usd = row["upfront_usd"] * share, row["usd"] * share
            if row["term"] == "owned":
                price = prices.of(f"machine {name}")
                blank = Entry(signed, "", "capex", name, price.units(upfront), status, str(row["provider"]), bearer=bearer, price=price)
                found += machine_entries(blank, first, a.useful_life_years, a.residual_share) if upfront else []
                for component, usd_by_month in running.items():
                    price = prices.of(f"{component} {name}")
                    for month, amount in usd_by_month.items():
                        entry = replace(blank, date=month, component=component, quantity=price.units(amount * share), price=price)
                        found += as_incurred(entry, a.payment_terms_days) if amount else []
            else:
                own = offer_payments[offer_payments["offer_id"] == row["offer_id"]].sort_values("months_after_start")
                dated = tuple(
                    (add_months(first, months), usd * part) for months, part in zip(own["months_after_start"], own["share"], strict=True)
                )
                provider, price = str(row["provider"]), prices.of(f"offer {name}")
                contract = Contract(name, "purchase", provider, first, last, usd, upfront, signed, dated, status, bearer, price)
                found += contract.entries(a.payment_terms_days)
    return found


def _running_usd(
    row: Row, first: pd.Timestamp, last: pd.Timestamp, machines: pd.DataFrame, sites: pd.DataFrame, a: LedgerAssumptions
) -> dict[str, pd.Series]:
    """Return what a machine bought costs by month: its upkeep (support), and power and space as its site's prices rise (running)."""
    shares = pd.Series(dict(month_shares(first, last)))
    months, site = pd.DatetimeIndex(shares.index), pd.Series([row["region"]])
    power = pd.Series([float(machines.set_index("sku")["power_kw"].get(row["sku"], 0.0) if len(machines) else 0.0) * row["machines"]])
    hourly = float(owned_running_usd_per_hour(power.fillna(0.0), power * 0.0, site, a, sites).iloc[0])
    rise = float(site.map(sites.set_index("site")["escalator_share_per_year"]).fillna(0.0).iloc[0]) if len(sites) else 0.0
    hours = shares * (last - first + pd.Timedelta(days=1)).days * HOURS_PER_DAY
    if a.hours_convention != "calendar":
        hours = hours / (months.days_in_month.to_numpy() * HOURS_PER_DAY) * HOURS_PER_YEAR / MONTHS_PER_YEAR
    upkeep = row["upfront_usd"] * a.upkeep_share_per_year / HOURS_PER_YEAR * hours
    drawn = hourly * hours * escalated(rise, months, pd.Timestamp(a.as_of))
    # What an offer states beside power and upkeep, evenly by the hour.
    stated = row["usd"] - row["upfront_usd"] - drawn.sum() - upkeep.sum()
    return {"running": drawn + stated * hours / hours.sum(), "support": upkeep}


def usage_entries(
    dispatch: pd.DataFrame, bearers: dict[str, list[tuple[Bearer, float]]], prices: Prices, a: LedgerAssumptions
) -> list[Entry]:
    """Book compute that is paid by use, month by month with the hours of each, by the shares of a class's teams.

    Args:
        dispatch: quarter, class, source, provider, expected_usd; only sources that somebody invoices are booked.
        bearers: Teams and their shares by class.
    """
    found: list[Entry] = []
    billed = dispatch[dispatch["source"].isin([*BY_USE, *MOVED])]
    for row in records(billed):
        label, price = str(row["quarter"]), prices.of(price_of_use(row))
        for month, part in month_shares(quarter_start(label), quarter_end(label) - pd.Timedelta(days=1)):
            for bearer, share in bearers.get(str(row["class"]), [(Bearer(), 1.0)]):
                name, usd = f"{row['source']} {row['class']}", row["expected_usd"] * part * share
                about = str(row["source"]), name, price.units(usd), "expected", str(row["provider"])
                found += as_incurred(Entry(month, "", *about, bearer=bearer, price=price), a.payment_terms_days)
    return found


def late_entries(costs: pd.DataFrame, a: LedgerAssumptions) -> list[Entry]:
    """Take off what is expected not to be paid for machines that come late: contracts are booked from the day they are to start.

    Args:
        costs: path, probability, quarter, component, usd: the cost table of a purchase plan.
    """
    late = costs[costs["component"] == "late_delivery"]
    saved = (late["probability"] * late["usd"]).groupby(late["quarter"]).sum()
    found: list[Entry] = []
    for quarter, usd in saved[saved != 0].items():
        found += as_incurred(
            Entry(quarter_start(str(quarter)), "", "late_delivery", "late deliveries", float(usd), "expected", ""), a.payment_terms_days
        )
    return found


def token_entries(spend: pd.DataFrame, workloads: pd.DataFrame, prices: Prices, a: LedgerAssumptions) -> list[Entry]:
    """Book what API-only workloads spend (see `request_prices.api_spend`)."""
    about = workloads.set_index("workload")
    found: list[Entry] = []
    for row in records(spend):
        workload = str(row["workload"])
        price = prices.of(f"tokens {workload} {row['provider']}")
        said = "tokens", f"tokens {workload}", price.units(row["usd"]), "expected", str(row["provider"])
        entry = Entry(row["month"], "", *said, bearer=_bearer(about.loc[workload]), price=price)
        found += as_incurred(entry, a.payment_terms_days)
    return found


def asset_entries(assets: pd.DataFrame, a: LedgerAssumptions) -> list[Entry]:
    """Book machines owned (see `owned`) over their lives, and their support."""
    found: list[Entry] = []
    for row in records(assets):
        bearer, name, start, life = _bearer(row), row["name"], row["start"], row["useful_life_years"]
        price = Entry(start, "", "capex", name, row["capex_usd"], "signed", "own", bearer=bearer)
        found += machine_entries(price, start, life, row["residual_share"])
        if row["support_usd_per_year"]:
            for month, share in month_shares(start, row["over"] - pd.Timedelta(days=1)):
                usd = row["support_usd_per_year"] * share * (row["over"] - start).days / 365.25
                found += as_incurred(Entry(month, "", "support", name, usd, "signed", "own", bearer=bearer), a.payment_terms_days)
    return found


def site_entries(
    sites: pd.DataFrame,
    assets: pd.DataFrame,
    skus: pd.DataFrame,
    purchases: pd.DataFrame,
    months: pd.DatetimeIndex,
    prices: Prices,
    a: LedgerAssumptions,
) -> list[Entry]:
    r"""Book rooms and the power of machines that are owned already.

    .. math:: \text{space} = p\,\max(C - B, U), \qquad \text{power} = U \cdot \text{PUE} \cdot e \cdot h

    with C committed kilowatts, U those of machines in service, and B those of machines the plan buys, whose running cost holds their own
    space and power.
    Prices rise by the site's escalator at each anniversary of `as_of`. The space that machines do not fill is borne by all (shared).
    Committed space is
    booked to the end of the site's contract, also beyond the horizon; power only as far as is planned.

    Args:
        sites, skus: The tables of these names; machines draw the power_kw of their SKU at full load.
        assets: What `owned` returns.
        months: First days of the months that are planned.
    """
    power = skus.set_index("sku")["power_kw"] if len(skus) else pd.Series(dtype=float)
    found: list[Entry] = []
    for site in records(sites):
        here, name = records(assets[assets["site"] == site["site"]]), str(site["site"])
        power_price, space_price = prices.of(f"power {name}"), prices.of(f"space {name}")
        bought = purchases[(purchases["term"] == "owned") & (purchases["region"] == site["site"])] if len(purchases) else purchases
        over = months[-1] if pd.isna(site["end"]) else site["end"]
        for month in pd.date_range(months[0], over, freq="MS"):
            rise = float(escalated(site["escalator_share_per_year"], pd.DatetimeIndex([month]), pd.Timestamp(a.as_of))[0])
            hours = month.days_in_month * HOURS_PER_DAY if a.hours_convention == "calendar" else HOURS_PER_YEAR / MONTHS_PER_YEAR
            used = 0.0
            for asset in here:
                if not asset["start"] <= month_end(month) or month >= asset["over"]:
                    continue
                kilowatts = float(power.get(asset["sku"], float("nan"))) * asset["machines"]
                if pd.isna(kilowatts):
                    raise CapplanError(
                        f"assets: {asset['name']} needs the power of its sku {asset['sku']}; state power_kw in the table skus"
                    )
                used += kilowatts
                drawn = kilowatts * site["pue"] * site["usd_per_kwh"] * rise * hours
                about = name, power_price.units(drawn), "signed", "own"
                blank = Entry(month, "", "power", *about, bearer=_bearer(asset), price=power_price)
                found += as_incurred(blank, a.payment_terms_days) if month <= months[-1] else []
                filled = space_price.units(kilowatts * site["usd_per_kw_month"] * rise)
                found += as_incurred(replace(blank, component="space", price=space_price, quantity=filled), a.payment_terms_days)
            new = sum(
                float(power.get(row["sku"], 0.0)) * row["machines"]
                for row in records(bought)
                if quarter_start(str(row["quarter"])) <= month < quarter_end(str(row["end_quarter"]))
            )
            idle = max(site["committed_kw"] - new - used, 0.0) * site["usd_per_kw_month"] * rise
            if idle:
                unfilled = Entry(month, "", "space", name, space_price.units(idle), "signed", "own", price=space_price)
                found += as_incurred(unfilled, a.payment_terms_days)
    return found


def other_entries(other_costs: pd.DataFrame, months: pd.DatetimeIndex, a: LedgerAssumptions, fx: pd.DataFrame) -> list[Entry]:
    """Book other costs as stated, and after their last month at its amount where `hold_other_costs` says so.

    What is agreed in a currency of its own is booked at the rate of each view's month, so that its amount in that currency stays the same.
    """
    found: list[Entry] = []
    for _, lines in other_costs.sort_values(["cost_id", "month"]).groupby("cost_id", sort=True):
        rows = records(lines)
        held = [{**rows[-1], "month": month} for month in months if month > rows[-1]["month"]] if a.hold_other_costs else []
        for row in (*rows, *held):
            provider = "" if pd.isna(row["provider"]) else str(row["provider"])
            entry = Entry(
                row["month"], "", str(row["kind"]), str(row["cost_id"]), row["usd"], "stated", provider, str(row["account"]), _bearer(row)
            )
            booked = as_incurred(entry, a.payment_terms_days)
            if row["kind"] in PAID_AT_ONCE:
                booked[-1] = replace(booked[-1], date=row["month"])
            if pd.notna(row["currency"]):
                dates = pd.Series([each.date.replace(day=1) for each in booked])
                agreed = OWN if row["currency"] == a.currency != "USD" else STATED
                rates = rates_by_month(dates, str(row["currency"]), fx)
                amount = float(row["amount"])
                booked = [
                    replace(each, quantity=amount, price=agreed, factor=float(rate)) for each, rate in zip(booked, rates, strict=True)
                ]
            found += booked
    return found
