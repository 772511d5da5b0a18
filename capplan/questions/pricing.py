"""Pricing: what an accelerator-hour really costs."""

import numpy as np
import pandas as pd

from capplan.book.scenario import PricingAssumptions
from capplan.book.tables.registry import columns_of
from capplan.contract_kinds import TERM_MONTHS, USAGE_TERMS
from capplan.errors import CapplanError, nearest
from capplan.questions.reliability import useful_share
from capplan.units import HOURS_PER_AVERAGE_MONTH, HOURS_PER_YEAR


def completed(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Add the optional columns of a table that a frame lacks, and fill empty cells with the column's default.

    Args:
        frame: Rows with at least the table's required columns.

    Raises:
        CapplanError: If a required column is missing.
    """
    known = columns_of(table)
    missing = [item.name for item in known if not item.optional and item.name not in frame.columns]
    if missing:
        raise CapplanError(
            f"the table {table} lacks the column {missing[0]}; found {', '.join(map(str, frame.columns)) or 'none'}. Add the column."
        )
    result = frame.reset_index(drop=True)
    columns = {}
    for item in known:
        found = values = result[item.name] if item.name in result.columns else None
        if values is None:
            kind = "object" if item.kind == "str" else item.kind
            empty = pd.NaT if item.kind.startswith("datetime") else (None if item.kind == "str" else np.nan)
            filled = [empty if item.default is None else item.default] * len(result)
            values = pd.Series(filled, index=result.index, dtype=kind if item.default is not None else None)
        elif item.default is not None and values.isna().any():
            values = values.astype(object).where(values.notna(), item.default).infer_objects()
        if item.kind == "float64" and values.dtype != "float64":
            values = values.astype(float)
        elif item.kind.startswith("datetime") and values.dtype != item.kind:
            values = pd.to_datetime(values)
        if values is not found:
            columns[item.name] = values
    return result.assign(**columns) if columns else result


def annuity_years(years: float | np.ndarray, rate_per_year: float) -> float | np.ndarray:
    r"""Present value of one dollar a year, paid evenly over some years.

    .. math:: a(T) = \int_0^T (1+r)^{-t} dt = \frac{1 - (1+r)^{-T}}{\ln(1+r)}

    Examples:
        >>> annuity_years(3.0, 0.0), round(float(annuity_years(1.0, 0.09)), 4)
        (3.0, 0.9581)
    """
    if rate_per_year == 0:
        return years
    return -np.expm1(-np.log1p(rate_per_year) * years) / np.log1p(rate_per_year)


def price_hours(
    skus: pd.DataFrame,
    offers: pd.DataFrame,
    a: PricingAssumptions,
    sites: pd.DataFrame | None = None,
    offer_payments: pd.DataFrame | None = None,
) -> pd.DataFrame:
    r"""Price an accelerator-hour of each offer as it really costs: all in, discounted, per useful hour.

    .. math:: p_\text{effective} = \frac{U + (1-s)\,P\,h\,a(T)}{n\,h\,a(T)\,g},\qquad
              p_\text{owned} = \frac{X - X\rho(1+r)^{-T}}{n\,h\,a(T)} + \frac{R}{n}

    with U = s P h T the part paid at signing (s the `upfront_share`; shares that are due later by a schedule count at their value at the
    start, and nothing then recurs), P the price of a machine-hour, n accelerators in it, h hours of a
    year, a(T) the
    `annuity_years` of the term, g the useful share of a paid hour, X the purchase price, rho the residual share, and R = power x PUE +
    space + upkeep
    of an hour. For spot g is `capplan.questions.reliability.useful_share` with the work lost at each interruption; 1 otherwise.

    Args:
        skus (sku, provider, accelerator, accelerator_count, power_kw):
        sites (optional): PUE and prices where a machine one owns would stand; an owned offer's region names its site.
        offer_payments (optional): Table of offers that are paid by a schedule.

    Returns:
        DataFrame: One row an offer, in its order: offer_id, sku, provider, accelerator, accelerator_count, region, geography, term,
            term_months (empty for on demand and spot), machine_usd_per_hour (price of the whole machine; for owned ones its levelised
            cost), recurring_usd_per_hour (what a machine costs while it runs: the price less the part paid at signing; power, space and
            upkeep of owned ones), upfront_usd_per_machine, billed_usd_per_accelerator_hour (recurring only, as an invoice shows it),
            effective_usd_per_accelerator_hour (all in, discounted, per useful hour), useful_share, available_share (of what is asked for on
            demand; 1 for contracts and spot), interruptions_per_hour (of one machine), on_demand_usd_per_accelerator_hour (the cheapest of
            the same accelerator and geography; empty where there is none), break_even_share (utilisation from which the offer beats it: its
            price over that on demand), negotiated, quoted (a supplier holds the price still, of a contract or a machine), stale.

    Raises:
        CapplanError: Listing every offer with no price, no or a contradictory length, an unknown SKU, or no power figure.

    Source: FinOps Foundation, FOCUS specification, appendix on commitment discounts (billed and effective cost).
    """
    table = completed(offers, "offers")
    machines = completed(skus, "skus").set_index("sku")
    _refuse_unknown(table, machines)
    result = table[["offer_id", "sku", "region", "geography", "term"]].copy()
    for name in ("provider", "accelerator", "accelerator_count"):
        result[name] = table["sku"].map(machines[name])
    power_kw = table["sku"].map(machines["power_kw"]).astype(float)
    as_of = pd.Timestamp(a.as_of)
    live = table["negotiated_usd_per_hour"].notna() & ~(table["quote_expires"] < as_of)
    price = table["negotiated_usd_per_hour"].where(live, table["usd_per_hour"]) * a.price_factor
    months = _months(table, a)
    _refuse(table, price, months, power_kw)

    owned = table["term"] == "owned"
    years = months / 12
    weight = pd.Series(np.asarray(annuity_years(years.to_numpy(), a.discount_rate_per_year)), index=table.index)
    capex = table["capex_usd"].where(owned, 0.0) * a.price_factor
    running = owned_running_usd_per_hour(power_kw, capex, table["region"], a, sites)
    upfront = (table["upfront_share"] * price * months * HOURS_PER_AVERAGE_MONTH).fillna(0.0).where(~owned, capex)
    recurring = (price * (1 - table["upfront_share"].where(months.notna(), 0.0))).where(~owned, running)
    later = pd.Series(0.0, index=table.index)
    if offer_payments is not None and len(offer_payments):
        worth = offer_payments["share"] * (1 + a.discount_rate_per_year) ** (-offer_payments["months_after_start"] / 12)
        due = table["offer_id"].map(worth.groupby(offer_payments["offer_id"]).sum())
        recurring = recurring.mask(due.notna(), 0.0)
        later = (due * price * months * HOURS_PER_AVERAGE_MONTH).fillna(0.0)
    residual = capex * a.residual_share * (1 + a.discount_rate_per_year) ** -years.fillna(0.0)
    levelised = recurring + ((upfront + later - residual) / (weight * HOURS_PER_YEAR)).where(months.notna(), 0.0)
    interruptions = table["interruptions_per_hour"].fillna(a.spot_interruptions_per_hour).where(table["term"] == "spot", 0.0)
    useful = pd.Series(useful_share(interruptions.to_numpy(), a.restart_hours), index=table.index)
    _refuse_useless(table, useful, a)
    count = result["accelerator_count"]
    result["term_months"] = months
    result["machine_usd_per_hour"] = levelised.where(owned, price)
    result["recurring_usd_per_hour"] = recurring
    result["upfront_usd_per_machine"] = upfront
    result["billed_usd_per_accelerator_hour"] = recurring / count
    result["effective_usd_per_accelerator_hour"] = levelised / useful / count
    result["useful_share"] = useful
    result["available_share"] = table["available_share"].fillna(a.on_demand_available_share).where(table["term"] == "on_demand", 1.0)
    result["interruptions_per_hour"] = interruptions
    on_demand = result[result["term"] == "on_demand"].groupby(["accelerator", "geography"])["effective_usd_per_accelerator_hour"].min()
    keys = pd.MultiIndex.from_frame(result[["accelerator", "geography"]])
    result["on_demand_usd_per_accelerator_hour"] = on_demand.reindex(keys).to_numpy()
    ratio = result["effective_usd_per_accelerator_hour"] / result["on_demand_usd_per_accelerator_hour"]
    result["break_even_share"] = ratio.where(~result["term"].isin(USAGE_TERMS))
    result["negotiated"] = live & ~owned
    result["quoted"] = result["negotiated"] | (owned & (table["quote_expires"] >= as_of))
    result["stale"] = (as_of - table["as_of"]).dt.days > a.stale_after_days
    order = ["offer_id", "sku", "provider", "accelerator", "accelerator_count", "region", "geography", "term", "term_months"]
    return result[order + [name for name in result.columns if name not in order]]


def _refuse_unknown(table: pd.DataFrame, machines: pd.DataFrame) -> None:
    """Refuse an offer of a machine that the table skus does not have."""
    known = table["sku"].isin(machines.index)
    if not known.all():
        row = table[~known].iloc[0]
        raise CapplanError(
            f"offer {row['offer_id']} names the sku {row['sku']!r}, which the table skus does not have;"
            f" {nearest(str(row['sku']), machines.index)}"
        )


def _refuse_useless(table: pd.DataFrame, useful: pd.Series, a: PricingAssumptions) -> None:
    """Refuse an offer that interruptions leave no useful hour of."""
    if (useful <= 0).any():
        row = table[useful <= 0].iloc[0]
        raise CapplanError(
            f"offer {row['offer_id']}: {row['interruptions_per_hour']:g} interruptions an hour with {a.restart_hours:g} h lost at each"
            " leave no useful hour; exclude the offer, or correct interruptions_per_hour or restart_hours"
        )


def owned_running_usd_per_hour(
    power_kw: pd.Series, capex_usd: pd.Series, site: pd.Series, a: PricingAssumptions, sites: pd.DataFrame | None = None
) -> pd.Series:
    """Power, space and upkeep of one owned machine for one hour, at full load.

    Args:
        power_kw, capex_usd, site: Power, purchase price and site of each machine, row by row.
        a: Prices and PUE where the site states none, and the share of the price that upkeep takes a year.

    Returns:
        Series: USD per machine-hour.
    """
    electricity = power_kw * _of_site("pue", site, sites, a.pue) * _of_site("usd_per_kwh", site, sites, a.usd_per_kwh)
    return electricity + power_kw * kilowatt_usd_per_hour(site, a, sites) + capex_usd * a.upkeep_share_per_year / HOURS_PER_YEAR


def kilowatt_usd_per_hour(site: pd.Series, a: PricingAssumptions, sites: pd.DataFrame | None = None) -> pd.Series:
    """Price of a kilowatt with its space for one hour at each site, before its energy.

    Args:
        site: Site, row by row.
    """
    return _of_site("usd_per_kw_month", site, sites, a.colocation_usd_per_kw_month) / HOURS_PER_AVERAGE_MONTH


def escalated(share_per_year: float, months: pd.DatetimeIndex, as_of: pd.Timestamp) -> np.ndarray:
    """Return the rise of a site's prices of power and space in each month, (months,): a step at each anniversary of `as_of`."""
    years = np.maximum(np.asarray((months - as_of).days) // 365, 0)
    return np.asarray((1.0 + share_per_year) ** years)


def _of_site(name: str, site: pd.Series, sites: pd.DataFrame | None, otherwise: float) -> pd.Series:
    """Return a figure of each row's site, or what is assumed where none is stated."""
    if sites is None or sites.empty:
        return pd.Series(otherwise, index=site.index)
    return site.map(completed(sites, "sites").set_index("site")[name]).astype(float).fillna(otherwise)


def _months(table: pd.DataFrame, a: PricingAssumptions) -> pd.Series:
    """Length of each contract in months; empty for on demand and spot, and for lengths that nothing states."""
    months = table["term"].map(TERM_MONTHS).fillna(table["term_months"])
    months = months.where(~((table["term"] == "owned") & months.isna()), a.useful_life_years * 12)
    return months.where(~table["term"].isin(USAGE_TERMS)).astype(float)


def _refuse(table: pd.DataFrame, price: pd.Series, months: pd.Series, power_kw: pd.Series) -> None:
    """Raise one error that lists every offer whose price or length cannot be known."""
    owned = table["term"] == "owned"
    fixed = table["term"].map(TERM_MONTHS)
    faults = [
        (~owned & ~(price > 0), "has no price; state usd_per_hour, or exclude the offer"),
        (owned & ~(table["capex_usd"] > 0), "is owned but has no purchase price; state capex_usd"),
        (
            ~(table["available_share"].isna() | table["available_share"].between(0, 1, inclusive="right")),
            "has an available_share that is not above 0 and at most 1; correct it, or exclude the offer where nothing can be had",
        ),
        (owned & ~(power_kw > 0), "is owned but its sku has no power figure; state power_kw in the table skus"),
        (~table["term"].isin(USAGE_TERMS) & months.isna(), "does not say how long it runs; state term_months"),
        (
            fixed.notna() & table["term_months"].notna() & (fixed != table["term_months"]),
            "states a term_months that contradicts its term (1y = 12 months, 3y = 36 months); leave it empty, or call the term lease",
        ),
    ]
    lines = [f"offer {table['offer_id'][row]} {text}" for bad, text in faults for row in table.index[bad]]
    if lines:
        raise CapplanError("prices that cannot be used: " + "; ".join(lines))
