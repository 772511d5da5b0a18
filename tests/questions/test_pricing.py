"""Prices of an accelerator-hour: published break-evens, FOCUS rows, annuities, and messages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import PricingAssumptions
from capplan.errors import CapplanError
from capplan.questions.pricing import annuity_years, price_hours
from tests.conftest import reference_file

A = PricingAssumptions(discount_rate_per_year=0.0, as_of="2027-01-01")
SKUS = pd.DataFrame(
    {
        "sku": ["node", "own"],
        "provider": ["cloud", "own"],
        "accelerator": "H100",
        "accelerator_count": [1, 8],
        "power_kw": [np.nan, 10.2],
        "source_id": "s",
    }
)


def offer(offer_id: str, term: str, price: float, **more: object) -> dict[str, object]:
    """One row of the offers table."""
    base = {"sku": "node", "region": "r1", "geography": "us", "as_of": pd.Timestamp("2026-12-01"), "source_id": "s"}
    return {"offer_id": offer_id, "term": term, "usd_per_hour": price, **base, **more}


def priced(*rows: dict[str, object], a: PricingAssumptions = A) -> pd.DataFrame:
    return price_hours(SKUS, pd.DataFrame(list(rows)), a).set_index("offer_id")


def break_even(discount: float) -> float:
    """Where an offer at this discount on the price on demand breaks even."""
    return priced(offer("od", "on_demand", 4.0), offer("r", "reserved_1y", 4.0 * (1 - discount))).loc["r", "break_even_share"]


@pytest.mark.parametrize("discount", [0.25, 0.37, 0.40, 0.55, 0.57, 0.60, 0.72])
def test_break_even_is_one_minus_the_discount(discount: float) -> None:
    assert break_even(discount) == pytest.approx(1 - discount, rel=1e-12)


def test_break_even_rows_of_the_published_table() -> None:
    table = pd.read_csv(reference_file("truth", "07_commitments_stochastic.csv"))
    rows = table[table["id"].str.match(r"be_\d+")]
    assert len(rows) == 7
    for row in rows.itertuples():
        assert break_even(float(row.inputs.split()[-1])) == pytest.approx(float(row.value), rel=1e-12)


def test_break_even_of_an_offer_is_its_price_over_on_demand() -> None:
    assert break_even(0.25) == 0.75
    assert np.isnan(priced(offer("od", "on_demand", 4.0)).loc["od", "break_even_share"])
    several = priced(offer("dear", "on_demand", 6.0), offer("od", "on_demand", 4.0), offer("r", "reserved_1y", 3.0))
    assert several.loc["r", "break_even_share"] == pytest.approx(0.75), "the cheapest price on demand counts"


@pytest.mark.parametrize(("share", "upfront", "hourly"), [(1.0, 8760.0, 0.0), (0.5, 4380.0, 0.5), (0.0, 0.0, 1.0)])
def test_focus_payment_options(share: float, upfront: float, hourly: float) -> None:
    """FOCUS specification, appendix on commitment discounts: a one-year commitment at 1 USD an hour."""
    row = priced(offer("c", "reserved_1y", 1.0, upfront_share=share)).loc["c"]
    assert row["upfront_usd_per_machine"] == upfront
    assert row["billed_usd_per_accelerator_hour"] == hourly
    assert row["effective_usd_per_accelerator_hour"] == pytest.approx(1.0, rel=1e-15)
    assert row["upfront_usd_per_machine"] + 8760 * row["billed_usd_per_accelerator_hour"] == 8760.0


def test_paying_early_costs_interest() -> None:
    a = A.model_copy(update={"discount_rate_per_year": 0.1})
    row = priced(offer("c", "reserved_1y", 1.0, upfront_share=1.0), a=a).loc["c"]
    assert row["effective_usd_per_accelerator_hour"] == pytest.approx(np.log(1.1) / (1 - 1 / 1.1), rel=1e-12)


def test_annuity_is_the_integral_of_the_discount_factor() -> None:
    step = 1e-4
    middle = np.arange(step / 2, 5, step)
    assert annuity_years(5.0, 0.09) == pytest.approx((1.09**-middle).sum() * step, rel=1e-9)


def test_spot_pays_for_lost_hours() -> None:
    row = priced(offer("s", "spot", 2.0, interruptions_per_hour=0.1), a=A.model_copy(update={"restart_hours": 2.0})).loc["s"]
    assert row["effective_usd_per_accelerator_hour"] == pytest.approx(2.5)


def test_owned_is_depreciation_power_space_and_upkeep() -> None:
    a = A.model_copy(
        update={
            "residual_share": 0.1,
            "useful_life_years": 5.0,
            "pue": 1.3,
            "usd_per_kwh": 0.1,
            "colocation_usd_per_kw_month": 146.0,
            "upkeep_share_per_year": 0.05,
        }
    )
    row = priced(offer("o", "owned", 0.0, sku="own", capex_usd=300_000.0), a=a).loc["o"]
    running = 10.2 * 1.3 * 0.1 + 10.2 * 0.2 + 15_000 / 8760
    assert row["recurring_usd_per_hour"] == pytest.approx(running)
    assert row["effective_usd_per_accelerator_hour"] == pytest.approx((270_000 / 43_800 + running) / 8)
    later = priced(offer("o", "owned", 0.0, sku="own", capex_usd=300_000.0), a=a.model_copy(update={"discount_rate_per_year": 0.1})).loc[
        "o"
    ]
    hours = 8760 * (1 - 1.1**-5) / np.log(1.1)
    assert later["effective_usd_per_accelerator_hour"] == pytest.approx(((300_000 - 30_000 * 1.1**-5) / hours + running) / 8)


def test_a_site_overrides_the_assumptions() -> None:
    sites = pd.DataFrame(
        {"site": ["r1"], "geography": ["us"], "available_kw": [100.0], "pue": [1.1], "usd_per_kwh": [0.05], "usd_per_kw_month": [0.0]}
    )
    frame = pd.DataFrame([offer("o", "owned", 0.0, sku="own", capex_usd=87_600.0)])
    row = price_hours(SKUS, frame, A, sites).iloc[0]
    assert row["recurring_usd_per_hour"] == pytest.approx(10.2 * 1.1 * 0.05 + 87_600 * A.upkeep_share_per_year / 8760)


def test_an_expired_quote_falls_back_to_the_list_price() -> None:
    quote = {"negotiated_usd_per_hour": 2.0}
    table = priced(
        offer("live", "reserved_1y", 3.0, quote_expires=pd.Timestamp("2027-02-01"), **quote),
        offer("last", "reserved_1y", 3.0, quote_expires=pd.Timestamp("2027-01-01"), **quote),
        offer("gone", "reserved_1y", 3.0, quote_expires=pd.Timestamp("2026-12-31"), **quote),
    )
    assert table["machine_usd_per_hour"].tolist() == [2.0, 2.0, 3.0], "a quote holds on its last day"
    assert table["negotiated"].tolist() == [True, True, False]


def test_old_prices_are_flagged() -> None:
    table = priced(offer("new", "on_demand", 3.0), offer("old", "on_demand", 3.0, as_of=pd.Timestamp("2026-01-01")))
    assert table["stale"].tolist() == [False, True]
    days = [pd.Timestamp(A.as_of) - pd.Timedelta(days=A.stale_after_days + more) for more in (0, 1)]
    table = priced(*(offer(f"{day:%d}", "on_demand", 3.0, as_of=day) for day in days))
    assert table["stale"].tolist() == [False, True], "on the last day a price is not old"


def test_a_price_factor_multiplies_what_is_not_signed_yet() -> None:
    """By 1.5: an hour of 4 costs 6, a quote of 2 costs 3, and a machine of 300,000 costs 450,000 with its upkeep, and not its power."""
    rows = (
        offer("od", "on_demand", 4.0),
        offer("quote", "reserved_1y", 9.0, negotiated_usd_per_hour=2.0),
        offer("own", "owned", 0.0, sku="own", capex_usd=300_000.0),
    )
    plain, dearer = priced(*rows), priced(*rows, a=A.model_copy(update={"price_factor": 1.5}))
    assert dearer.loc[["od", "quote"], "machine_usd_per_hour"].tolist() == pytest.approx([6.0, 3.0])
    assert dearer.loc["own", "upfront_usd_per_machine"] == pytest.approx(450_000.0)
    upkeep = 150_000.0 * A.upkeep_share_per_year / 8760
    assert dearer.loc["own", "recurring_usd_per_hour"] - plain.loc["own", "recurring_usd_per_hour"] == pytest.approx(upkeep)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (offer("x", "on_demand", 0.0), "offer x has no price"),
        (offer("x", "lease", 1.0), "offer x does not say how long"),
        (offer("x", "reserved_1y", 1.0, term_months=36.0), "contradicts its term"),
        (offer("x", "owned", 0.0, sku="own"), "no purchase price"),
        (offer("x", "owned", 0.0, capex_usd=1000.0), "no power figure"),
        (offer("x", "on_demand", 1.0, sku="nod"), "did you mean node"),
        (offer("x", "spot", 1.0, interruptions_per_hour=3.0), "no useful hour"),
    ],
)
def test_offers_that_cannot_be_priced_are_named(row: dict[str, object], text: str) -> None:
    with pytest.raises(CapplanError, match=text):
        priced(offer("good", "on_demand", 4.0), row)
