"""What holds of every whole plan, on small random books: money, service, terms, order of costs, and the same bytes anywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from capplan import load_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.sums import spend
from capplan.contract_kinds import TERM_MONTHS
from capplan.units import quarter_hours
from tests.conftest import ROOT
from tests.questions.test_board import TABLES

pytestmark = pytest.mark.slow
#: A plan takes seconds, so few are tried, and a counterexample is not made smaller.
FEW = settings(
    max_examples=3,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
#: Committed hours to spare in the half of a quarter that a contract covers: a tie at price zero let the dispatch serve more than was asked.
HALF_COVERED = {
    "demand": (5479, 1.5, 0.4962819719777789),
    "prices": (19.59066972244795, 20.0, 6.0),
    "held": (1, "2027-02-14"),
    "upfront": 0.0,
    "lead": 0,
    "budget": None,
    "assumed": {"risk_weight": 0.0, "horizon_end": "truncate", "fiscal_year_first_month": 1, "payment_terms_days": 0},
}
CENT = 0.01

books = st.fixed_dictionaries(
    {
        "demand": st.tuples(st.integers(1_000, 40_000), st.floats(1.0, 2.5), st.floats(0.3, 1.5)),
        "prices": st.tuples(st.floats(8, 30), st.floats(20, 60), st.floats(6, 25)),
        "held": st.tuples(st.integers(1, 3), st.sampled_from(["2027-02-14", "2027-03-31", "2027-06-30", "2028-01-10"])),
        "upfront": st.sampled_from([0.0, 0.4, 1.0]),
        "lead": st.integers(0, 60),
        "budget": st.sampled_from([None, (60_000, "false"), (900_000, "true")]),
        "assumed": st.fixed_dictionaries(
            {
                "risk_weight": st.floats(0, 1),
                "horizon_end": st.sampled_from(["truncate", "count_in_full"]),
                "fiscal_year_first_month": st.integers(1, 12),
                "payment_terms_days": st.sampled_from([0, 30, 45]),
            }
        ),
    }
)


def written(folder, drawn):
    """A small book with everything that contracts may have."""
    size, high, step = drawn["demand"]
    year, hour, spot = drawn["prices"]
    machines, end = drawn["held"]
    rows = [
        f"{name},0.5,{work},2027Q{quarter},{size * part * (1 + (quarter - 1) * step)}"
        for name, part in (("low", 1.0), ("high", high))
        for work in ("chat", "tune")
        for quarter in (1, 2)
    ]
    tables = TABLES | {
        "demand_scenarios": "\n".join(["scenario,probability,workload,quarter,quantity", *rows]) + "\n",
        "commitments": TABLES["commitments"].replace("reserved_1y,1,16", f"lease,{machines},16").replace("2027-03-31", end),
        "offers": (
            "offer_id,sku,region,geography,term,usd_per_hour,upfront_share,lead_time_days_p50,discounts,guarantees_capacity,as_of,source_id\n"
            f"year,m,us-1,us,reserved_1y,{year},{drawn['upfront']},{drawn['lead']},units,true,2026-12-01,s\n"
            f"hour,m,us-1,us,on_demand,{hour},0,0,none,false,2026-12-01,s\ncheap,m,us-1,us,spot,{spot},0,0,none,false,2026-12-01,s\n"
        ),
        "book": TABLES["book"].replace("horizon_end: truncate\n", "") + "".join(f"{k}: {v}\n" for k, v in drawn["assumed"].items()),
    }
    if drawn["budget"]:
        tables["limits"] = "limit_id,kind,amount,measure,hard\nb,budget_usd,{},p_and_l,{}\n".format(*drawn["budget"])
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, text in tables.items():
        (folder / ("book.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    return load_book(folder)


@FEW
@given(drawn=books)
@example(drawn=HALF_COVERED)
def test_every_plan_adds_up_serves_once_and_keeps_its_terms(tmp_path, drawn):
    book = written(tmp_path / "book", drawn)
    plan = quarterly_plan(book)
    bought, entries = plan.purchases, plan.ledger.entries

    # money: a contract costs the same in every view over its life, and what is shown is what is booked
    life = entries[entries["component"].isin(["commitment", "purchase"])]
    by_view = life.pivot_table(index="contract_id", columns="view", values="usd", aggfunc="sum")
    for view in ("billed", "p_and_l"):
        assert by_view[view].to_numpy() == pytest.approx(by_view["cash"].to_numpy(), abs=CENT)
    signed = bought.purchases
    assert (signed["machines"] * signed["hours"] * signed["usd_per_hour"]).to_numpy() == pytest.approx(signed["usd"].to_numpy(), abs=CENT)
    quarters = spend(plan).set_index("quarter")["expected"]
    expense = entries[(entries["view"] == "p_and_l") & entries["quarter"].isin(quarters.index)]
    assert quarters.sum() == pytest.approx(expense["amount"].sum(), abs=CENT)
    used = bought.costs[bought.costs["component"].isin(["on_demand", "spot"])]
    by_use = expense.loc[expense["component"].isin(["on_demand", "spot"]), "usd"].sum()
    assert by_use == pytest.approx((used["probability"] * used["usd"]).sum(), rel=1e-9, abs=CENT)

    # service: all work is served once, or not at all
    service = bought.service
    assert (service["served"] + service["shortfall"]).to_numpy() == pytest.approx(service["demanded"].to_numpy(), rel=1e-6, abs=1e-3)
    assert (service[["served", "shortfall"]] >= -1e-6).all().all()
    chance = bought.costs.drop_duplicates("path").set_index("path")["probability"]
    asked = (service["demanded"] * service["path"].map(chance)).groupby([service["class"], service["quarter"]]).sum()
    done = bought.dispatch.groupby(["class", "quarter"])["expected_work"].sum().reindex(asked.index)
    assert done.to_numpy() == pytest.approx(asked.to_numpy(), rel=1e-6, abs=1e-3)
    held = bought.capacity.assign(hours=[quarter_hours(label) for label in bought.capacity["quarter"]])
    there = (held["accelerators"] * held.get("share", 1.0) * held["hours"]).groupby(held["quarter"]).sum()
    committed = bought.dispatch[bought.dispatch["source"] == "committed"].groupby("quarter")["expected_accelerator_hours"].sum()
    assert (committed <= there.reindex(committed.index) * (1 + 1e-9) + 1e-6).all()

    # terms: nothing is bought, there or paid for beyond its end
    for row in bought.purchases.to_dict("records"):
        assert row["ends"] < row["starts"] + pd.DateOffset(months=TERM_MONTHS[row["term"]])
        assert row["signed_on"] >= pd.Timestamp(book.scenario.as_of)
    last = pd.concat([book.get("commitments").set_index("commitment_id")["end"]])
    for name, end in last.items():
        months = entries.loc[(entries["contract_id"] == name) & (entries["view"] == "p_and_l"), "month"]
        assert months.max() <= end


@FEW
@given(drawn=books, more=st.floats(1.05, 1.6))
def test_more_work_or_higher_prices_never_cost_less_than_is_proven(tmp_path, drawn, more):
    book = written(tmp_path / "book", drawn | {"budget": None})
    base = quarterly_plan(book).purchases.proof
    for field in ("demand_factor", "price_factor"):
        moved = quarterly_plan(book, book.scenario.replaced(**{field: more})).purchases.proof
        assert moved.upper_usd >= base.lower_usd - CENT, field
        assert base.lower_usd <= base.upper_usd + CENT


PRINT = """
import hashlib, sys
from capplan import load_book
from capplan.answers.plan import quarterly_plan
from capplan.outputs.export.files import table_text
from capplan.outputs.run.report import tables_of
for name, frame in sorted(tables_of(quarterly_plan(load_book(sys.argv[1]))).items()):
    print(name, hashlib.sha256(table_text(frame).encode()).hexdigest())
"""
PLACES = (
    {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8"},
)


def test_a_plan_has_the_same_bytes_under_any_seed_of_names_threads_zone_and_locale(tmp_path):
    drawn = {
        "demand": (17_000, 1.7, 0.6),
        "prices": (17.0, 41.0, 13.0),
        "held": (2, "2027-02-14"),
        "upfront": 0.4,
        "lead": 20,
        "budget": (60_000, "false"),
        "assumed": {"risk_weight": 0.4, "horizon_end": "count_in_full", "fiscal_year_first_month": 4, "payment_terms_days": 45},
    }
    folder = written(tmp_path / "book", drawn).path
    said = []
    for place in PLACES:
        environment = {name: value for name, value in os.environ.items() if name != "CAPPLAN_ANSWERS"} | place
        done = subprocess.run(
            [sys.executable, "-c", PRINT, str(folder)], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
        )
        said.append(done.stdout)
    assert said[0].count("\n") > 15
    assert said[0] == said[1]
