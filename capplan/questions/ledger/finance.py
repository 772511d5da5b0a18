"""Arithmetic of finance: present value, rate of return, annuities and depreciation."""

from collections.abc import Sequence

import numpy as np

from capplan.errors import CapplanError

#: Half-year convention, 200 % (3 to 10 years) declining balance switching to straight line, in percent (IRS Publication 946, Table A-1).
MACRS_PERCENT = {
    3: (33.33, 44.45, 14.81, 7.41),
    5: (20.00, 32.00, 19.20, 11.52, 11.52, 5.76),
    7: (14.29, 24.49, 17.49, 12.49, 8.93, 8.92, 8.93, 4.46),
}


#: More than this share of a tax year's basis placed in service in its last quarter calls for the mid-quarter convention.
MID_QUARTER_SHARE = 0.4


def net_present_value(rate: float, cash_flows: Sequence[float]) -> float:
    r"""Discount evenly spaced cash flows to the first of them.

    .. math:: NPV = \sum_t c_t (1+r)^{-t}

    Args:
        rate (r): Rate of a period.
        cash_flows (c): Cash flows; the first is not discounted.

    Examples:
        >>> round(net_present_value(0.08, [-40000, 5000, 8000, 12000, 30000]), 5)
        3065.22267
    """
    flows = np.asarray(cash_flows, dtype=float)
    return float(flows @ (1.0 + rate) ** -np.arange(len(flows)))


def internal_rate_of_return(cash_flows: Sequence[float]) -> float:
    r"""Return the rate of a period at which the net present value is zero.

    Of several such rates the one nearest to zero is returned, the convention of spreadsheets.

    Args:
        cash_flows: Cash flows, the first at time zero.

    Raises:
        CapplanError: If no rate above -100 % brings the net present value to zero.

    Examples:
        >>> round(internal_rate_of_return([-100, 39, 59, 55, 20]), 5)
        0.28095
    """
    flows = np.trim_zeros(np.asarray(cash_flows, dtype=float), "b")
    # The net present value is a polynomial in the discount factor v = 1 / (1 + r).
    roots = np.roots(flows[::-1]) if len(flows) > 1 else np.array([])
    factors = roots.real[(np.abs(roots.imag) < 1e-9 * np.maximum(np.abs(roots.real), 1.0)) & (roots.real > 0)]
    if not len(factors):
        raise CapplanError("no rate of return exists: the cash flows never change sign, or only a rate below -100 % fits")
    rates = 1.0 / factors - 1.0
    return float(rates[np.argmin(np.abs(rates))])


def modified_rate_of_return(cash_flows: Sequence[float], finance_rate: float, reinvest_rate: float) -> float:
    r"""Return the rate that turns discounted outflows into compounded inflows.

    .. math:: MIRR = \left(\frac{\sum_t c_t^+ (1+r_r)^{n-t}}{-\sum_t c_t^- (1+r_f)^{-t}}\right)^{1/n} - 1

    Raises:
        CapplanError: If there is no inflow or no outflow.

    Examples:
        >>> round(modified_rate_of_return([-100, 39, 59, -55, 20], 0.05, 0.06), 9)
        -0.026029155
    """
    flows = np.asarray(cash_flows, dtype=float)
    last = len(flows) - 1
    inflow = net_present_value(reinvest_rate, np.maximum(flows, 0)) * (1 + reinvest_rate) ** last
    outflow = -net_present_value(finance_rate, np.minimum(flows, 0))
    if inflow <= 0 or outflow <= 0:
        raise CapplanError("a modified rate of return needs at least one inflow and one outflow")
    return float((inflow / outflow) ** (1 / last) - 1)


def annuity_factor(rate: float, periods: float) -> float:
    r"""Return the yearly payment that pays back one dollar with interest (capital recovery factor).

    .. math:: \frac{r}{1-(1+r)^{-n}}, \qquad \frac1n \text{ at } r = 0

    Examples:
        >>> round(annuity_factor(0.07, 20), 8), annuity_factor(0.0, 4)
        (0.09439293, 0.25)
    """
    if periods <= 0:
        raise CapplanError(f"an annuity needs a positive number of periods; found {periods:g}")
    return 1.0 / periods if rate == 0 else float(-rate / np.expm1(-periods * np.log1p(rate)))


def loan_payment(rate: float, periods: float, present_usd: float) -> float:
    """Return the payment of a period that pays a loan back; what is paid out is negative.

    Examples:
        >>> round(loan_payment(0.075 / 12, 180, 200000), 6)
        -1854.02472
    """
    return -present_usd * annuity_factor(rate, periods)


def loan_periods(rate: float, payment_usd: float, present_usd: float) -> float:
    """Return how many payments pay a loan back.

    Raises:
        CapplanError: If the payment does not even cover the interest.

    Examples:
        >>> round(loan_periods(0.07 / 12, -150, 8000), 5)
        64.07335
    """
    if rate == 0:
        return -present_usd / payment_usd
    rest = 1 + rate * present_usd / payment_usd
    if rest <= 0:
        raise CapplanError(f"a payment of {-payment_usd:g} does not cover the interest of {rate * present_usd:g} a period")
    return float(-np.log(rest) / np.log1p(rate))


