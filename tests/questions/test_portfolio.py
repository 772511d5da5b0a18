"""Portfolio: newsvendor and screening figures, brute force, the optimiser's own answer, ladders, and rules that look back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.portfolio import PortfolioAssumptions
from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.questions.portfolio import Portfolio, Rehearsal, Stack, holdings_of, mix_portfolio
from capplan.questions.portfolio.ladder import best_layers
from capplan.questions.portfolio.periods import Periods, measured
from capplan.questions.portfolio.pools import PoolTables, build_pools
from capplan.questions.portfolio.recommend import hourly_load, rules
from capplan.questions.pricing import price_hours
from tests.cases.procurement_cases import BASE, blocks, demand, offer, sku, solve, work_class

ON_DEMAND = offer("od", "on_demand", 4.0)
ONE = (work_class(),)


def assumptions(**values) -> PortfolioAssumptions:
    return PortfolioAssumptions(**(BASE | {"horizon_end": "hold_demand"} | values))


def one_source(load, price: float, weight=None) -> Stack:
    load = np.asarray(load, float)
    return Stack(
        load, np.ones(len(load)) if weight is None else np.asarray(weight, float), np.array([price]), np.full((len(load), 1), np.inf)
    )


def mix(work: pd.DataFrame, offers: list[dict], a: PortfolioAssumptions | None = None, classes=ONE, holdings=None, **tables) -> Portfolio:
    a = a or assumptions(horizon_quarters=int(work["quarter"].nunique()))
    prices = price_hours(pd.DataFrame([sku("gpu")]), pd.DataFrame(offers), a)
    speeds = pd.DataFrame([(row["class"], "H100", 1.0) for row in classes], columns=["class", "accelerator", "work_per_accelerator_hour"])
    given = {name: table for name, table in (("holdings", holdings), ("limits", tables.pop("limits", None))) if table is not None}
    return mix_portfolio(work, PoolTables(speeds, prices, pd.DataFrame(list(classes)), **given), a, **tables)


# --- published figures ------------------------------------------------------------------------------------------------------------


def test_discrete_newsvendor():
    """Cost 5, price 12, salvage 2: underage 7, overage 3 (stored test of a stochastic programming package)."""
    stack = one_source([10, 20, 30, 40], 10.0, [0.15, 0.35, 0.35, 0.15])
    assert stack.best_level(3.0) == 30
    assert stack.cost_usd_per_hour(30, 3.0) - 10 * 25 == pytest.approx(-145, abs=1e-9)


@pytest.mark.parametrize(
    ("mean", "deviation", "under", "over", "best"), [(200, 80, 8, 4, 234.458), (250, 40, 6.75, 2.25, 276.9795900078433)]
)
def test_normal_newsvendor(mean, deviation, under, over, best):
    """Cachon and Terwiesch Q12.1 (exact z), and the calendar problem."""
    from scipy.stats import norm

    count = 400_000
    stack = one_source(np.maximum(norm.ppf((np.arange(count) + 0.5) / count, mean, deviation), 0.0), under + over)
    assert stack.best_level(over) == pytest.approx(best, abs=2e-3)


def test_screening_curve():
    """Load 1000 - 1000 z; coal 15 + 2x, gas 10 + 12x, unserved 1012 (PyPSA's screening-curve example, in closed form)."""
    count = 2_000_000
    load = 1000 - 1000 * (np.arange(count) + 0.5) / count
    coal = one_source(load, 12.0 - 2.0).best_level(15.0 - 10.0)
    both = one_source(load, 1012.0 - 12.0).best_level(10.0)
    assert (coal, both - coal, 1000 - both) == pytest.approx((500, 490, 10), rel=5e-5)
    assert coal == pytest.approx(500, rel=1e-6)
    energy = [float(np.minimum(load, level).mean()) for level in (500, 990, 1000)]
    assert np.diff([0, *energy]) == pytest.approx([375, 124.95, 0.05], rel=1e-6)
    assert 15 * 500 + 10 * 490 + np.diff([0, *energy]) @ [2, 12, 1012] == pytest.approx(14_700, rel=1e-6)


@pytest.mark.parametrize("discount", [0.25, 0.37, 0.40, 0.55, 0.57, 0.60, 0.72])
def test_commitment_is_the_discount_quantile(discount):
    load = np.arange(1.0, 101)
    assert one_source(load, 1.0).best_level(1 - discount) == np.ceil(discount * 100 - 1e-9)


def test_commitment_at_three_quarters_use():
    """FOCUS: a dollar an hour committed, 75 % used: 0.75 of effective cost is used, 0.25 unused; 1.50 of use pays 0.50 on demand."""
    part, over = one_source([0.75], 1.0), one_source([1.5], 1.0)
    assert (part.used(1.0)[0], 1.0 - part.used(1.0)[0]) == (0.75, 0.25)
    assert over.rest_usd_per_hour(1.0)[0] == 0.5
    assert one_source([50.0 / 37.5], 37.5).cost_usd_per_hour(0.0, 1.0) == pytest.approx(50)  # Google's example: 37.50 with, 50 without


# --- brute force and the optimiser ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5), st.integers(0, 6)), min_size=1, max_size=6),
    st.floats(0.3, 6),
    st.floats(0.2, 3),
    st.floats(3, 5),
    st.integers(0, 6),
)
def test_no_level_is_cheaper(points, usd, spot, on_demand, cap):
    load = np.array([point[0] for point in points], float)
    capacity = np.column_stack([np.minimum(load, [point[2] for point in points]), np.full(len(load), cap), load])
    stack = Stack(load, np.array([point[1] for point in points], float), np.array([spot, on_demand, 20.0]), capacity)
    best = stack.best_level(usd)
    costs = {level: stack.cost_usd_per_hour(level, usd) for level in np.arange(0, 13, 0.5)}
    assert stack.cost_usd_per_hour(best, usd) <= min(costs.values()) + 1e-9
    assert all(level >= best or cost > stack.cost_usd_per_hour(best, usd) - 1e-9 for level, cost in costs.items())


