"""One figure or two of each subject whose public data lie beside the project: these are checked wherever the tests run."""

from __future__ import annotations

import pytest

from capplan.book.book import reference_tables
from capplan.questions.demand.accuracy import owa
from capplan.questions.ledger import internal_rate_of_return, macrs, net_present_value
from capplan.questions.reliability import optimum_interval
from capplan.questions.serving.size_fleet import unit_costs
from capplan.questions.training.flops import run_exaflop


def test_training():
    """Brown et al., "Language Models are Few-Shot Learners" (2020), Table D.1: 3.14e23 operations."""
    assert run_exaflop(174.6e9, 300e9) * 1e18 == pytest.approx(3.14e23, rel=2e-3)


def test_reliability():
    """The optimum of exponential failures, where Young's formula gives 2,939 and Daly's higher order 2,553 seconds."""
    assert optimum_interval(600, 7200) == pytest.approx(2553.753, abs=1e-3)


def test_serving():
    """A day of DeepSeek's fleet (open-infra-index, 2025): tokens at the stated speeds need its 226.75 nodes, for 87,072 USD."""
    nodes = (608e9 / 73_700 + 168e9 / 14_800) / 86_400
    assert nodes == pytest.approx(226.75, rel=0.005)
    assert unit_costs(226.75 * 8 * 24, 2.0, 0.0, 1, 168e9)["usd"] == 87_072


def test_forecasts():
    """The M4 team's seasonal naive on the hourly series (Evaluation and Ranks): OWA 0.627 from its sMAPE and MASE, and those of Naive2."""
    assert owa(13.912, 1.193, 18.383, 2.395) == pytest.approx(0.627, abs=5e-4)


def test_finance():
    """The documentation of numpy-financial; IRS Publication 946, Table A-1."""
    assert net_present_value(0.08, [-40_000, 5_000, 8_000, 12_000, 30_000]) == pytest.approx(3065.22267, abs=5e-6)
    assert internal_rate_of_return([-100, 39, 59, 55, 20]) == pytest.approx(0.28095, abs=5e-6)
    assert list(macrs(100, 5)) == [20.0, 32.0, 19.2, 11.52, 11.52, 5.76]


@pytest.mark.parametrize(
    ("offer", "usd_per_hour"),
    [
        ("aws-p5.48xlarge-us-east-1-on-demand", 55.04),
        ("aws-p5.48xlarge-us-east-1-savings-plan-3y", 181_288.67 / 8760),
        ("gcp-a3-highgpu-8g-us-central1-on-demand", 88.4899999),
        ("azure-ND96isr_H100_v5-eastus-on-demand", 98.32),
    ],
)
def test_prices(offer, usd_per_hour):
    """Sheets of 2026: the row's own source says which."""
    assert reference_tables()["offers"].set_index("offer_id").at[offer, "usd_per_hour"] == pytest.approx(usd_per_hour, rel=1e-5)
