"""Many files of one layout are read in one scan, and every row still knows its file; unlike ones are read one by one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from capplan.errors import BookError
from capplan.ingest import ingest, traffic
from capplan.ingest.entering import undo
from capplan.ingest.ingest_ledger import Ledger
from capplan.ingest.layouts import batches_of
from tests.ingest.test_ingest_bills import bill
from tests.ingest.test_ingest_ledger import content, job, jobs, log


def fresh(folder: Path, name: str) -> Path:
    book = folder / name
    book.mkdir()
    (book / "book.yaml").write_text("name: t\n")
    return book


def tables(book: Path) -> dict[str, bytes]:
    return {name: text for name, text in content(book).items() if name != "sources.csv"}


def halves(path: Path, folder: Path, header: int = 1) -> list[Path]:
    """Cut a file into three parts of other lengths."""
    lines = path.read_text().splitlines(keepends=True)
    rows, third = lines[header:], len(lines) // 3
    parts = []
    for number, chunk in enumerate((rows[:third], rows[third : third + 1], rows[third + 1 :])):
        part = folder / f"part_{number:04d}{path.suffix}"
        part.write_text("".join([*lines[:header], *chunk]))
        parts.append(part)
    return parts


def requests(folder: Path) -> Path:
    return log(folder, "part.csv", [*range(3, 240, 20)])


def invoice(folder: Path) -> Path:
    times = [f"2026-05-04T{hour:02d}:00:00Z" for hour in range(8)]
    rows = [{"ChargePeriodStart": start, "ChargePeriodEnd": start[:14] + "59:59Z"} for start in times[:-1]]
    return bill(folder, *rows, {"ChargeCategory": "Credit", "BilledCost": -20}, {"SubAccountName": "other"}, name="part.csv")


def queue(folder: Path) -> Path:
    return jobs(folder, "part.txt", [job(number, 1 + number % 4) for number in range(1, 9)])


def table(folder: Path) -> Path:
    path = folder / "part.csv"
    rows = "".join(
        f"2026-09-01 0{hour}:00:00,2026-09-01 0{hour}:30:00,{600 * (hour + 1)},{hour % 3 + 1},team-{hour % 2}\n" for hour in range(8)
    )
    path.write_text("submit_time,start_time,duration,gpus,team\n" + rows)
    return path


@pytest.mark.parametrize(("format", "make"), [("requests", requests), ("focus", invoice), ("slurm", queue), ("jobs", table)])
def test_a_folder_covers_the_time_of_all_its_files(tmp_path, format, make):
    folder = tmp_path / "folder"
    folder.mkdir()
    alone = [ingest(format, part).period for part in halves(make(tmp_path), folder)]
    assert ingest(format, folder).period == (min(first for first, _ in alone), max(last for _, last in alone))


@pytest.mark.parametrize(("format", "make"), [("requests", requests), ("focus", invoice), ("slurm", queue), ("jobs", table)])
def test_a_folder_gives_what_one_file_with_its_rows_gives(tmp_path, format, make):
    whole = make(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    parts = halves(whole, folder)
    one, many, turn = fresh(tmp_path, "one"), fresh(tmp_path, "many"), fresh(tmp_path, "turn")
    ingest(format, whole, one)
    found = ingest(format, folder, many)
    for part in parts:
        ingest(format, part, turn)
    assert tables(many) == tables(turn)
    if format != "jobs":  # unnamed jobs are named by their file
        assert tables(many) == tables(one)
    entries = Ledger(many).entries
    assert [entry.file for entry in entries] == [part.name for part in parts]
    assert sum(entry.rows for entry in entries) == Ledger(one).entries[0].rows == found.rows
    assert all(entry.sha256 and entry.period_start and entry.totals for entry in entries)
    kept = Ledger(many).parts()
    assert {1, 2, 3} == set(kept["jobs" if format in ("slurm", "jobs") else "pieces"]["file"])
    before = content(many)
    assert "changes nothing" in " ".join(ingest(format, folder, many).notes)
    assert content(many) == before
    undo(many, parts[1].name)
    without = fresh(tmp_path, "without")
    ingest(format, [parts[0], parts[2]], without)
    assert tables(many) == tables(without)
    ingest(format, parts[1], many)
    expected = tables(one if format != "jobs" else turn)
    assert set(tables(many)) == set(expected)
    for name in expected:
        mine, theirs = (pd.read_csv(book / name) for book in (many, one if format != "jobs" else turn))
        keys = [column for column in mine if mine[column].dtype == object]
        pd.testing.assert_frame_equal(*(frame.sort_values(keys, ignore_index=True) for frame in (mine, theirs)), rtol=1e-12)


def test_one_layout_is_one_scan(tmp_path, monkeypatch):
    opened = []

    class Counted(traffic.Sheet):
        def __init__(self, files, *args, **more):
            opened.append(len(files))
            super().__init__(files, *args, **more)

    monkeypatch.setattr(traffic, "Sheet", Counted)
    for number in range(7):
        log(tmp_path, f"part_{number}.csv", [number, number + 90])
    ingest("requests", tmp_path)
    assert opened == [7]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1788220800\n1788220860\n", "1788224400000\n1788224460000\n"),
        ("2026-09-01T00:00:00Z\n", "2026-09-01T01:00:00+00:00\n"),
        ("2026-09-01T00:00:00\n2026-09-01T00:01:00\n", "2026-09-01T01:00:00Z\n2026-09-01T01:01:00Z\n"),
        ("2026-09-01T00:00:00Z\n", "1788224400\n"),
    ],
)
def test_files_that_write_times_in_other_ways_are_read_each_in_its_own(tmp_path, first, second):
    for name, times in (("a.csv", first), ("b.csv", second)):
        (tmp_path / name).write_text("timestamp,input_tokens,output_tokens\n" + "".join(f"{time},5,1\n" for time in times.split()))
    usage = ingest("requests", [tmp_path / "a.csv", tmp_path / "b.csv"], workload="chat").tables["usage"]
    assert usage.time.dt.strftime("%Y-%m-%dT%H").tolist() == ["2026-09-01T00", "2026-09-01T01"]
    assert usage.quantity.tolist() == [len(first.split()), len(second.split())]


def test_a_fault_in_one_of_many_files_names_its_file_and_row(tmp_path):
    for number in range(4):
        log(tmp_path, f"part_{number}.csv", [number, number + 90])
    bad = tmp_path / "part_2.csv"
    bad.write_text(bad.read_text().replace(",5,1", ",five,1", 1))
    book = fresh(tmp_path, "book")
    with pytest.raises(BookError, match=r"part_2\.csv, row 2, column input_tokens: found 'five'"):
        ingest("requests", [tmp_path / f"part_{number}.csv" for number in range(4)], book)
    assert sorted(path.name for path in book.iterdir()) == ["book.yaml"]
    bad.write_text("timestamp,input_tokens,output_tokens\n")
    with pytest.raises(BookError, match=r"part_2\.csv; the file has a header and no rows"):
        ingest("requests", [tmp_path / f"part_{number}.csv" for number in range(4)])


def test_batches_follow_kind_and_header(tmp_path):
    names = ["a.csv", "b.csv", "c.csv.gz", "d.csv.gz", "e.csv", "f.csv", "g.parquet", "h.parquet", "i.parquet"]
    paths = [tmp_path / name for name in names]
    for path in paths[:6]:
        text = b"\n" * (path.name == "b.csv") + (b"x,y\r\n" if path.name in "a.csv b.csv" else b"x,z\n") + b"1,2\n"
        (gzip.open if path.suffix == ".gz" else open)(path, "wb").write(text)
    import duckdb

    with duckdb.connect() as connection:
        for path, column in zip(paths[6:], "xxy", strict=True):
            connection.execute(f"copy (select 1 as {column}) to '{path}' (format parquet)")
    assert [[path.name for path in batch] for batch in batches_of([*paths, tmp_path / "missing.csv"])] == [
        ["a.csv", "b.csv"],
        ["c.csv.gz", "d.csv.gz"],
        ["e.csv", "f.csv"],
        ["g.parquet", "h.parquet"],
        ["i.parquet"],
        ["missing.csv"],
    ]


def test_parquet_and_compressed_folders_and_the_names_of_work(tmp_path):
    rows = pd.DataFrame({"timestamp": pd.date_range("2026-09-01", periods=6, freq="h"), "input_tokens": 5, "output_tokens": 1})
    for kind in ("parquet", "csv.gz"):
        folder = tmp_path / kind
        folder.mkdir()
        for number in range(3):
            part = rows.iloc[2 * number : 2 * number + 2]
            path = folder / f"gateway-2026-09-0{number + 1}.{kind}"
            if kind == "csv.gz":
                part.to_csv(path, index=False)
                continue
            import duckdb

            with duckdb.connect() as connection:
                connection.register("part", part)
                connection.execute(f"copy part to '{path}' (format parquet)")
        usage = ingest("requests", folder).tables["usage"]
        assert usage.workload.unique().tolist() == ["gateway"]
        assert usage.quantity.tolist() == [1.0] * 6