@pytest.mark.parametrize("price", [0.5, 1.0, 1.9, 2.3, 3.1, 3.9])
@pytest.mark.parametrize(("cap", "had"), [(100_000.0, 1.0), (6.0, 1.0), (8.0, 0.75)])
def test_the_optimiser_says_the_same(price, cap, had):
    """One class, one accelerator, no lots: with on demand without a cap, and with one (underage is then the price of work undone)."""
    loads = [[float(load)] for load in (3, 5, 8, 9, 12, 15, 21, 22, 30, 41)]
    offers = [ON_DEMAND | {"available_share": had}, offer("c", "lease", price, term_months=3)]
    limits = pd.DataFrame(
        [
            {
                "limit_id": "od",
                "kind": "on_demand_accelerators",
                "amount": cap,
                "quarter": None,
                "provider": None,
                "region": None,
                "accelerator": None,
            }
        ]
    )
    plan = solve(demand(loads), offers, limits=limits[["limit_id", "kind", "amount"]].to_dict("records"))
    found = mix(demand(loads), offers, limits=limits)
    assert found.terms["expected_usd"].iloc[0] == pytest.approx(plan.proof.upper_usd, rel=1e-6)
    assert found.mix["accelerators"].sum() == plan.purchases["accelerators"].sum() == found.terms["accelerators"].iloc[0]


def test_the_optimiser_says_the_same_of_spot():
    loads = [[float(load)] for load in (2, 6, 7, 11)]
    offers = [ON_DEMAND, offer("s", "spot", 1.5), offer("c", "lease", 2.0, term_months=3)]
    soft = [work_class(interruptible=True)]
    plan = solve(demand(loads), offers, classes=soft)
    found = mix(demand(loads), offers, classes=soft)
    assert found.terms["expected_usd"].iloc[0] == pytest.approx(plan.proof.upper_usd, rel=1e-6)
    assert found.mix.empty
    assert set(found.sources.query("accelerator_hours > 0")["source"]) == {"spot"}
    assert "No further commitment pays" in found.headline


@pytest.mark.parametrize("scarcity", [0.0, 0.5, 2.0])
def test_the_optimiser_says_the_same_of_spot_that_is_scarce_when_demand_is_high(scarcity):
    loads = [[float(load)] for load in (2, 6, 7, 11, 16)]
    offers = [ON_DEMAND, offer("s", "spot", 1.5), offer("c", "lease", 2.0, term_months=3)]
    soft, given = [work_class(interruptible=True)], {"horizon_quarters": 1, "spot_accelerators": 5.0, "spot_scarcity": scarcity}
    plan = solve(demand(loads), offers, ProcurementAssumptions(**(BASE | given)), classes=soft)
    found = mix(demand(loads), offers, assumptions(**given), classes=soft)
    assert found.terms["expected_usd"].iloc[0] == pytest.approx(plan.proof.upper_usd, rel=1e-6)
    assert found.terms["accelerators"].iloc[0] == plan.purchases["accelerators"].sum()


