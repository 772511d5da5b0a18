"""The ingest ledger: parts are added, each file, job and row counts once, restated bills replace, and files can be taken back."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from capplan.book.reader import read_table
from capplan.errors import CapplanError
from capplan.ingest import expanded, ingest
from capplan.ingest.entering import undo
from capplan.ingest.ingest_ledger import Ledger, stem_without_part
from tests.ingest.test_ingest_bills import bill


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "book.yaml").write_text("name: t\n")
    return folder


def content(book: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(book.glob("*.csv"))}


def usage(book: Path) -> pd.DataFrame:
    return pd.read_csv(book / "usage.csv")


def log(folder: Path, name: str, minutes: list[int], extra: str = "", values: str = ",5,1") -> Path:
    rows = "".join(f"2026-09-01T{minute // 60:02d}:{minute % 60:02d}:00Z{values}{extra}\n" for minute in minutes)
    path = folder / name
    path.write_text(f"timestamp,input_tokens,output_tokens{',request_id' if extra else ''}\n" + rows)
    return path


def billed(book: Path) -> float:
    return float(pd.read_csv(book / "billing.csv").billed_cost.sum())


def test_parts_of_an_export_are_added_in_any_way_they_come(tmp_path, book):
    later = {"ChargePeriodStart": "2026-05-04T01:00:00Z", "ChargePeriodEnd": "2026-05-04T02:00:00Z"}
    exports = tmp_path / "exports"
    exports.mkdir()
    parts = [bill(exports, {}, later, name="part_0_0001.csv"), bill(exports, {}, name="part_0_0002.csv")]
    for path in parts:
        ingest("focus", path, book)
    assert usage(book).quantity.tolist() == [16, 8]
    assert billed(book) == pytest.approx(3 * 55.04)
    one_by_one = content(book)
    for name, files in (("folder", [exports]), ("pattern", [exports / "part_*.csv"]), ("both", parts), ("twice", [*parts, *parts])):
        other = tmp_path / name
        other.mkdir()
        ingest("focus", files, other)
        assert content(other) == one_by_one, name
        assert [entry.file for entry in Ledger(other).counting()] == ["part_0_0001.csv", "part_0_0002.csv"]


def test_the_same_file_twice_changes_nothing(tmp_path, book):
    path = bill(tmp_path, {})
    ingest("focus", path, book)
    before = content(book)
    copy = tmp_path / "copy of it.csv"
    copy.write_bytes(path.read_bytes())
    for again in (path, copy):
        found = ingest("focus", again, book)
        assert "Nothing is new" in found.headline
        assert any("is in the book already" in note for note in found.notes)
    assert content(book) == before


def test_a_restated_month_replaces_the_old_one_and_says_so(tmp_path, book):
    june = {
        "BillingPeriodStart": "2026-06-01T00:00:00Z",
        "ChargePeriodStart": "2026-06-01T00:00:00Z",
        "ChargePeriodEnd": "2026-06-01T01:00:00Z",
    }
    ingest("focus", bill(tmp_path, {"ConsumedQuantity": 2}, {**june, "BilledCost": 7}, name="first.csv"), book)
    ingest("focus", bill(tmp_path, {"ProviderName": "Microsoft"}, name="azure.csv"), book)  # another provider's bill of the month stays
    before = content(book)
    found = ingest("focus", bill(tmp_path, {"SubAccountName": "vision", "BilledCost": 50}, name="restated.csv"), book)
    said = [note for note in found.notes if "billed again" in note]
    assert said == [
        "2026-05 of aws is billed again: restated.csv replaces first.csv (55.04 USD billed, 16.0 accelerator-hours before, 50.00 USD"
        " billed, 8.0 accelerator-hours now)."
    ]
    assert billed(book) == pytest.approx(7 + 50 + 55.04)
    assert usage(book).groupby("workload").quantity.sum().to_dict() == {"vision": 8, "lab": 16}
    undo(book, "restated.csv")
    assert content(book) == before
    ingest("focus", tmp_path / "restated.csv", book, restated="add")
    assert billed(book) == pytest.approx(7 + 50 + 55.04 + 55.04)


def test_a_second_run_of_a_partitioned_export_replaces_the_first(tmp_path, book):
    for run, hours in (("run1", (1, 1)), ("run2", (3, 4))):
        (tmp_path / run).mkdir()
        for place, count in enumerate(hours):
            ingest("focus", bill(tmp_path / run, {"ConsumedQuantity": count, "SkuId": run}, name=f"part_0_{place:04d}.csv"), book)
    assert usage(book).quantity.tolist() == [56]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("part_0_0001.csv", "part_0_0002.csv", True),
        ("export-00001.csv.gz", "export-00002.csv.gz", True),
        ("bill-1-of-3.csv", "bill-2-of-3.csv", True),
        ("2026-09.csv", "2026-10.csv", False),
        ("bill-v1.csv", "bill-v2.csv", False),
        ("bill.csv", "bill (1).csv", False),
        ("2026-09-01.csv", "2026-09-30.csv", False),
    ],
)
def test_names_of_parts(one, other, same):
    assert (stem_without_part(one) == stem_without_part(other)) is same


def test_logs_of_several_gateways_are_added_and_overlapping_ones_count_once(tmp_path, book):
    ingest("requests", [log(tmp_path, "a.csv", [10, 70, 80]), log(tmp_path, "b.csv", [30, 110])], book, workload="chat")
    assert usage(book).quantity.tolist() == [2, 3]
    found = ingest("requests", log(tmp_path, "c.csv", [110, 115, 125]), book, workload="chat")
    assert usage(book).quantity.tolist() == [2, 4, 1]
    assert any("1 row is in file 2 already" in note for note in found.notes)
    with pytest.raises(CapplanError, match=r"take c\.csv back first"):
        undo(book, "b.csv")
    undo(book, "c.csv")
    undo(book, "b.csv")
    assert usage(book).quantity.tolist() == [1, 2]
    undo(book, "a.csv")
    assert not (book / "usage.csv").exists()
    assert not (book / "workloads.csv").exists()


def test_requests_with_an_identity_count_once_and_others_as_the_times_agree(tmp_path, book):
    named = log(tmp_path, "named.csv", [1, 1, 2], ",x")
    named.write_text(named.read_text().replace("00:01:00Z,5,1,x", "00:01:00Z,5,1,y", 1))
    again = log(tmp_path, "again.csv", [2, 3, 4, 5, 6], ",x")
    rows = again.read_text().splitlines()
    again.write_text("\n".join([rows[0], rows[1], *(row[:-1] + str(place) for place, row in enumerate(rows[2:]))]) + "\n")
    ingest("requests", [named, again], book, workload="chat")
    assert usage(book).quantity.tolist() == [3 + 4]
    other = ingest(
        "requests", [log(tmp_path, "p.csv", [1, 2, 3, 4]), log(tmp_path, "q.csv", [1, 2, 9, 10], values=",6,1")], book, workload="pods"
    )
    assert usage(book).query("workload == 'pods'").quantity.tolist() == [8]
    assert not any("already" in note for note in other.notes)


def jobs(folder: Path, name: str, rows: list[str]) -> Path:
    path = folder / name
    path.write_text("JobID|Account|State|Submit|Start|End|Elapsed|AllocTRES\n" + "".join(rows))
    return path


def job(number: int, hours: int, state: str = "COMPLETED", end: str | None = None) -> str:
    finish = end or f"2026-09-01T{hours:02d}:00:00"
    return f"{number}|vision|{state}|2026-09-01T00:00:00|2026-09-01T00:00:00|{finish}|{hours:02d}:00:00|gres/gpu=2\n"


def test_a_job_in_two_files_counts_once_as_the_newer_one_has_it(tmp_path, book):
    ingest("slurm", jobs(tmp_path, "sep.txt", [job(1, 3), job(2, 2, "RUNNING", "Unknown")]), book)
    ingest("slurm", jobs(tmp_path, "oct.txt", [job(2, 5), job(3, 1)]), book)
    assert usage(book).quantity.sum() == 2 * (3 + 5 + 1)
    table = pd.read_csv(book / "jobs.csv", dtype={"job_id": str})
    assert table.set_index("job_id").state.to_dict() == {"1": "COMPLETED", "2": "COMPLETED", "3": "COMPLETED"}
    both = tmp_path / "both"
    both.mkdir()
    ingest("slurm", [tmp_path / "sep.txt", tmp_path / "oct.txt"], both)
    assert content(both) == content(book)
    undo(book, "oct.txt")
    assert usage(book).quantity.sum() == 2 * (3 + 2)


def test_rows_of_the_books_own_stay_and_come_back(tmp_path, book):
    (book / "workloads.csv").write_text("workload,stage,unit,team\nchat,serving,requests,mine\n")
    (book / "usage.csv").write_text("time,workload,region,quantity\n2026-09-01T00:00:00,chat,any,7.0\n2026-09-01T01:00:00,chat,any,9.0\n")
    before = content(book)
    ingest("requests", log(tmp_path, "a.csv", [61, 62, 125]), book, workload="chat")
    assert usage(book).quantity.tolist() == [7, 2, 1]
    changed = (book / "usage.csv").read_text().replace("T02:00:00,chat,any,1.0", "T02:00:00,chat,any,5.0")
    (book / "usage.csv").write_text(changed)
    ingest("requests", log(tmp_path, "b.csv", [62, 63], values=",9,9"), book, workload="chat")
    assert usage(book).quantity.tolist() == [7, 4, 5]  # what was changed by hand stays, since no file says otherwise of that hour
    undo(book, "b.csv")
    undo(book, "1")
    assert usage(book).quantity.tolist() == [7, 9]
    assert content(book)["workloads.csv"] == before["workloads.csv"]
    with pytest.raises(CapplanError, match="no file was ingested"):
        undo(book, "a.csv")


def test_another_reading_of_a_file_takes_its_place(tmp_path, book):
    path = log(tmp_path, "a.csv", [1, 2])
    ingest("requests", path, book, workload="caht")
    found = ingest("requests", path, book, workload="chat")
    assert usage(book).workload.tolist() == ["chat"]
    assert any("this reading takes its place" in note for note in found.notes)
    assert pd.read_csv(book / "workloads.csv").workload.tolist() == ["chat"]


def test_corrections_reach_hours_of_an_earlier_file(tmp_path, book):
    ingest("focus", bill(tmp_path, {"ConsumedQuantity": 5}, name="may.csv"), book)
    refund = {
        "BillingPeriodStart": "2026-06-01T00:00:00Z",
        "ChargeClass": "Correction",
        "BilledCost": -1,
        "EffectiveCost": -1,
        "ConsumedQuantity": -2,
    }
    ingest("focus", bill(tmp_path, refund, name="june.csv"), book)
    assert usage(book).quantity.tolist() == [24]


def test_a_fault_in_one_file_of_many_writes_nothing(tmp_path, book):
    ingest("requests", log(tmp_path, "a.csv", [1]), book, workload="chat")
    before = {path: path.read_bytes() for path in book.rglob("*") if path.is_file()}
    bad = log(tmp_path, "bad.csv", [1], values=",x,1")
    with pytest.raises(CapplanError, match=r"bad\.csv"):
        ingest("requests", [log(tmp_path, "c.csv", [3]), bad], book, workload="chat")
    assert {path: path.read_bytes() for path in book.rglob("*") if path.is_file()} == before


def test_names_that_look_like_patterns_are_themselves(tmp_path):
    for name in ("log[1].csv", "log1.csv"):
        (tmp_path / name).write_text("x")
    assert expanded([tmp_path / "log[1].csv"]) == [tmp_path / "log[1].csv"]
    assert expanded([tmp_path / "log*.csv"]) == sorted([tmp_path / "log1.csv", tmp_path / "log[1].csv"])
    with pytest.raises(CapplanError, match="stands for no file"):
        expanded([tmp_path / "*.parquet"])


def test_bills_and_jobs_of_one_team_are_not_added(tmp_path, book):
    ingest("slurm", jobs(tmp_path, "sep.txt", [job(1, 3)]), book)
    other = {
        "SubAccountName": "vision",
        "RegionId": None,
        "BillingPeriodStart": "2026-09-01T00:00:00Z",
        "ChargePeriodStart": "2026-09-01T01:00:00Z",
        "ChargePeriodEnd": "2026-09-01T02:00:00Z",
    }
    found = ingest("focus", bill(tmp_path, other), book)
    assert usage(book).quantity.tolist() == [2, 8, 2]
    assert any("measure the same hours" in note for note in found.notes)
    away = ingest(
        "focus", bill(tmp_path, {**other, "RegionId": "us-east-1", "SubAccountName": "edge"}, name="oct.csv"), book, restated="add"
    )
    assert away.tables["usage"].groupby(["workload", "region"]).quantity.sum().to_dict() == {
        ("vision", "any"): 12,
        ("edge", "us-east-1"): 8,
    }


def test_months_that_no_file_covers_are_no_zeros(tmp_path, book):
    july = {
        "BillingPeriodStart": "2026-07-01T00:00:00Z",
        "ChargePeriodStart": "2026-07-02T00:00:00Z",
        "ChargePeriodEnd": "2026-07-02T01:00:00Z",
    }
    june = {
        "BillingPeriodStart": "2026-06-01T00:00:00Z",
        "ChargePeriodStart": "2026-06-30T23:00:00Z",
        "ChargePeriodEnd": "2026-07-01T00:00:00Z",
        "SubAccountName": "other",
    }
    ingest("focus", bill(tmp_path, {}, name="may.csv"), book)
    found = ingest("focus", bill(tmp_path, july, name="july.csv"), book)
    times = pd.to_datetime(usage(book).time)
    assert not ((times >= "2026-06-01") & (times < "2026-07-01")).any()
    assert any("no file covers 720 intervals" in note for note in found.notes)
    ingest("focus", bill(tmp_path, june, name="june.csv"), book)  # a bill without this team's hours says that they were zero
    mine = usage(book).query("workload == 'lab'")
    assert len(mine) == (pd.Timestamp("2026-07-02") - pd.Timestamp("2026-05-04")) / pd.Timedelta(hours=1) + 1
    assert mine.quantity.sum() == 16


def test_an_hour_that_two_logs_cover_in_turn_is_whole(tmp_path, book):
    first, second = log(tmp_path, "a.csv", list(range(30, 90))), log(tmp_path, "b.csv", list(range(90, 150)))
    ingest("requests", first, book, workload="chat")
    assert usage(book).covered_share.notna().sum() == 2
    ingest("requests", second, book, workload="chat")
    frame = usage(book)
    assert frame.quantity.tolist() == [30, 60, 30]
    assert frame.covered_share.round(1).fillna(1.0).tolist() == [0.5, 1.0, 0.5]


def test_demand_scales_hours_that_were_seen_in_part():
    from capplan.book.assumptions.demand import DemandAssumptions
    from capplan.questions.demand.demand_rows import demand_rows

    times = pd.date_range("2026-09-01", periods=4, freq="h")
    frame = pd.DataFrame(
        {"time": times, "workload": "chat", "region": "any", "quantity": [6.0, 10.0, 10.0, 1.0], "covered_share": [0.6, None, None, 0.1]}
    )
    notes: list[str] = []
    rows = demand_rows(frame, DemandAssumptions(as_of="2026-12-01", first_quarter="2027Q1"), notes)
    assert rows.quantity.tolist() == [10, 10, 10]
    assert len(notes) >= 2


LIVE = ['=HYPERLINK("http://x")', "+1", "-5", "@sum", "'=1", "chat"]


def test_names_that_a_spreadsheet_would_run_are_inert_in_every_file_of_a_book_and_come_back_as_they_are(tmp_path, book):
    source = tmp_path / "=jobs.csv"
    frame = pd.DataFrame({"job_id": [f"j{at}" for at in range(len(LIVE))], "user": LIVE})
    times = {"submit_time": "2026-09-01T00:00:00Z", "start_time": "2026-09-01T00:00:00Z", "end_time": "2026-09-01T02:00:00Z"}
    frame.assign(**times, team=LIVE, gpus=2).to_csv(source, index=False)
    ingest("jobs", source, book)
    first = content(book)
    for file in book.rglob("*.csv"):
        cells = pd.read_csv(file, dtype=str, keep_default_na=False)
        assert not cells.map(lambda cell: cell.startswith(("=", "+", "-", "@"))).to_numpy().any(), file.name
    names = read_table(book / "usage.csv", "usage")[0]
    assert set(names["workload"]) == set(LIVE)
    assert (names.groupby("workload")["quantity"].sum() == 4).all()
    ingest("jobs", source, book)
    assert content(book) == first
    assert [entry.file for entry in Ledger(book).counting()] == ["=jobs.csv"]
    undo(book, "=jobs.csv")
    assert not content(book)
