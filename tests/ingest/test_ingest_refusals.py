"""What a file system refuses while a book is written is one message, and the book stays as it was."""

from __future__ import annotations

import errno
import os
import zipfile

import pytest

from capplan.book.book import new_book
from capplan.errors import CapplanError, refused
from capplan.ingest import entering, ingest, ingest_ledger, writing
from tests.ingest.test_ingest_ledger import content, log


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "book.yaml").write_text("name: t\n")
    ingest("requests", log(tmp_path, "a.csv", [1, 70]), folder, workload="chat")
    return folder


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, r"cannot be written.*: No space left on device\. Make room"),
        (errno.EACCES, r"cannot be written.*: Permission denied\. Ask for write access"),
        (errno.EROFS, r"cannot be written.*: Read-only file system\. It is mounted read-only"),
        (errno.EISDIR, r"cannot be written.*: Is a directory\. A folder stands where a file is needed"),
        (errno.EDQUOT, r"cannot be written.*Your quota is used up"),
    ],
)
@pytest.mark.parametrize("step", ["part", "table", "scratch"])
def test_refusals_are_one_message_and_change_nothing(book, tmp_path, monkeypatch, code, said, step):
    def refuse(*args, **more):
        raise OSError(code, os.strerror(code), str(book / "usage.csv"))

    target, name = {"part": (entering, "write_part"), "table": (writing.os, "fsync"), "scratch": (ingest_ledger.Path, "mkdir")}[step]
    monkeypatch.setattr(target, name, refuse)
    before = content(book)
    path = log(tmp_path, "b.csv", [20, 90])
    with pytest.raises(CapplanError, match=said):
        ingest("requests", path, book, workload="chat")
    monkeypatch.undo()
    assert content(book) == before
    assert sorted(place.name for place in book.iterdir()) == ["book.yaml", "ingested", "requests.csv", "usage.csv", "workloads.csv"]
    ingest("requests", path, book, workload="chat")
    assert content(book) != before


def test_duckdb_words_a_refusal_as_python_does(tmp_path):
    import duckdb

    with pytest.raises(OSError, match="No space left") as caught, ingest_ledger.written_by_duckdb(tmp_path / "x.parquet"):
        raise duckdb.IOException('IO Error: Could not write all bytes to file "x": No space left on device')
    assert caught.value.errno == errno.ENOSPC
    (tmp_path / "folder").mkdir()
    with pytest.raises(CapplanError, match="folder cannot be written"), refused(tmp_path / "folder"):
        (tmp_path / "folder").write_text("x")


def test_a_folder_where_a_table_belongs_and_a_file_where_a_book_belongs(book, tmp_path):
    (book / "usage.csv").unlink()
    (book / "usage.csv").mkdir()
    with pytest.raises(CapplanError, match=r"usage\.csv"):
        ingest("requests", log(tmp_path, "b.csv", [20, 90]), book, workload="chat")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CapplanError, match="file/new cannot be written"):
        new_book(tmp_path / "file" / "new")


def test_a_file_that_may_not_be_read_is_named(book, tmp_path, monkeypatch):
    path = log(tmp_path, "b.csv", [20, 90])

    def refuse(file):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))

    monkeypatch.setattr(entering, "digest_of", refuse)
    with pytest.raises(CapplanError, match=r"b\.csv cannot be read: Permission denied"):
        ingest("requests", path, book)


def test_a_workbook_is_told_to_be_saved_as_csv(book, tmp_path):
    path = tmp_path / "log.xlsx"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("xl/worksheets/sheet1.xml", "<sheet/>")
    with pytest.raises(CapplanError, match=r"binary, not CSV\. Give a CSV file \(save a sheet as one\)"):
        ingest("requests", path, book)