def test_load_blocks_count_by_their_hours():
    work = blocks([[(0.1, 20.0), (0.3, 12.0), (0.6, 7.0)]])
    for usd, best in ((2.5, 7.0), (1.5, 12.0), (0.3, 20.0)):
        assert mix(work, [ON_DEMAND, offer("c", "lease", usd, term_months=3)]).terms["accelerators"].iloc[0] == best


def test_a_part_of_a_quarter_counts_by_its_part():
    """Four months see a quarter of 10 and a third of a quarter of 40, which is used a quarter of the time: at 4 on demand worth 1."""
    for usd, best in ((1.1, 10.0), (0.9, 40.0)):
        assert mix(demand([[10.0, 40.0]]), [ON_DEMAND, offer("c", "lease", usd, term_months=4)]).terms["accelerators"].iloc[0] == best


# --- terms, layers, ladder --------------------------------------------------------------------------------------------------------


def steady(quarters: int = 8, level: float = 40.0) -> pd.DataFrame:
    return demand([[level * factor] * quarters for factor in (0.6, 0.8, 1.0, 1.2, 1.4)])


TERMS = [ON_DEMAND, offer("one", "reserved_1y", 2.6), offer("three", "reserved_3y", 1.8)]


def test_steady_demand_takes_the_cheapest_term_whole():
    found = mix(steady(), TERMS)
    alone = found.terms.set_index("term")["accelerators"]
    assert found.mix["term"].tolist() == ["reserved_3y"]
    assert found.mix["accelerators"].sum() == alone["reserved_3y"] == 40 * 1.0
    assert (found.mix["to_accelerators"] - found.mix["from_accelerators"]).sum() == found.mix["accelerators"].sum()


def test_falling_demand_takes_short_terms_above_long_ones():
    falling = demand([[40.0] * 4 + [10.0] * 4])
    layers = mix(falling, TERMS).mix.set_index("term")["accelerators"]
    assert layers["reserved_3y"] == 10
    assert layers["reserved_1y"] == 30


def test_rising_demand_waits():
    """A level that is used from the second year on is not signed today, though it pays over three years."""
    found = mix(demand([[10.0] * 4 + [40.0] * 4]), TERMS)
    assert found.terms.set_index("term").at["reserved_3y", "accelerators"] == 40
    assert found.mix["accelerators"].sum() == 10
    assert found.ladder.query("quarter == '2028Q1'")["accelerators"].sum() > 0


def test_a_ladder_lets_no_more_end_at_once_than_allowed():
    for share in (0.25, 0.5, 1.0):
        found = mix(steady(), TERMS, assumptions(horizon_quarters=8, largest_ending_share=share))
        assert found.ladder.groupby("end_quarter")["accelerators"].sum().max() <= share * 40 + 1e-6
        costs = found.ladder_cost.set_index("name")["expected_usd"]
        assert costs["no_ladder"] <= costs["ladder"] + 1e-6
        assert costs["ladder"] <= costs["nothing"] + 1e-6
    assert costs["no_ladder"] == pytest.approx(costs["ladder"])


def test_demand_that_ends_leaves_nothing_to_buy_and_what_ends_together_counts_together():
    leases = [ON_DEMAND, offer("year", "reserved_1y", 2.0), offer("half", "lease", 2.2, term_months=6)]
    found = mix(demand([[20.0] * 2 + [40.0] * 2 + [0.0] * 4]), leases, assumptions(horizon_quarters=8, largest_ending_share=1.0))
    bought = found.ladder[["quarter", "offer_id", "accelerators", "end_quarter"]].to_numpy().tolist()
    assert bought == [["2027Q1", "year", 20.0, "2027Q4"], ["2027Q3", "half", 20.0, "2027Q4"]]
    assert found.ladder_cost.set_index("name").at["ladder", "largest_ending_share"] == 1.0


