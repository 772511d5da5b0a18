"""Files that are none, and names that look alike: refused with one message, before anything is parsed."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from capplan.answers.plan import quarterly_plan
from capplan.book.book import load_book
from capplan.book.plain_yaml import read_overrides
from capplan.cli import app
from capplan.errors import BookError, CapplanError, ScenarioError
from tests.conftest import CONTRACTS, SKUS, SOURCES, hourly
from tests.questions.test_board import TABLES

WHOLE = {"usage": hourly(), "commitments": CONTRACTS, "skus": SKUS, "sources": SOURCES}


@pytest.fixture
def book(make_book):
    return make_book(**WHOLE)


def faults_of(folder):
    with pytest.raises(BookError) as caught:
        load_book(folder)
    assert len(str(caught.value)) < 4000
    return "\n".join(str(fault) for fault in caught.value.faults)


@pytest.mark.parametrize("name", ["usage.csv", "book.yaml"])
def test_a_pipe_a_folder_a_device_and_a_broken_link_are_no_files(book, name, tmp_path):
    file = book / name
    for make, said in (
        (lambda: os.mkfifo(file), "it is a pipe, not a file"),
        (file.mkdir, "it is a folder, not a file"),
        (lambda: file.symlink_to("nowhere.csv"), "it cannot be read: No such file"),
        (lambda: file.symlink_to(file), "it cannot be read"),
        (lambda: file.symlink_to("/dev/zero"), "it is a link that leads out of the book"),
    ):
        if file.is_dir():
            file.rmdir()
        elif os.path.lexists(file):
            file.unlink()
        make()
        assert f"{name}; {said}" in faults_of(book)


@pytest.mark.parametrize("words", [("check", "{book}", "--scenario", "{file}"), ("sweep", "{book}", "--vary", "scenario={file}")], ids=str)
def test_a_scenario_file_passes_the_same_gate(make_book, tmp_path, words):
    book, file = make_book(usage=hourly()), tmp_path / "scenario.yaml"
    for make, said in (
        (lambda: os.mkfifo(file), "it is a pipe, not a file"),
        (file.mkdir, "it is a folder, not a file"),
        (lambda: file.symlink_to("/dev/zero"), "it is a device, not a file"),
        (lambda: file.symlink_to(file), "it cannot be read"),
        (lambda: file.write_bytes(b"seed: 1\0"), "a NUL byte stands in the file"),
        (lambda: file.write_bytes(b"seed: \xff"), "the file must be UTF-8"),
        (lambda: file.write_bytes(b"#" * 1_000_001), "at most 1 MB are read"),
        (lambda: file.write_text("seed: 1\nseed: 2"), "seed is given twice"),
    ):
        if file.is_dir():
            file.rmdir()
        elif os.path.lexists(file):
            file.unlink()
        make()
        with pytest.raises(ScenarioError, match=f"the scenario file .*scenario.yaml cannot be taken: .*{said}"):
            CliRunner().invoke(app, [word.format(book=book, file=file) for word in words], catch_exceptions=False)
    # somebody named it, so that it may lead anywhere
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.yaml").write_text("seed: 5")
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere" / "real.yaml")
    assert read_overrides(file) == {"seed": 5}


def test_a_link_out_of_the_book_shows_nothing_of_its_target(book, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("time,workload,quantity,password\n")
    (book / "usage.csv").unlink()
    (book / "usage.csv").symlink_to(secret)
    found = faults_of(book)
    assert "leads out of the book" in found
    assert "password" not in found
    (book / "real.txt").write_text(hourly())
    (book / "usage.csv").unlink()
    (book / "usage.csv").symlink_to("real.txt")
    assert len(load_book(book).get("usage")) == 72


def test_a_huge_file_is_refused_by_its_size_and_the_book_may_raise_the_limit(book):
    with (book / "usage.csv").open("r+b") as file:
        file.truncate(5_000_000_000)
    assert "usage.csv; it has 5,000 MB; at most 2,000 MB are read" in faults_of(book)
    (book / "usage.csv").write_text(hourly())
    (book / "book.yaml").write_text("most_megabytes: 0.0001\n")
    assert "at most 0 MB" in faults_of(book)
    (book / "book.yaml").write_text("most_megabytes: yes please\n")
    assert "most_megabytes: found 'yes please'; must be a number above 0" in faults_of(book)


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00,chat,12\x0034\n", "2026-01-01T00:00:00,a\x00b,1\n", "2026-01-01T00:00:00,chat,1\n" + "\x00" * 5000]
)
def test_a_nul_byte_is_a_fault_with_its_line(book, text):
    (book / "usage.csv").write_text("time,workload,quantity\n" + text)
    assert "usage.csv, row " in faults_of(book)
    assert "a NUL byte" in faults_of(book)


def test_line_ends_of_any_system_are_read_alike(book):
    expected = load_book(book).get("usage")
    for ends in ("\r", "\r\n"):
        (book / "usage.csv").write_bytes(hourly().replace("\n", ends).encode())
        assert load_book(book).get("usage").equals(expected)


def test_a_header_that_is_no_header(book):
    for header in ('time,workload,"quantity\n', "time,workload," + "q" * 200_000 + "\n"):
        (book / "usage.csv").write_text(header + hourly().split("\n", 1)[1])
        faults_of(book)


def test_one_name_has_one_form(book):
    rows = "2026-01-01T00:00:00,caf\u00e9,1\n2026-01-01T01:00:00,cafe\u0301,2\n"
    (book / "usage.csv").write_text("time,workload,quantity\n" + rows)
    assert load_book(book).get("usage")["workload"].nunique() == 1
    (book / "usage.csv").write_text("time,workload,quantity\n2026-01-01T00:00:00,chat,1\n2026-01-01T01:00:00,chat\u200b,1\n")
    assert "usage.csv, row 3, column workload" in faults_of(book)
    assert "nobody sees" in faults_of(book)


def test_what_no_plan_can_mean(book):
    (book / "commitments.csv").write_text(CONTRACTS.replace(",4,", ",1e308,"))
    assert "column machines: found '1e308'" in faults_of(book)
    (book / "commitments.csv").write_text(CONTRACTS)
    for line in ("first_quarter: 9999Q1", "as_of: 0001-01-01", "seed: " + "9" * 5000, "a: " + "[" * 3000):
        (book / "book.yaml").write_text(line + "\n")
        with pytest.raises(CapplanError) as caught:
            load_book(book)
        assert len(str(caught.value)) < 4000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Commitments.CSV", "table files are written in small letters, commitments.csv"),
        ("other.CSV", "other is not a table"),
        ("book.yml", "the book's own file is called book.yaml"),
        ("Book.yaml", "the book's own file is called book.yaml"),
    ],
)
def test_a_file_that_would_be_passed_over_is_named(book, name, said):
    (book / name).write_text("x: 1\n")
    assert f"{name}; {said}" in faults_of(book)


# ---------------------------------------------------------------- odd, and no fault: said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("usage.txt", "usage.txt was not read, though usage is a table: save it as usage.csv"),
        ("Usage.XLSX", "Usage.XLSX was not read, though usage is a table"),
        ("commitments.csv.gz", "commitments.csv.gz was not read, though commitments is a table"),
        ("old.parquet", "1 file in the book's folder was not read: old.parquet."),
        ("plan.yaml", "1 file in the book's folder was not read: plan.yaml."),
    ],
)
def test_a_file_with_another_ending_is_said_to_be_unread(book, name, said):
    before = load_book(book)
    (book / name).write_bytes(b"anything")
    after = load_book(book)
    assert [note for note in after.notes if note not in before.notes and said in note]
    assert len(after.notes) == len(before.notes) + 1
    assert after.digests == before.digests


def test_words_about_a_book_and_hidden_files_need_no_note(book):
    before = load_book(book).notes
    for name in ("README.md", ".usage.csv.swp", "LICENSE", "quote.pdf"):
        (book / name).write_text("words")
    (book / "notes").mkdir()
    assert load_book(book).notes == before


def test_another_unicode_form_is_said_and_means_the_same_name(book):
    rows = "2026-01-01T00:00:00,{0},1\n2026-01-01T01:00:00,{1},2\n"
    (book / "usage.csv").write_text("time,workload,quantity\n" + rows.format("caf\u00e9", "caf\u00e9"))
    usual = load_book(book)
    assert not [note for note in usual.notes if "Unicode" in note]
    (book / "usage.csv").write_text("time,workload,quantity\n" + rows.format("caf\u00e9", "cafe\u0301"))
    other = load_book(book)
    assert [note for note in other.notes if note.startswith("usage.csv, column workload: 1 cell, such as 'cafe\u0301', hold")]
    assert other.digests == usual.digests


def test_a_contract_of_a_century_and_days_no_plan_meets_are_said(book):
    def said(rows: str) -> list[str]:
        (book / "commitments.csv").write_text(rows)
        return [note for note in load_book(book).notes if note.startswith("commitments.csv")]

    assert said(CONTRACTS) == []
    assert said(CONTRACTS.replace("2026-12-31", "2051-12-31")) == [], "25 years are a lease of rooms"
    century = said(CONTRACTS.replace("2026-12-31", "2199-12-31"))
    assert len(century) == 1
    assert century[0].startswith("commitments.csv, row 2: it lasts 173 years, from 2026-01-01 to 2199-12-31.")
    early = said(CONTRACTS.replace("2026-01-01", "1899-12-30").replace("2026-12-31", "1900-12-31"))
    assert [note.partition(":")[0] for note in early] == ["commitments.csv, row 2, column start", "commitments.csv, row 2, column end"]


@pytest.mark.slow
def test_what_was_read_oddly_stands_among_the_warnings_of_the_plan(make_book):
    folder = make_book("steady", **TABLES)
    (folder / "usage.txt").write_text("x")
    assert any(note.startswith("usage.txt was not read") for note in quarterly_plan(load_book(folder)).warnings)
