"""Books: what is read, and how every fault is named."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from capplan.book.book import load_book, new_book
from capplan.book.reader import read_table
from capplan.book.scenario import Change
from capplan.errors import BookError, CapplanError, MissingTableError, ScenarioError
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly

OFFER_HEADER = "offer_id,sku,region,geography,term,usd_per_hour,as_of,source_id\n"


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(BookError) as caught:
        load_book(folder)
    return [str(fault) for fault in caught.value.faults]


def test_usage_and_contracts_are_a_valid_book(make_book):
    book = load_book(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    assert book.scenario.first_quarter == "2026Q2"
    assert str(book.scenario.as_of) == "2026-01-04"
    assert list(book.get("workloads")["workload"]) == ["chat"]
    speeds = book.get("speeds")
    assert list(zip(speeds["workload"], speeds["accelerator"], speeds["work_per_accelerator_hour"], strict=True)) == [("chat", "H100", 1.0)]
    assert any("no workloads table" in note for note in book.notes)
    assert any("No speeds are stated" in note for note in book.notes)


def test_a_missing_table_names_the_question(make_book):
    book = load_book(make_book(usage=hourly()))
    with pytest.raises(
        MissingTableError, match=r"The purchase plan needs the table commitments .*Add .*commitments\.csv with the columns commitment_id"
    ):
        book.need("commitments", "The purchase plan")


def test_all_faults_at_once(make_book):
    folder = make_book(
        usage="time,workload,quantity\n2026-01-01T00:00:00,chat,-1\n2026-01-01T01:00:00,chat,many\n",
        commitments=CONTRACTS.replace("2026-12-31", "2025-12-31"),
        skus=SKUS,
        sources=SOURCES,
        limits="limit_id,kind,amount,quarter\nq,quota_accelerators,8,2027Q5\n",
        book="first_quarter: 2026Q2\nas_of: 2026-01-04\n",
    )
    text = "\n".join(faults_of(folder))
    for part in (
        "usage.csv, row 2, column quantity: found '-1.0'; must be a number at least 0",
        "usage.csv, row 3, column quantity: found 'many'",
        "commitments.csv, row 2, column start + end: found 'start=2026-01-01, end=2025-12-31'; start must not lie after end",
        "limits.csv, row 2, column quarter: found '2027Q5'",
        "there are Q1 to Q4",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('"1,234.5"', "without thousands separators"),
        ("1 234", "without thousands separators"),
        ('"12,5"', "Write a decimal point"),
        ("50%", "a share between 0 and 1"),
        ("$5", "without a currency sign"),
        ("nan", "a number"),
        ("inf", "a number"),
        ("", "must not be empty"),
        ("-3", "at least 0"),
        ("1e400", "a number"),
    ],
)
def test_numbers_that_are_none(make_book, cell, said):
    (fault,) = faults_of(make_book(usage=f"time,workload,quantity\n2026-01-01T00:00:00,chat,{cell}\n"))
    assert "usage.csv, row 2, column quantity" in fault
    assert said in fault


@pytest.mark.parametrize("cell", ["1e308", "-1e18", "inf", "9" * 19])
def test_a_number_beyond_all_quantities_is_told_so(make_book, cell):
    (fault,) = faults_of(make_book(usage=hourly(), commitments=CONTRACTS.replace(",4,20,", f",{cell},20,"), skus=SKUS, sources=SOURCES))
    assert f"commitments.csv, row 2, column machines: found '{cell}'; must be a number of a size below 1e+18. " in fault


def test_a_message_ends_its_sentences_once(make_book):
    fault = faults_of(make_book(usage=hourly().replace("quantity", "quantitee")))[0]
    assert "?." not in fault


def test_byte_order_mark_and_windows_line_ends_are_harmless(make_book):
    text = hourly().replace("\n", "\r\n").encode()
    plain, marked = load_book(make_book("plain", usage=hourly())), load_book(make_book("marked", usage=b"\xef\xbb\xbf" + text))
    pd.testing.assert_frame_equal(plain.usage, marked.usage)
    assert plain.digests["usage"] == marked.digests["usage"]


def test_semicolons_are_named_not_guessed(make_book):
    (fault,) = faults_of(make_book(usage="time;workload;quantity\n2026-01-01T00:00:00;chat;1,5\n"))
    assert "separated by commas" in fault
    assert "decimal points" in fault


@pytest.mark.parametrize("content", ["", " \n\n", b"\xef\xbb\xbf"])
def test_empty_file(make_book, content):
    (fault,) = faults_of(make_book(usage=content))
    assert fault.startswith("usage.csv; the file is empty")


def test_header_without_rows_is_an_empty_table(make_book):
    book = load_book(make_book(usage=hourly(), events="event_id,workload,date,kind\n"))
    assert book.get("events").empty


def test_not_utf8_names_the_row(make_book):
    (fault,) = faults_of(make_book(usage="time,workload,quantity\n2026-01-01T00:00:00,caf\xe9,1\n".encode("latin-1")))
    assert fault.startswith("usage.csv, row 2")
    assert "UTF-8" in fault


def test_ragged_rows(make_book):
    assert (
        "the header has 3 columns and this row 4"
        in faults_of(make_book(usage="time,workload,quantity\n2026-01-01T00:00:00,chat,1,234\n2026-01-01T01:00:00,chat,2\n"))[0]
    )
    assert (
        "the header has 3 columns and this row 4"
        in faults_of(make_book("b", usage="time,workload,quantity\n2026-01-01T00:00:00,chat,1,234\n"))[0]
    )
    assert (
        "row 3, column quantity; the cell must not be empty"
        in faults_of(make_book("c", usage="time,workload,quantity\n2026-01-01T00:00:00,chat,1\n2026-01-01T01:00:00,chat\n"))[0]
    )


def test_unknown_and_missing_columns(make_book):
    text = "\n".join(faults_of(make_book(usage="time,wrkload,quantity\n2026-01-01T00:00:00,chat,1\n")))
    assert "usage has no such column; did you mean workload?" in text
    assert "column workload; the column is missing" in text


def test_unknown_file_names_the_nearest_table(make_book):
    assert "comitments is not a table; did you mean commitments" in faults_of(make_book(usage=hourly(), comitments=CONTRACTS))[0]


def test_duplicate_key_names_both_rows(make_book):
    (fault,) = faults_of(
        make_book(
            usage=hourly(),
            events="event_id,workload,date,kind,factor\na,chat,2026-02-01,launch,2\na,chat,2026-03-01,launch,2\n",
            workloads="workload,stage,unit\nchat,serving,requests\n",
        )
    )
    assert "events.csv, row 3, column event_id: found 'a'; the key occurs already in row 2" in fault


def test_unknown_sku_names_the_nearest(make_book):
    (fault,) = faults_of(make_book(usage=hourly(), commitments=CONTRACTS.replace("test.8x", "test.8y"), skus=SKUS, sources=SOURCES))
    assert "commitments.csv, row 2, column sku: found 'test.8y'; skus has no such sku. Did you mean test.8x?" in fault


def test_gap_and_summer_time(make_book):
    lines = hourly(4, "2026-03-28").splitlines()
    gap = "\n".join(line for line in lines if not line.startswith("2026-03-29T02")) + "\n"
    (fault,) = faults_of(make_book(usage=gap))
    assert "chat in any has a row every 1 hour, but 2 hours lie between this row and the one before" in fault
    assert "summer time" in fault
    autumn = "time,workload,quantity\n" + "".join(f"2026-10-25T0{hour}:00:00,chat,1\n" for hour in (1, 2, 2, 3))
    (fault,) = faults_of(make_book("autumn", usage=autumn))
    assert "local times repeat an hour" in fault
    zoned = "time,workload,quantity\n2026-10-25T02:00:00+02:00,chat,1\n2026-10-25T02:00:00+01:00,chat,2\n2026-10-25T03:00:00+01:00,chat,3\n"
    assert list(load_book(make_book("zoned", usage=zoned)).usage["time"].dt.hour) == [0, 1, 2]


def test_mixed_time_zones(make_book):
    (fault,) = faults_of(make_book(usage="time,workload,quantity\n2026-01-01T00:00:00Z,chat,1\n2026-01-01T01:00:00,chat,2\n"))
    assert "1 rows state a time zone and 1 do not" in fault


@pytest.mark.parametrize("text", ["01/02/2026", "2026-02-30", "2026-13-01", "yesterday", "2026-01-01T25:00:00"])
def test_dates_that_do_not_exist(make_book, text):
    (fault,) = faults_of(make_book(usage=f"time,workload,quantity\n{text},chat,1\n"))
    assert "usage.csv, row 2, column time" in fault
    assert "Write dates as" in fault


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("o1,test.8x,us-1,us,on_demand,0,2026-01-01,s1", "a price of zero is never taken"),
        ("o1,test.8x,us-1,us,on_demand,,2026-01-01,s1", "must not be empty"),
        ("o1,test.8x,us-1,us,on_demand,-2,2026-01-01,s1", "at least 0"),
        ("o1,test.8x,us-1,us,ondemand,5,2026-01-01,s1", "Did you mean on_demand"),
        ("o1,test.8x,us-1,us,lease,5,2026-01-01,s1", "must state their length"),
        ("o1,test.8x,us-1,us,owned,0,2026-01-01,s1", "needs its purchase price"),
        ("o1,test.8x,us-1,us,on_demand,5,2026-01-01,s9", "sources has no such source_id"),
    ],
)
def test_prices_are_never_taken_silently(make_book, row, said):
    text = "\n".join(faults_of(make_book(usage=hourly(), skus=SKUS, sources=SOURCES, offers=OFFER_HEADER + row + "\n")))
    assert "offers.csv, row 2" in text
    assert said in text


def test_probabilities_must_sum_to_one(make_book):
    stated = "scenario,probability,workload,quarter,quantity\nlow,0.5,chat,2026Q2,1\nhigh,0.6,chat,2026Q2,2\n"
    (fault,) = faults_of(make_book(demand_scenarios=stated, book="as_of: 2026-01-01\nfirst_quarter: 2026Q2\n"))
    assert "must sum to 1" in fault


def test_payment_schedule_must_add_up(make_book):
    payments = "commitment_id,date,usd\nc1,2026-01-01,1000\n"
    (fault,) = faults_of(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES, payments=payments))
    assert "must sum to the contract's 700,800.00 USD" in fault


def test_book_yaml(make_book):
    with pytest.raises(ScenarioError, match=r"risk_wieght is not an assumption; did you mean risk_weight\?"):
        load_book(make_book(usage=hourly(), book="risk_wieght: 0.5\n"))
    with pytest.raises(ScenarioError, match=r"2025Q4 began before as_of"):
        load_book(make_book(usage=hourly(), book="first_quarter: 2025Q4\n"))
    assert "must be YAML" in faults_of(make_book("y", usage=hourly(), book="a: [1\n"))[0]
    assert "needs its rate" in faults_of(make_book("z", usage=hourly(), book="currency: EUR\n"))[0]


def test_nothing_in_a_book_is_executed(make_book):
    folder = make_book(usage=hourly(), book="name: !!python/object/apply:os.system ['touch pwned']\n")
    assert "must be YAML" in faults_of(folder)[0]
    assert not Path("pwned").exists()


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(CapplanError, match="not a folder"):
        load_book(tmp_path / "nowhere")
    (tmp_path / "void").mkdir()
    with pytest.raises(BookError, match="no tables"):
        load_book(tmp_path / "void")


def test_changes_are_checked_like_new_input(make_book):
    book = load_book(make_book(usage=hourly(), commitments=CONTRACTS, skus=SKUS, sources=SOURCES))
    changed = book.with_changes((Change(table="commitments", key="c1", column="machines", multiply=2),))
    assert changed.commitments["machines"].tolist() == [8]
    assert book.commitments["machines"].tolist() == [4]
    assert changed.digests["commitments"] != book.digests["commitments"]
    for change, said in [
        (Change(table="comitments", key="c1", column="machines", set=1), "did you mean commitments"),
        (Change(table="commitments", key="c9", column="machines", set=1), "no row has commitment_id = c9"),
        (Change(table="commitments", key="c1", column="machine", set=1), "did you mean machines"),
        (Change(table="commitments", key="c1", column="machines", set=-1), "does not fit"),
        (Change(table="commitments", key="c1", column="end", set="2025-01-01"), "does not fit"),
        (Change(table="commitments", key="c1", column="region", multiply=2), "cannot be multiplied"),
    ]:
        with pytest.raises(CapplanError, match=said):
            book.with_changes((change,))


def test_new_book_is_whole_or_not_there(tmp_path):
    assert "copy of the example enterprise" in new_book(tmp_path / "mine", "enterprise")
    load_book(tmp_path / "mine")
    with pytest.raises(CapplanError, match="not empty"):
        new_book(tmp_path / "mine", "enterprise")
    with pytest.raises(CapplanError, match="did you mean enterprise"):
        new_book(tmp_path / "other", "enterprize")
    assert not (tmp_path / "other").exists()
    new_book(tmp_path / "empty", as_of="2026-12-01")
    assert (tmp_path / "empty" / "book.yaml").read_text() == "name: empty\nas_of: '2026-12-01'\n"


@pytest.mark.parametrize(("accelerator", "remedy"), [("Mi300x", "Did you mean MI300X"), ("h100", "Did you mean H100 or")])
def test_a_remedy_writes_names_as_they_are(make_book, accelerator, remedy):
    skus = f"sku,provider,accelerator,accelerator_count,source_id\ntest.8x,aws,{accelerator},8,s1\n"
    folder = make_book(usage=hourly(), commitments=CONTRACTS, skus=skus, sources=SOURCES)
    assert any(remedy in fault for fault in faults_of(folder))


def test_a_cell_of_a_megabyte_is_not_echoed_whole(make_book):
    folder = make_book(usage=hourly(), commitments=CONTRACTS.replace("2026-12-31", "9" * 1_000_000), skus=SKUS, sources=SOURCES)
    assert all(len(fault) < 400 for fault in faults_of(folder))


def test_a_number_that_was_written_comes_back_as_it_was(tmp_path):
    numbers = [0.1, 1 / 3, 1 / 6, 2 / 3 * 1e-7, 123456.789012345678, 1e17 + 7, 0.30000000000000004]
    rows = "".join(f"2026-01-01T{hour:02d}:00:00,chat,{number!r}\n" for hour, number in enumerate(numbers))
    (tmp_path / "usage.csv").write_text("time,workload,quantity\n" + rows)
    frame, faults = read_table(tmp_path / "usage.csv", "usage")
    assert not faults
    assert frame["quantity"].tolist() == numbers