def test_what_is_held_serves_first():
    held = holdings_of(
        pd.DataFrame(
            [
                {
                    "commitment_id": "c",
                    "sku": "gpu",
                    "region": "us-1",
                    "machines": 25.0,
                    "start": pd.Timestamp("2026-01-01"),
                    "end": pd.Timestamp("2029-12-31"),
                }
            ]
        ),
        None,
        pd.DataFrame([sku("gpu")]),
        pd.DataFrame(TERMS),
        None,
        5.0,
    )
    assert held[["accelerator", "geography", "accelerators"]].to_numpy().tolist() == [["H100", "us", 25.0]]
    found = mix(steady(), TERMS, holdings=held)
    assert found.mix["accelerators"].sum() == 40 - 25
    assert found.pools["held_accelerators"].iloc[0] == 25
    served = found.sources.groupby("source")["accelerator_hours"].sum()
    assert served.sum() == pytest.approx(40 * 8760, rel=1e-9)


def test_a_commitment_that_costs_more_than_it_displaces_is_stranded():
    """Nothing in one hour, 30 in the next: 20 under contract displace 80 of 120, and cost 100 at 2.5 an hour."""
    stack, path = one_source([0.0, 30.0], 4.0), np.array([0, 0])
    for usd, stranded in ((2.5, 1.0), (1.9, 0.0)):
        found = measured(stack, path, np.array([1.0]), 20.0, usd, 0.1)
        assert (found["expected_usd"], found["stranded_probability"]) == (40 + 40 * usd, stranded)


def test_measures_of_a_commitment():
    row = mix(demand([[10.0], [30.0]]), [ON_DEMAND, offer("c", "lease", 1.5, term_months=3)]).terms.iloc[0]
    assert row["accelerators"] == 30  # worth 4.0 below 10, 2.0 up to 30
    assert row["utilisation_share"] == pytest.approx(20 / 30)
    assert row["coverage_share"] == 1.0
    assert row["stranded_probability"] == 0.5  # 10 of 30 used is less than the break-even of 37.5 %
    assert row["cvar_usd"] == row["expected_usd"] == pytest.approx(30 * 1.5 * 2190)
    assert (row["break_even_share"], row["quantile_share"]) == (0.375, 0.625)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=8), st.floats(0.5, 3.9), st.floats(0.5, 3.9))
def test_a_cheaper_contract_is_never_used_less_and_never_costs_more(loads, first, second):
    low, high = sorted((first, second))
    work = demand([[float(load) + 1] for load in loads])
    cheap, dear = (mix(work, [ON_DEMAND, offer("c", "lease", usd, term_months=3)]).terms.iloc[0] for usd in (low, high))
    assert cheap["accelerators"] >= dear["accelerators"]
    assert cheap["expected_usd"] <= dear["expected_usd"] + 1e-6


# --- rules that look back ---------------------------------------------------------------------------------------------------------


def history(levels) -> pd.DataFrame:
    """Use that rises or falls from day to day, half of each day at that level and half at twice."""
    levels = np.repeat(np.asarray(levels, float), 24) * np.tile(np.repeat([1.0, 2.0], 12), len(levels))
    time = pd.date_range("2026-12-31 23:00", periods=len(levels), freq="-1h")[::-1]
    return pd.DataFrame({"time": time, "workload": "work", "region": "us", "quantity": levels})


WORKLOADS = pd.DataFrame({"workload": ["work"]})


def test_windows_see_only_their_days():
    found = mix(steady(), TERMS, usage=history(np.arange(1.0, 91)), workloads=WORKLOADS)
    level = found.recommenders.set_index("name")["accelerators"]
    assert level["most_savings_7_days"] > level["most_savings_30_days"] > level["most_savings_60_days"] > 0
    # at 55 % off, the best level is in use more than 45 % of the hours of the window
    window = history(np.arange(1.0, 91))["quantity"].to_numpy()[-7 * 24 :]
    assert level["most_savings_7_days"] == np.sort(window)[int(np.ceil(0.55 * len(window) - 1e-9)) - 1]
    past = history(np.arange(1.0, 91))["quantity"].to_numpy()[-60 * 24 :]
    assert np.minimum(past, level["target_coverage"]).sum() / past.sum() == pytest.approx(0.8)
    assert found.recommenders.set_index("name").at["nothing", "coverage_share"] == 0


def test_rules_are_costed_over_the_life_of_the_contract():
    lease = [ON_DEMAND, offer("c", "lease", 1.5, term_months=3)]
    found = mix(demand([[10.0, 40.0]]), lease, usage=history(np.full(20, 5.0)), workloads=WORKLOADS)
    assert found.recommenders.set_index("name").at["nothing", "expected_usd"] == pytest.approx(4 * 10 * 2190, rel=1e-9)


