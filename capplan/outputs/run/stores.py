"""Places for reports that are no folders: any store that fsspec knows by its address, such as s3://bucket/plans or memory://plans."""

import posixpath
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capplan.errors import CapplanError, ReportError
from capplan.outputs.run.run_history import HISTORY, LATEST
from capplan.scratch import scratch

#: What a new run reads of the reports before it.
READ = (HISTORY, LATEST, "*/run.json", "*/spend.csv", "*/tables/decisions.csv", "*/tables/spend.csv")
#: Written last, and taken away first: a report without it is none.
SEAL = "run.json"


@contextmanager
def reports_in(out: str, book: str) -> Iterator[Path]:
    """Give a folder for a book's reports; where `out` is an address, what was made in it goes there when all went well.

    The store is tried before anything is computed. Stores rename nothing, so a report is sealed: its run.json goes first and comes last.

    Args:
        out: Folder, or address of a store.
        book: Name of the folder of the book's reports.

    Raises:
        ReportError: Where the store is unknown, cannot be reached or written to.
    """
    if "://" not in out or out.startswith("file://"):
        yield Path(out.removeprefix("file://"))
        return
    import fsspec

    with _answered(out):
        store, root = fsspec.core.url_to_fs(out)
        _try(store, root)
    with scratch("capplan-out-") as folder:
        with _answered(out):
            for base, patterns in ((book, READ), ("sample", (SEAL, "spend.csv"))):
                for found in (each for pattern in patterns for each in store.glob(posixpath.join(root, base, pattern))):
                    local = folder / posixpath.relpath(store._strip_protocol(found), store._strip_protocol(root))
                    local.parent.mkdir(parents=True, exist_ok=True)
                    local.write_bytes(store.cat_file(found))
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        yield folder
        with _answered(out):
            _send(store, root, folder, [path for path in sorted(folder.rglob("*")) if _is_new(path, before)])


def _is_new(path: Path, before: dict[Path, int]) -> bool:
    return path.is_file() and not path.parent.is_symlink() and before.get(path) != path.stat().st_mtime_ns


def _send(store: Any, root: str, folder: Path, files: list[Path]) -> None:
    """Send files: reports are unsealed first, their old files go, and their seals come last."""
    seals = [path for path in files if path.name == SEAL]
    for seal in seals:
        remote = posixpath.join(root, seal.parent.relative_to(folder).as_posix())
        if store.exists(remote):
            if store.exists(posixpath.join(remote, SEAL)):
                store.rm(posixpath.join(remote, SEAL))
            store.rm(remote, recursive=True)
    for path in [*(path for path in files if path not in seals), *seals]:
        content = path.read_bytes()
        store.pipe_file(posixpath.join(root, path.relative_to(folder).as_posix()), content)
    for pointer in folder.glob(f"*/{LATEST}"):
        if pointer.is_symlink():
            store.pipe_file(posixpath.join(root, pointer.relative_to(folder).as_posix()), pointer.readlink().name.encode())


def _try(store: Any, root: str) -> None:
    """Write a few bytes, read them, and take them away again."""
    probe = posixpath.join(root, f".probe-{secrets.token_hex(4)}")
    store.pipe_file(probe, b"capplan")
    if store.cat_file(probe) != b"capplan":
        raise ReportError(f"{root} does not give back what is written to it")
    store.rm_file(probe)


@contextmanager
def _answered(out: str) -> Iterator[None]:
    """Turn whatever a store refuses with into one message."""
    try:
        yield
    except CapplanError:
        raise
    except ImportError as error:
        raise ReportError(f"{out} needs a package that is not installed ({error}); install it beside capplan") from error
    except Exception as error:
        raise ReportError(
            f"{out} cannot be used ({type(error).__name__}: {error}); check the address, the network and your rights to it"
        ) from error
