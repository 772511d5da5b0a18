"""Crossover: brute force over volumes, laws of prices, and list prices row by row."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.answers.plan import quarterly_plan
from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.book.book import load_book
from capplan.errors import CapplanError
from capplan.questions.crossover import Replica, Work, api_ways, break_even_share, find_crossover, overflow_prices, staircase_crossings
from capplan.questions.crossover.calls import best_units
from capplan.questions.crossover.hosting import fixed_usd_per_quarter, peak_over_block
from capplan.questions.ledger.request_prices import Request, request_usd, service_usd
from tests.conftest import SKUS, SOURCES, reference_file

QUARTERS = ["2027Q1", "2027Q2", "2027Q3", "2027Q4"]


def volumes(price: float, capacity: float, replica: float, fixed: float, spare: int = 0) -> pd.DataFrame:
    """Crossings of an API by the request with whole replicas and what is paid at any volume."""
    steps = np.arange(1, 400)
    ends = steps * float(capacity)
    calls = np.array([0.0, ends[-1]])
    return staircase_crossings(ends, fixed + (steps + spare) * replica, calls, calls * price)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.2, 5), st.integers(20, 60), st.floats(1, 100), st.floats(0, 300), st.integers(0, 2))
def test_volumes_equal_brute_force(price, capacity, replica, fixed, spare):
    found = volumes(price, capacity, replica, fixed, spare)
    for volume in np.linspace(0, 12 * capacity, 500):
        nearest = (found["requests"] - volume).abs().min() if len(found) else 1.0
        if nearest < 1e-3 or abs(volume / capacity - round(volume / capacity)) < 1e-6:
            continue
        before = found[found["requests"] < volume]
        said = before["cheaper_above"].iloc[-1] if len(before) else "api"
        gap = fixed + (np.ceil(volume / capacity) + spare) * replica - volume * price
        if abs(gap) > 1e-6:
            assert said == ("self" if gap < 0 else "api"), (volume, gap)
    assert found["requests"].is_monotonic_increasing
    assert (found["cheaper_above"] != found["cheaper_above"].shift()).all()


def test_there_can_be_several_or_none():
    several = volumes(1.0, 100, 60.0, 30.0)
    assert several["requests"].tolist() == [90.0, 100.0, 150.0, 200.0, 210.0]
    assert several["cheaper_above"].tolist() == ["self", "api", "self", "api", "self"]
    assert volumes(0.5, 100, 60.0, 30.0).empty


@settings(max_examples=40, deadline=None)
@given(st.floats(0.7, 3), st.floats(1.0, 2.0), st.floats(10, 60), st.floats(0, 200))
def test_crossover_moves_with_each_price_as_it_must(price, more, replica, fixed):
    first = float(volumes(price, 100, replica, fixed)["requests"].iloc[0])
    slack = first * (1 + 1e-9)
    assert float(volumes(price * more, 100, replica, fixed)["requests"].iloc[0]) <= slack
    assert float(volumes(price, 100, replica, fixed * more)["requests"].iloc[0]) >= first * (1 - 1e-9)
    assert float(volumes(price, 100, replica / more, fixed)["requests"].iloc[0]) <= slack


QUIET = {
    "spare_replicas": 0,
    "headroom_share": 0.0,
    "within_hour_peak_factor": 1.0,
    "hosting_engineers": 0.0,
    "evaluation_usd_per_quarter": 0.0,
    "egress_usd_per_gib": 0.0,
}
SERVICE = pd.Series({"workload": "chat", "input_tokens": 1000.0, "output_tokens": 1.0, "cached_share": 0.0})
HOURS = 2190.0


def assumptions(**values) -> CrossoverAssumptions:
    return CrossoverAssumptions(**(QUIET | values))


def replica(a: CrossoverAssumptions) -> Replica:
    """A replica of one accelerator with 100 slots, each held 3.6 s: at most 100,000 requests an hour; any wait is allowed."""
    point = pd.Series(
        {
            "accelerator": "H100",
            "accelerators": 1,
            "concurrency": 100,
            "first_token_seconds": 3.6,
            "token_seconds": 0.0,
            "basis": "measured",
            "requests_per_accelerator_hour": 100_000.0,
        }
    )
    return Replica(point, 1.0, 1e6, a)


def traffic(*paths, region="us"):
    """Requests by path and quarter, even over the hours."""
    rows = [
        (s, 1 / len(paths), region, quarter, 0, HOURS, float(value))
        for s, path in enumerate(paths)
        for quarter, value in zip(QUARTERS, path, strict=False)
    ]
    return pd.DataFrame(rows, columns=["path", "probability", "region", "quarter", "block", "hours", "requests"])


def ways(*rows) -> pd.DataFrame:
    base = {
        "way": "list_price",
        "kind": "payg",
        "provider": "one",
        "model": "m",
        "usd_per_request": 1e-4,
        "unit_usd_per_hour": np.nan,
        "requests_per_unit_hour": np.nan,
        "minimum_units": np.nan,
        "unit_increment": np.nan,
        "term_months": np.nan,
        "requests_per_hour_limit": np.inf,
        "withdrawn_on": pd.NaT,
        "source": "s",
    }
    return pd.DataFrame([base | row for row in rows or ({},)]).astype({"withdrawn_on": "datetime64[ns]"})


def terms(on_demand=4.0, **more) -> pd.DataFrame:
    rows = [("on_demand", np.nan, on_demand)] + [(name, 12.0 if name.endswith("1y") else 36.0, usd) for name, usd in more.items()]
    return pd.DataFrame(rows, columns=["term", "term_months", "usd_per_accelerator_hour"]).assign(provider="p")


def find(load, a=None, api=None, prices=None, **more):
    a = a or assumptions()
    return find_crossover(SERVICE, load, ways() if api is None else api, replica(a), terms() if prices is None else prices, a, Work(**more))


def test_what_hosting_rests_on_is_said():
    found = find(traffic(million(1, 1, 1, 1)))
    assert found.notes[-1] == "Hosting: 1 H100 a replica, 100 requests at once; throughput measured."
    point = pd.concat([replica(assumptions()).point, pd.Series({"first_token_error_share": 0.5, "note": "never measured: engine x"})])
    assert "up to 50% longer; never measured: engine x." in Replica(point, 1.0, 1e6, assumptions()).remark


def million(*values):
    return [value * 1e6 for value in values]


def test_api_wins_at_zero_volume():
    found = find(traffic([0, 0, 0, 0]), assumptions(hosting_engineers=0.5))
    assert found.crossing_share == 0
    assert found.starts["start"][found.starts["expected_usd"].idxmin()] == "never"
    first = found.curve[found.curve["requests"] == 0].set_index("way")["usd"]
    assert first["list_price"] == 0 < first["self_on_demand"]


def test_quarter_quantiles_and_value_of_waiting():
    """One replica costs 8,760 USD a quarter, the API 100 USD a million: equal at 87.6 million requests."""
    found = find(traffic(million(10, 50, 90, 100), million(10, 20, 30, 120), million(5, 5, 5, 5)))
    assert found.quarters["quarter"].tolist() == ["2027Q3", "2027Q4", None]
    assert found.crossing_share == pytest.approx(2 / 3)
    totals = found.starts.set_index("start")["expected_usd"]
    assert totals["2027Q1"] == pytest.approx(4 * 8760)
    assert totals["never"] == pytest.approx(100 * 450 / 3)
    assert totals["2027Q4"] == pytest.approx(100 * 225 / 3 + 8760)
    assert found.value_of_waiting_usd == pytest.approx(4 * 8760 - totals.min())
    assert found.volumes["requests"].tolist() == pytest.approx([87.6e6], rel=1e-6)
    assert found.saving_usd == pytest.approx(totals["never"] - totals.iloc[:-1].min())


def test_price_paths_and_throughput_error():
    steady = traffic(million(60, 60, 60, 60))
    assert find(steady).crossing_share == 0
    falling = find(steady, assumptions(hosting_price_change_per_year=-0.7))
    assert falling.quarters["quarter"].tolist() == ["2027Q3"] * 3  # 8,760 x 0.3^(1/2) = 4,798 is less than 6,000
    rising = find(steady, assumptions(api_price_change_per_year=1.0))
    assert rising.quarters["quarter"].tolist() == ["2027Q4"] * 3  # 6,000 x 2^(3/4) = 10,091 is more than 8,760
    found = find(traffic(million(300, 300, 300, 300))).sensitivity
    assert found["throughput_factor"].tolist() == pytest.approx([0.7, 1.0, 1.3])
    assert found["break_even_share"].tolist() == pytest.approx([0.4 / 0.7, 0.4, 0.4 / 1.3])
    assert found["expected_usd"].is_monotonic_decreasing
    assert found["crossing_share"].is_monotonic_increasing


def test_staircases_of_equal_steps_agree():
    for price, usd, fixed in ((1.0, 60.0, 30.0), (0.7, 60.0, 0.0), (2.0, 90.0, 500.0)):
        known = volumes(price, 100, usd, fixed)
        steps = np.arange(1, 30)
        found = staircase_crossings(steps * 100.0, fixed + steps * usd, np.array([0.0, 3000.0]), np.array([0.0, 3000.0 * price]))
        pd.testing.assert_frame_equal(found, known)


def test_steps_lie_where_a_replica_is_full():
    a = assumptions(spare_replicas=1)
    counts, highest = replica(a).thresholds(450_000.0)
    assert counts.tolist() == [2, 3, 4, 5, 6]
    assert replica(a).replicas(highest * (1 - 1e-6)).tolist() == counts.tolist()
    assert replica(a).replicas(highest * (1 + 1e-6)).tolist() == (counts + 1).tolist()
    assert replica(a).replicas(np.array([0.0])) == 0


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(1, 400), min_size=2, max_size=4), st.floats(1.0, 2.0))
def test_each_price_moves_the_answer_as_it_must(levels, more):
    load = traffic(*[million(*[level] * 4) for level in levels])
    base = find(load)
    dear_api, dear_host = find(load, api=ways({"usd_per_request": 1e-4 * more})), find(load, prices=terms(4.0 * more))
    assert dear_api.crossing_share >= base.crossing_share >= dear_host.crossing_share
    assert dear_api.saving_usd >= base.saving_usd - 1e-6 >= dear_host.saving_usd - 2e-6
    assert dear_api.break_even_share <= base.break_even_share <= dear_host.break_even_share


def test_terms_hold_what_pays_and_rent_the_rest():
    """Peaks of 3, 3, 3 and 7 replicas: at 2.5 against 4 USD an hour, 3 are held and 4 are rented in the last quarter."""
    load = traffic([HOURS * 1e5 * level * 0.99 for level in (3, 3, 3, 7)])
    by_way = find(load, prices=terms(4.0, reserved_1y=2.5)).ways.set_index("way")
    assert by_way.at["self_on_demand", "expected_usd"] == pytest.approx(16 * HOURS * 4)
    assert by_way.at["self_reserved_1y", "expected_usd"] == pytest.approx((12 * 2.5 + 4 * 4) * HOURS)
    assert by_way.at["self_reserved_1y", "chosen"]
    only = terms(4.0, reserved_1y=2.5).iloc[1:]
    assert find(load, prices=only).ways.set_index("way").at["self_reserved_1y", "expected_usd"] == pytest.approx(28 * HOURS * 2.5)


def test_provisioned_units_are_bought_once_in_whole_steps():
    way = {
        "way": "units",
        "kind": "provisioned",
        "usd_per_request": np.nan,
        "unit_usd_per_hour": 3.0,
        "requests_per_unit_hour": 40_000.0,
        "minimum_units": 2.0,
        "unit_increment": 2.0,
        "term_months": 1.0,
    }
    load = traffic([HOURS * 1e5] * 4)
    found = find(load, api=ways({}, way)).ways.set_index("way")
    # 2 units leave 20,000 an hour at 1e-4: 6 + 2 USD; 4 units: 12 USD; none: 10 USD
    assert found.at["units", "expected_usd"] == pytest.approx(8 * 4 * HOURS)
    assert found.at["list_price", "expected_usd"] == pytest.approx(10 * 4 * HOURS)
    assert found.at["units", "chosen"]
    alone = find(load, api=ways(way)).ways.set_index("way")
    assert not alone.at["units", "usable"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 900), min_size=2, max_size=6), st.floats(0.02, 0.5), st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([1.0, 2.0])
)
def test_units_are_those_that_cost_least_of_all(rates, spill, least, step):
    way = pd.Series({"requests_per_unit_hour": 100.0, "unit_usd_per_hour": 10.0, "minimum_units": least, "unit_increment": step})
    load, hours = np.array(rates).reshape(1, 1, -1), np.arange(1.0, len(rates) + 1)[None, :]

    def cost(units: float) -> float:
        spilled = sum(hour * max(rate - 100 * units, 0.0) for rate, hour in zip(rates, hours[0], strict=True))
        return 10 * units * float(hours.sum()) + spill * spilled

    tried = [cost(least + step * place) for place in range(12)]
    assert cost(best_units(way, load, hours, spill)) == pytest.approx(min(tried))


def test_people_and_evaluation_are_paid_beside_the_machines():
    a = assumptions(hosting_engineers=0.5, engineer_usd_per_year=400_000.0, evaluation_usd_per_quarter=7_000.0)
    assert fixed_usd_per_quarter(a) == 57_000.0


def test_the_highest_hour_is_told_against_the_peak_block():
    place = {"workload": "chat", "region": "us", "quarter": "2027Q1"}
    paths = pd.DataFrame(
        [{**place, "path": path, "block": 0, "quantity": quantity} for path, quantity in enumerate((4000.0, 5000.0, 9000.0))]
    )
    blocks = pd.DataFrame([{"quarter": "2027Q1", "block": 0, "hours": 100.0}])
    peaks = pd.DataFrame([{**place, "quantile": 0.5, "work_per_hour": 60.0}, {**place, "quantile": 0.9, "work_per_hour": 500.0}])
    forecast = SimpleNamespace(paths=paths, blocks=blocks, peaks=peaks)
    # the median path has 50 an hour in its peak block
    assert peak_over_block(forecast, "chat") == pytest.approx(1.2)
    assert peak_over_block(forecast, "search") == 1.0


def test_batch_is_for_work_that_can_wait():
    batch = {"way": "batch_price", "kind": "batch", "usd_per_request": 5e-5}
    load = traffic(million(10, 10, 10, 10))
    assert find(load, api=ways({}, batch)).ways.set_index("way").at["list_price", "chosen"]
    assert find(load, api=ways({}, batch), may_wait=True).ways.set_index("way").at["batch_price", "chosen"]


def test_rate_limits_and_withdrawals_send_traffic_elsewhere():
    load = traffic([HOURS * 1000.0] * 4)
    limited = {"way": "cheap", "provider": "two", "usd_per_request": 5e-5, "requests_per_hour_limit": 600.0}
    found = find(load, api=ways({}, limited)).ways.set_index("way")
    assert found.at["cheap", "expected_usd"] == pytest.approx((600 * 5e-5 + 400 * 1e-4) * 4 * HOURS)
    assert "rate limit" in found.at["cheap", "remark"]
    gone = {"way": "cheap", "provider": "two", "usd_per_request": 5e-5, "withdrawn_on": pd.Timestamp("2027-07-01")}
    found = find(load, api=ways({}, gone)).ways.set_index("way")
    assert found.at["cheap", "expected_usd"] == pytest.approx((5e-5 + 1e-4) * 1000 * 2 * HOURS)
    assert not find(load, api=ways(gone)).ways.set_index("way").at["cheap", "usable"]


def test_what_depends_on_one_provider():
    load = traffic([HOURS * 1000.0] * 4)
    two = ways({}, {"way": "second", "provider": "two", "usd_per_request": 3e-4})
    a = assumptions(second_provider_share=0.2, evaluation_usd_per_quarter=100.0, switch_days=9.13125)
    found = find(load, a, api=two, unserved_usd_per_request=0.01).vendor.set_index("case")
    base = 4 * HOURS * 1000 * 1e-4
    assert found.at["as it is", "expected_usd"] == pytest.approx(base)
    assert found.at["second provider kept warm", "more_usd"] == pytest.approx(0.2 * 2 * base + 400)
    lost = HOURS * 1000 * 0.1
    assert found.at["withdrawn at once, second provider found", "lost_requests"] == pytest.approx(lost)
    assert found.at["withdrawn at once, second provider found", "expected_usd"] == pytest.approx(3 * base + lost * (0.01 - 3e-4))
    assert found.at["rate-limited to half of the mean peak", "more_usd"] == pytest.approx(0.5 * 2 * base)
    # a limit that is already exceeded counts in what calling costs today, and a second one that is too low is named
    tight = {"way": "cheap", "provider": "three", "usd_per_request": 5e-5, "requests_per_hour_limit": 600.0}
    found = find(
        load, a, api=ways({"requests_per_hour_limit": 900.0}, tight, {"way": "second", "provider": "two", "usd_per_request": 2e-4})
    )
    cases = found.vendor.set_index("case")
    assert cases.at["as it is", "expected_usd"] == pytest.approx(
        found.ways.loc[found.ways["kind"] != "self"].set_index("chosen").at[True, "expected_usd"]
    )
    short = find(load, a, api=ways({}, {**tight, "usd_per_request": 3e-4})).vendor.set_index("case")
    assert "below the mean peak" in short.at["withdrawn at once, second provider found", "remark"]
    only = find_crossover(SERVICE, load, ways(), None, terms(), a)
    assert only.vendor.set_index("case").at["withdrawn at once", "lost_requests"] == pytest.approx(4 * HOURS * 1000)
    assert "can only be called" in only.headline


def test_contracts_are_priced_by_their_own_terms():
    service = SERVICE.copy()
    service["output_tokens"], service["cached_share"], service["provider"] = 500.0, 0.5, None
    row = {
        "api_contract_id": "c",
        "workload": "chat",
        "provider": "openai",
        "model": "gpt-5.1",
        "kind": "payg",
        "input_usd_per_million": 2.0,
        "cached_usd_per_million": 0.5,
        "output_usd_per_million": 8.0,
        "discount_share": 0.1,
        "unit_usd_per_hour": np.nan,
        "unit_tokens_per_minute": np.nan,
        "output_token_weight": 1.0,
        "minimum_units": 1.0,
        "unit_increment": 1.0,
        "term_months": 1.0,
        "requests_per_minute": 10.0,
        "geography": None,
        "withdrawn_on": pd.NaT,
        "source_id": "s",
    }
    when = pd.Timestamp("2026-11-27")

    def first(**changes):
        return api_ways(service, pd.DataFrame([row | changes]).astype({"withdrawn_on": "datetime64[ns]"}), when)[0].iloc[0]

    assert first()["usd_per_request"] == pytest.approx(0.9 * (1000 * (0.5 * 2 + 0.5 * 0.5) + 500 * 8) / 1e6)
    assert first()["requests_per_hour_limit"] == 600
    listed = first(input_usd_per_million=np.nan, output_usd_per_million=np.nan)["usd_per_request"]
    assert listed == pytest.approx(0.9 * request_usd("gpt-5.1", "openai", when, Request(1000, 500, cached_share=0.5)))
    units = first(kind="provisioned", unit_usd_per_hour=5.0, unit_tokens_per_minute=3000.0, output_token_weight=2.0)
    assert units["requests_per_unit_hour"] == pytest.approx(3000 * 60 / 2000)
    with pytest.raises(CapplanError, match="withdrawn on 2026-01-01"):
        first(withdrawn_on=pd.Timestamp("2026-01-01"))
    with pytest.raises(CapplanError, match="unit_usd_per_hour"):
        first(kind="provisioned")
    with pytest.raises(CapplanError, match="state both"):
        first(output_usd_per_million=np.nan)


def test_a_replica_half_busy_costs_what_the_api_costs():
    assert break_even_share(0.02, 1000, 10) == 0.5


def test_overflow_is_priced_by_class():
    """List price without a limit goes first; only limited contracts keep theirs, and a class of two has the higher price."""
    workloads = pd.DataFrame({"workload": ["a", "b", "c"], "host": ["either", "either", "self"], "work_class": ["pair", "pair", None]})
    services = pd.DataFrame(
        {
            "workload": ["a", "b", "c"],
            "model": ["gpt-5.1"] * 3,
            "provider": ["openai", None, "openai"],
            "input_tokens": 1000.0,
            "output_tokens": 100.0,
            "cached_share": 0.0,
        }
    )
    row = {
        "api_contract_id": "k",
        "workload": "b",
        "provider": "openai",
        "model": "x",
        "kind": "payg",
        "input_usd_per_million": 100.0,
        "cached_usd_per_million": np.nan,
        "output_usd_per_million": 0.0,
        "discount_share": 0.0,
        "unit_usd_per_hour": np.nan,
        "unit_tokens_per_minute": np.nan,
        "output_token_weight": 1.0,
        "minimum_units": 1.0,
        "unit_increment": 1.0,
        "term_months": 1.0,
        "requests_per_minute": 10.0,
        "geography": None,
        "withdrawn_on": pd.NaT,
        "source_id": "s",
    }
    contracts = pd.DataFrame([row]).astype({"withdrawn_on": "datetime64[ns]"})
    when = pd.Timestamp("2026-11-27")
    found = overflow_prices(workloads, services, contracts, when)
    assert found["class"].tolist() == ["pair"]
    assert found["api_usd_per_unit"].iloc[0] == pytest.approx(0.1)
    assert np.isnan(found["api_units_per_hour"].iloc[0])
    alone = overflow_prices(workloads[workloads["workload"] == "b"], services, contracts, when)
    assert alone["api_units_per_hour"].tolist() == [600.0]
    assert overflow_prices(workloads.iloc[2:], services, contracts, when).empty


def test_bad_input():
    with pytest.raises(ValueError, match="greater than -1"):
        assumptions(api_price_change_per_year=-30)
    with pytest.raises(CapplanError, match="add up to"):
        find(traffic([1, 1, 1, 1]).assign(probability=0.5))
    with pytest.raises(CapplanError, match="from 0 on"):
        find(traffic([-1, 1, 1, 1]))
    with pytest.raises(CapplanError, match="neither be hosted"):
        find_crossover(SERVICE, traffic([1, 1, 1, 1]), ways().iloc[:0], None, terms(), assumptions())
    with pytest.raises(CapplanError, match="more than none"):
        break_even_share(1, 0, 1)
    with pytest.raises(CapplanError, match="from 0 on"):
        break_even_share(-1, 1, 1)


def test_list_prices_row_by_row():
    """Every price of the public table, at the noon it was taken: input, output, cache, batch, long prompts; none is left out."""
    table = pd.read_csv(reference_file("data", "llm_api_prices", "genai_prices_0.2.3_main_models.csv"))
    checked = longer = 0
    for row in table.to_dict("records"):
        name = (row["model"], row["provider"], pd.Timestamp("2026-11-27"))
        for column, tokens, more in (
            ("input_usd_per_mtok", (1000, 0), {}),
            ("output_usd_per_mtok", (0, 1000), {}),
            ("cache_read_usd_per_mtok", (1000, 0), {"cached_share": 1.0}),
            ("cache_write_usd_per_mtok", (1000, 0), {"cache_written_share": 1.0}),
            ("batch_input_usd_per_mtok", (1000, 0), {"batch_share": 1.0}),
            ("batch_output_usd_per_mtok", (0, 1000), {"batch_share": 1.0}),
            ("batch_cache_read_usd_per_mtok", (1000, 0), {"batch_share": 1.0, "cached_share": 1.0}),
        ):
            if pd.notna(row[column]):
                batch = more.pop("batch_share", 0.0)
                usd = 1000 * request_usd(*name, Request(*tokens, **more), batch_share=batch, hour=12)
                assert usd == pytest.approx(row[column], rel=1e-9), (name, column)
                checked += 1
        for tier in str(row["tiers_above_base"]).split() if pd.notna(row["tiers_above_base"]) else []:
            kind, above, usd = re.match(r"(\w+)_mtok>(\d+):([\d.]+)", tier).groups()
            tokens, shares = (
                int(above) + 1000,
                {"cached_share": float(kind == "cache_read"), "cache_written_share": float(kind == "cache_write")},
            )
            found = [request_usd(*name, Request(tokens, output, **shares), hour=12) for output in (0, tokens)]
            usd_per_token = (found[1] - found[0] if kind == "output" else found[0]) / tokens
            assert 1e6 * usd_per_token == pytest.approx(float(usd), rel=1e-9), (name, tier)
            longer += 1
    prices = table.filter(like="_usd_per_mtok").notna().to_numpy().sum()
    tiers = table["tiers_above_base"].dropna().str.split().str.len().sum()
    assert (len(table), checked, longer) == (53, prices, tiers)


def test_a_price_by_the_hour_is_asked_at_its_hour_or_as_the_mean_of_the_day():
    when = pd.Timestamp("2026-11-27")
    hours = [request_usd("deepseek-v4-flash", "deepseek", when, Request(1000, 100), hour=hour) for hour in range(24)]
    assert max(hours) == pytest.approx(2 * min(hours))
    assert request_usd("deepseek-v4-flash", "deepseek", when, Request(1000, 100)) == pytest.approx(sum(hours) / 24)


def test_what_is_written_into_a_cache_has_its_own_price():
    """A quarter read at a tenth of the price, a half written at five quarters of it, and the rest at the price of the list."""
    when = pd.Timestamp("2026-11-27")
    service = pd.Series({"model": "claude-sonnet-4-5", "provider": "anthropic", "input_tokens": 1000.0, "output_tokens": 0.0})
    plain = service_usd(service, when)
    cached = pd.concat([service, pd.Series({"cached_share": 0.25, "cache_written_share": 0.5})])
    assert service_usd(cached, when) == pytest.approx(plain * (0.25 + 0.25 * 0.1 + 0.5 * 1.25))
    with pytest.raises(CapplanError, match="more than all of it"):
        service_usd(pd.concat([service, pd.Series({"cached_share": 0.6, "cache_written_share": 0.5})]), when)


LINES = {
    "workloads": (
        "workload,stage,unit,host,shortfall_usd_per_unit\ntalk,serving,requests,self,1\ndrafts,serving,requests,either,1\nnotes,serving,requests,api,1\n"
    ),
    "services": (
        "workload,model,provider,input_tokens,output_tokens\ntalk,Llama-3.1-70B,,1000,200\ndrafts,gpt-4o-mini,openai,1000,100\nnotes,gpt-4o,openai,1000,100\n"
    ),
    "speeds": "workload,accelerator,work_per_accelerator_hour,basis\ntalk,H100,1000,stated\ndrafts,H100,1000,stated\n",
    "demand_scenarios": (
        "scenario,probability,workload,quarter,quantity\n"
        + "".join(
            f"{name},0.5,{work},2027Q1,{amount}\n" for name, amount in (("low", 4e6), ("high", 6e6)) for work in ("talk", "drafts", "notes")
        )
    ),
    "skus": SKUS,
    "sources": SOURCES,
    "offers": "offer_id,sku,region,geography,term,usd_per_hour,as_of,source_id\nhour,test.8x,us-1,us,on_demand,24,2026-12-01,s1\n",
    "book": "as_of: 2026-12-15\nfirst_quarter: 2027Q1\nhorizon_quarters: 1\nplan_paths: 2\nload_blocks: 1\nproviders: [aws]\n",
}


def test_called_hosted_and_both_ways_are_lines_of_the_plan(make_book):
    """A request of drafts costs 3 USD a thousand on machines and 0.21 at the API: all of it overflows; notes are called, talk hosted."""
    plan = quarterly_plan(load_book(make_book(**LINES)))
    work = plan.purchases.dispatch.groupby(["class", "source"])["expected_work"].sum()
    assert work["drafts", "api"] == pytest.approx(5e6)
    assert work["talk", "on_demand"] == pytest.approx(5e6)
    assert "notes" not in work.index.get_level_values("class")
    booked = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"].groupby("component")["usd"].sum()
    when = pd.Timestamp("2027-01-15")
    called = 5e6 * request_usd("gpt-4o", "openai", when, Request(1000, 100))
    overflow = 5e6 * request_usd("gpt-4o-mini", "openai", when, Request(1000, 100))
    assert booked["tokens"] == pytest.approx(called)
    assert booked["api"] == pytest.approx(overflow)
    # where machines are the cheaper way, nothing overflows
    cheap = quarterly_plan(load_book(make_book("cheap", **{**LINES, "offers": LINES["offers"].replace(",24,", ",0.8,")})))
    sources = set(cheap.purchases.dispatch.loc[cheap.purchases.dispatch["class"] == "drafts", "source"])
    assert sources == {"on_demand"}
    # a model that is withdrawn is named in the plan
    ending = (
        "api_contract_id,workload,provider,model,kind,withdrawn_on,as_of,source_id\nc,notes,openai,gpt-4o,payg,2027-02-01,2026-12-01,s1\n"
    )
    warned = quarterly_plan(load_book(make_book("ending", **{**LINES, "api_contracts": ending}))).warnings
    assert any("notes calls gpt-4o of openai, which is to be withdrawn on 2027-02-01" in note for note in warned)


def test_terms_of_a_services_own_model_take_the_place_of_its_list_price():
    when = pd.Timestamp("2026-12-01")
    service = pd.Series({"workload": "a", "model": "gpt-5-nano", "provider": "openai", "input_tokens": 1000.0, "output_tokens": 100.0})
    base = {
        "workload": "a",
        "provider": "openai",
        "model": "gpt-5-nano",
        "kind": "payg",
        "discount_share": 0.0,
        "withdrawn_on": pd.NaT,
        "term_months": 1.0,
    }
    base |= {"input_usd_per_million": np.nan, "source_id": "s", "output_usd_per_million": np.nan, "cached_usd_per_million": np.nan}
    tiers = pd.DataFrame(
        [base | {"api_contract_id": name, "requests_per_minute": most} for name, most in (("small", 100.0), ("large", 500.0))]
    )
    listed = api_ways(service, tiers.head(0), when)[0].set_index("way")
    found = api_ways(service, tiers, when)[0].set_index("way")
    assert "list_price" in listed.index
    assert "list_price" not in found.index
    assert found.at["small", "usd_per_request"] == pytest.approx(listed.at["list_price", "usd_per_request"])
    # a contract with another provider leaves the list price where it is
    other = api_ways(service, tiers.assign(provider="azure", input_usd_per_million=1.0, output_usd_per_million=1.0), when)[0]
    assert "list_price" in set(other["way"])
    # of tiers at one price the highest limit is what can be called up to
    workloads = pd.DataFrame({"workload": ["a"], "host": ["either"]})
    prices = overflow_prices(workloads, service.to_frame().T.infer_objects(), tiers, when)
    assert prices["api_units_per_hour"].tolist() == [500.0 * 60]
