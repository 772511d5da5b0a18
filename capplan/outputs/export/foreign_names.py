"""Names that other systems accept, and reading the quotas that an answered question has left."""

import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from capplan.errors import CapplanError
from capplan.inert import read_table

#: RFC 1123 label: what Kubernetes takes as a name, and Slurm too.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NEEDED = {
    "quotas": ("queue", "role", "team", "accelerator", "nominal_accelerators", "borrowing_limit", "lending_limit", "cohort"),
    "fleet": ("node", "accelerator", "accelerator_count", "own"),
}


def label(text: object, fallback: str = "unnamed") -> str:
    r"""Return a text as an RFC 1123 label: small letters, digits and hyphens, at most 63, starting and ending with a letter or digit.

    Examples:
        >>> label("Customer models: EU"), label("x\nkind: Secret"), label("***")
        ('customer-models-eu', 'x-kind-secret', 'unnamed')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")[:63].strip("-")
    return plain or fallback


def labels(texts: Iterable[object], fallback: str = "unnamed") -> dict[object, str]:
    """Return a label for each text, no two the same.

    Examples:
        >>> labels(["A b", "a-b"])
        {'A b': 'a-b', 'a-b': 'a-b-2'}
    """
    found: dict[object, str] = {}
    for text in texts:
        if text in found:
            continue
        stem, number = label(text, fallback), 1
        name = stem
        while name in found.values():
            number += 1
            name = f"{stem[: 62 - len(str(number))]}-{number}"
        found[text] = name
    return found


def read_split(report: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Read the quotas and the divided fleet of a report: [queue, ...], [node, ...], and the arrangement.

    Args:
        report: Folder of a report, of the notebooks beside it, or of the answer itself.

    Raises:
        CapplanError: There is no answer to the question of the split, or it is not whole.
    """
    places = [report, report / "split", report.parent / f"{report.name}-notebooks" / "split"]
    place = next((found for found in places if (found / "quotas.csv").is_file()), None)
    if place is None:
        raise CapplanError(f"{report}: no quotas are kept there; run `capplan run split BOOK` first and name the folder of its notebooks")
    frames = {}
    for name, columns in _NEEDED.items():
        file = place / f"{name}.csv"
        try:
            frame = read_table(
                file, keep_default_na=False, na_values=[""], dtype={"queue": str, "team": str, "node": str, "accelerator": str}
            )
        except (OSError, ValueError) as error:
            raise CapplanError(f"{file} cannot be read: {error}; run `capplan run split BOOK` again") from error
        missing = [column for column in columns if column not in frame]
        if missing or frame.empty:
            raise CapplanError(f"{file} has no {'column ' + missing[0] if missing else 'rows'}; run `capplan run split BOOK` again")
        frames[name] = frame
    return frames["quotas"], frames["fleet"], arrangement_of(frames["quotas"])


def arrangement_of(quotas: pd.DataFrame) -> str:
    """Return the arrangement that quotas describe: separate clusters have no cohort for inference, a shared pool no limits."""
    serving = quotas[quotas["role"] == "inference"]
    if serving["cohort"].isna().all():
        return "separate"
    return "shared" if serving["lending_limit"].isna().all() else "lending"