def test_work_of_longer_intervals_is_spread_over_their_hours():
    """Four units in two hours are two an hour; half of them run here, at two units an accelerator and hour."""
    times = pd.date_range("2026-12-01", periods=3, freq="2h")
    usage = pd.DataFrame({"workload": "w", "region": "r", "time": times, "quantity": [4.0, 8.0, 4.0]})
    place = {"class": "c", "region": "r", "accelerator": "H100", "geography": "us", "share": 0.5, "work_per_accelerator_hour": 2.0}
    found = hourly_load(usage, pd.DataFrame([place]), pd.DataFrame({"workload": ["w"], "class": ["c"]}))
    assert found["accelerators"].tolist() == [0.5, 0.5, 1.0, 1.0, 0.5, 0.5]
    assert found["time"].tolist() == list(pd.date_range("2026-12-01", periods=6, freq="h"))


def test_a_short_history_has_no_long_window():
    found = mix(steady(), TERMS, usage=history(np.full(20, 5.0)), workloads=WORKLOADS)
    assert set(found.recommenders["name"]) == {"this_portfolio", "nothing", "most_savings_7_days", "target_coverage"}
    assert mix(steady(), TERMS).recommenders.empty


def test_covered_use_is_no_reason_to_buy():
    a = assumptions(horizon_quarters=8)
    held = pd.DataFrame(
        [
            {
                "name": "c",
                "accelerator": "H100",
                "geography": "us",
                "accelerators": 8.0,
                "start": pd.Timestamp("2026-01-01"),
                "end": pd.Timestamp("2030-01-01"),
            }
        ]
    )
    prices = price_hours(pd.DataFrame([sku("gpu")]), pd.DataFrame(TERMS), a)
    speeds = pd.DataFrame([("work", "H100", 1.0)], columns=["class", "accelerator", "work_per_accelerator_hour"])
    pool = build_pools(steady(), PoolTables(speeds, prices, pd.DataFrame([work_class()]), held), a)[0][0]
    hours = history(np.full(90, 5.0)).rename(columns={"quantity": "accelerators"})
    assert rules(pool, hours, 1.8, a)["most_savings_30_days"] == 2.0  # of 5 and 10 an hour, 8 are covered


def test_rules_played_again_on_a_fall():
    """Use halves at the cutoff: what looked back bought too much, hindsight is the least anybody could have paid."""
    cutoff = pd.Timestamp("2026-10-01")
    use = history([20.0] * 100 + [10.0] * 92)
    known = demand([[8.0], [12.0], [24.0]]).assign(quarter="2026Q4")
    found = mix(steady(), TERMS, usage=use, workloads=WORKLOADS, rehearsal=Rehearsal(cutoff, known)).afterwards.set_index("name")
    assert found.at["most_savings_30_days", "accelerators"] == 40
    assert found.at["this_portfolio", "accelerators"] == 12
    assert found["usd"].min() == found.at["hindsight", "usd"]
    assert found.at["this_portfolio", "usd"] < found.at["nothing", "usd"] < found.at["most_savings_30_days", "usd"]
    hours = 92 * 24
    assert found.at["most_savings_30_days", "usd"] == pytest.approx(40 * 1.8 * hours)
    assert found.at["this_portfolio", "usd"] == pytest.approx((12 * 1.8 + 0.5 * 8 * 4.0) * hours)


# --- messages ---------------------------------------------------------------------------------------------------------------------


def test_work_that_nothing_can_serve_is_named():
    with pytest.raises(CapplanError, match="work in us"):
        mix(demand([[1.0]]), [offer("eu", "on_demand", 4.0, region="eu-1", geography="eu")])


def test_numbers_that_are_none_are_refused():
    with pytest.raises(CapplanError, match="every load"):
        one_source([-1.0], 1.0)
    with pytest.raises(CapplanError, match="have no source"):
        Stack(np.array([5.0]), np.ones(1), np.array([1.0]), np.array([[2.0]]))


def test_layers_of_a_pool_without_contracts_are_empty():
    a = assumptions(horizon_quarters=1)
    prices = price_hours(pd.DataFrame([sku("gpu")]), pd.DataFrame([ON_DEMAND]), a)
    speeds = pd.DataFrame([("work", "H100", 1.0)], columns=["class", "accelerator", "work_per_accelerator_hour"])
    pools, _, notes = build_pools(demand([[3.0]]), PoolTables(speeds, prices, pd.DataFrame([work_class()])), a)
    assert best_layers(Periods(pools[0], a), 0).empty
    assert "No contract is offered" in notes[0]