def straight_line(cost_usd: float, residual_usd: float, years: float) -> float:
    """Return the depreciation of a year, evenly over the useful life.

    Examples:
        >>> straight_line(100, 10, 5)
        18.0
    """
    if years <= 0:
        raise CapplanError(f"a useful life must be positive; found {years:g} years")
    return (cost_usd - residual_usd) / years


def macrs(cost_usd: float, recovery_years: int, quarter: int | None = None) -> tuple[float, ...]:
    r"""Return the tax depreciation of each year (United States, MACRS): a tax view only, never in the P&L.

    .. math:: d_1 = \frac{2}{N}\,f,\qquad d_t = \max\left(\frac{2}{N}\,b_t,\; \frac{b_t}{N - f - (t - 2)}\right)

    with b_t what is left, and f the part of the first year that counts: a half, or in the mid-quarter convention 7/8, 5/8, 3/8, 1/8 by the
    quarter of the tax year in which the property was placed in service.

    Args:
        recovery_years (N): 3, 5 (computers) or 7.
        quarter: Quarter of the tax year, 1 to 4, for the mid-quarter convention; None = the half-year convention, by its printed table.

    Raises:
        CapplanError: For a recovery period other than 3, 5 or 7 years, or a quarter that is none.

    Source: IRS Publication 946, Table A-1; Tables A-2 to A-5 round the mid-quarter formula to two digits.

    Examples:
        >>> macrs(1000, 5)
        (200.0, 320.0, 192.0, 115.2, 115.2, 57.6)
        >>> [round(usd, 1) for usd in macrs(1000, 5, quarter=4)]
        [50.0, 380.0, 228.0, 136.8, 109.4, 95.8]
    """
    if recovery_years not in MACRS_PERCENT:
        raise CapplanError(f"recovery_years = {recovery_years}: MACRS tables are there for {', '.join(map(str, MACRS_PERCENT))} years")
    if quarter is None:
        return tuple(round(cost_usd * percent / 100, 10) for percent in MACRS_PERCENT[recovery_years])
    if quarter not in (1, 2, 3, 4):
        raise CapplanError(f"quarter = {quarter!r}: a tax year has the quarters 1 to 4")
    first = (9 - 2 * quarter) / 8
    shares = [2 / recovery_years * first]
    for year in range(recovery_years):
        left, life = 1 - sum(shares), recovery_years - first - year
        shares.append(left if life <= 1 else max(2 / recovery_years * left, left / life))
    return tuple(cost_usd * share for share in shares)


def depreciation_convention(usd_by_quarter: Sequence[float]) -> str:
    """Say by which convention the property of a tax year is depreciated: mid_quarter where the last quarter has above 40 % of its basis.

    Args:
        usd_by_quarter: Basis placed in service in each of the four quarters of the tax year.

    Raises:
        CapplanError: If there are not four amounts of 0 or more.

    Source: IRS Publication 946, chapter 4, "Which convention applies?".

    Examples:
        >>> depreciation_convention([60, 0, 0, 40]), depreciation_convention([59, 0, 0, 41])
        ('half_year', 'mid_quarter')
    """
    amounts = np.asarray(usd_by_quarter, dtype=float)
    if amounts.shape != (4,) or not (amounts >= 0).all():
        raise CapplanError(f"usd_by_quarter = {list(usd_by_quarter)!r}: state four amounts of 0 or more, one a quarter of the tax year")
    return "mid_quarter" if amounts[3] > MID_QUARTER_SHARE * amounts.sum() else "half_year"


def tax_depreciation(purchases: Sequence[tuple[int, int, float]], recovery_years: int) -> dict[int, float]:
    """Return the tax depreciation by year of all property, each tax year's by the convention that its own purchases call for.

    Args:
        purchases: Tax year, quarter (1 to 4) and basis in USD of each purchase.
        recovery_years: As in `macrs`.

    Examples:
        >>> {year: round(usd) for year, usd in tax_depreciation([(2027, 1, 500.0), (2027, 4, 500.0)], 3).items()}
        {2027: 333, 2028: 444, 2029: 164, 2030: 59}
    """
    found: dict[int, float] = {}
    for year in sorted({year for year, _, _ in purchases}):
        own = [(quarter, usd) for when, quarter, usd in purchases if when == year]
        by_quarter = [sum(usd for quarter, usd in own if quarter == place) for place in (1, 2, 3, 4)]
        late = depreciation_convention(by_quarter) == "mid_quarter"
        for quarter, usd in own:
            for step, amount in enumerate(macrs(usd, recovery_years, quarter if late else None)):
                found[year + step] = found.get(year + step, 0.0) + amount
    return dict(sorted(found.items()))
