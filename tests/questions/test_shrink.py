"""What should shrink, move or stay: signs by hand, and verdicts with their savings."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.answers.spend_less import options_of
from capplan.book.scenario import ReviewAssumptions, Scenario
from capplan.questions.review.flags import GOODPUT, OVERRUN, SCALING, STEP_TIME, UTILISATION, work_flags
from capplan.questions.review.portfolio_review import DO_NOT_SCALE, KEEP, RETIRE, Option, portfolio_verdicts
from tests.conftest import example_book

A = Scenario().section(ReviewAssumptions)
WORKLOADS = pd.DataFrame(
    [("train", "exaflop", "Ann", "research"), ("tune", "accelerator_hours", "Ben", "product")],
    columns=["workload", "unit", "owner", "team"],
)


CURVES = pd.DataFrame({"curve": [], "accelerators": [], "throughput": [], "unit": []})


def job(month: int, hours: float, workload: str = "train", **more: object) -> dict:
    base = {"submit": pd.Timestamp(2027, month, 3), "start": pd.NaT, "duration_seconds": 3600.0 * hours, "accelerators": 8.0}
    return {**base, "workload": workload, "expected_seconds": None, "utilisation_share": None, "state": None, **more}


def jobs(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(rows).astype({"expected_seconds": float, "utilisation_share": float, "start": "datetime64[ns]"})


def usage(*months: float) -> pd.DataFrame:
    """Work of whole months from January on, all on their days."""
    parts = [
        pd.DataFrame(
            {"time": pd.date_range(f"2027-{number:02d}-01", periods=pd.Timestamp(2027, number, 1).days_in_month * 24, freq="h")}
        ).assign(each=each)
        for number, each in enumerate(months, 1)
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(workload="train", quantity=rows["each"])[["time", "workload", "quantity"]]


def signs(table: pd.DataFrame) -> dict[tuple[str, str], tuple[float, bool]]:
    return {(row.workload, row.sign): (row.measured_share, row.flagged) for row in table.itertuples()}


def test_jobs_that_overrun_and_accelerators_that_wait_are_flagged_by_accelerator_hours():
    rows = jobs(
        job(1, 30.0, expected_seconds=20 * 3600.0, utilisation_share=0.9),
        job(1, 10.0, expected_seconds=10 * 3600.0, utilisation_share=0.1),
        job(1, 10.0, "tune", utilisation_share=0.4),
        job(1, 10.0, "tune"),
    )
    found = signs(work_flags(rows, usage(1.0), WORKLOADS, CURVES, A))
    assert found["train", OVERRUN] == (pytest.approx(40 / 30 - 1), True)
    assert found["train", UTILISATION] == (pytest.approx((30 * 0.9 + 10 * 0.1) / 40), False)
    assert found["tune", UTILISATION] == (pytest.approx(0.4), True)
    assert ("tune", OVERRUN) not in found
    kind = A.model_copy(update={"overrun_share": 0.5, "least_utilisation_share": 0.3})
    assert not work_flags(rows, usage(1.0), WORKLOADS, CURVES, kind)["flagged"].any(), "thresholds are assumptions"


def test_hours_of_failed_jobs_and_accelerators_that_add_little_are_flagged():
    rows = jobs(
        job(1, 30.0, state="COMPLETED"),
        job(1, 10.0, state="NODE_FAIL"),
        job(1, 90.0, state="RUNNING"),
        job(1, 50.0),
        job(1, 8.0, "tune", state="Passed"),
        job(1, 2.0, "tune", state="CANCELLED by 7"),
    )
    curves = pd.DataFrame(
        [
            ("70B", 64, 448.0, "tokens/s"),
            ("70B", 8, 80.0, "tokens/s"),
            ("8B", 8, 90.0, "tokens/s"),
            ("timed", 4, 100.0, "minutes"),
            ("timed", 16, 27.0, "minutes"),
        ],
        columns=list(CURVES),
    )
    found = signs(work_flags(rows, usage(1.0), WORKLOADS, curves, A))
    assert found["train", GOODPUT] == (pytest.approx(30 / 40), True)
    assert found["tune", GOODPUT] == (1.0, False), "who stops a job knows why"
    assert found["70B", SCALING] == (pytest.approx(7.0 / 10.0), True)
    assert found["timed", SCALING] == (pytest.approx(100 / 27 / 4), False)
    assert ("8B", SCALING) not in found, "one count tells nothing"


@pytest.mark.parametrize(("hours", "change", "flagged"), [(10.0, 0.0, False), (11.9, 0.19, False), (12.5, 0.25, True)])
def test_a_unit_that_takes_longer_than_in_the_months_before_is_flagged(hours, change, flagged):
    rows = jobs(job(1, 10.0), job(2, 10.0), job(3, hours))
    work = usage(1.0, 31 / 28, 1.0)
    assert signs(work_flags(rows, work, WORKLOADS, CURVES, A))["train", STEP_TIME] == (pytest.approx(change), flagged)
    # a month that has not ended in the usage does not count, nor does one month tell a change
    unended = work[work["time"] < "2027-03-20"]
    assert signs(work_flags(rows, unended, WORKLOADS, CURVES, A))["train", STEP_TIME] == (pytest.approx(0.0), False)
    assert ("train", STEP_TIME) not in signs(work_flags(rows, work[work["time"] < "2027-02-01"], WORKLOADS, CURVES, A))


def test_verdicts_have_their_saving_owner_and_what_must_hold():
    economics = pd.DataFrame(
        [
            ("chat", "Ann", 600.0, 10.0, 20.0, 10.0),
            ("dead", "Ben", 300.0, None, 20.0, None),
            ("loss", "Cid", 120.0, 10.0, 8.0, -2.0),
            ("idle", "Dee", 100.0, 10.0, None, None),
            ("fine", "Eve", 100.0, 10.0, 20.0, 10.0),
        ],
        columns=["workload", "owner", "amount", "amount_per_thousand", "value_per_thousand", "margin_per_thousand"],
    )
    flags = pd.DataFrame([("idle", UTILISATION, 0.35, True)], columns=["workload", "sign", "measured_share", "flagged"])
    options = [Option("chat", "move", 0.25, "high", "it answers as well"), Option("unknown", "move", 0.5, "high", "")]
    table = portfolio_verdicts(economics, flags, options, 3, A)
    found = {row.workload: (row.owner, row.verdict, row.yearly_saving_amount, row.confidence) for row in table.itertuples()}
    assert found == {
        "dead": ("Ben", RETIRE, 1200.0, "medium"),
        "chat": ("Ann", "move", 600.0, "high"),
        "idle": ("Dee", DO_NOT_SCALE, pytest.approx(400.0 * (1 - 0.35 / 0.7)), "low"),
        "loss": ("Cid", RETIRE, pytest.approx(480.0 * 0.2), "medium"),
        "fine": ("Eve", KEEP, 0.0, "high"),
    }
    assert table["yearly_saving_amount"].is_monotonic_decreasing
    assert table["would_have_to_be_true"].str.len().gt(10).sum() == 5


@pytest.mark.slow
def test_a_cheaper_call_is_found_with_its_saving_and_its_limit():
    book = example_book()
    found = {(one.workload, one.verdict): one for one in options_of(book, book.scenario)[0]}
    cheap = found["drafts", "move to a cheaper tier: drafts-groq"]
    # list prices a million tokens of input and output: 0.18 both at the one, 0.05 and 0.08 at the other
    assert cheap.saving_share == pytest.approx(1 - (4000 * 0.05 + 350 * 0.08) / (4350 * 0.18))
    assert cheap.confidence == "medium"
    assert "720,000 requests" in cheap.would_have_to_be_true
    assert 0 < found["chat", "send easy requests to a smaller model"].saving_share < 1
    for service in ("chat", "drafts"):  # every hosted service, not only the largest
        assert 0 < found[service, "pull all levers before hardware"].saving_share < 1
