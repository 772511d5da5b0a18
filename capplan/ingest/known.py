"""Names that price sheets and bills use, and what the tables call the same thing."""

import re
from collections.abc import Set
from functools import cache
from pathlib import Path

import pandas as pd

from capplan.book.empty import empty_table
from capplan.book.facts import read_facts
from capplan.book.places import shipped
from capplan.book.reader import read_table
from capplan.book.tables.registry import key_of

PROVIDERS = {
    "amazonwebservices": "aws",
    "amazon": "aws",
    "amazonwebservicesinc": "aws",
    "googlecloud": "gcp",
    "google": "gcp",
    "googlecloudplatform": "gcp",
    "microsoft": "azure",
    "microsoftazure": "azure",
    "oracle": "oci",
    "oraclecloud": "oci",
}
#: Names of accelerators, reduced to letters and digits, and the names to look for in the tables, best first.
ACCELERATORS = {
    "a100": ("A100-40GB", "A100"),
    "a10040gb": ("A100-40GB", "A100"),
    "a100sxm40gb": ("A100-40GB", "A100"),
    "a10080gb": ("A100-80GB", "A100"),
    "a100sxm80gb": ("A100-80GB", "A100"),
    "a10080gbsxm": ("A100-80GB", "A100"),
    "a100pcie80gb": ("A100-80GB-PCIe",),
    "a10080gbpcie": ("A100-80GB-PCIe",),
    "h10080gb": ("H100",),
    "h100sxm": ("H100",),
    "h100sxm80gb": ("H100",),
    "h10080gbmega": ("H100",),
    "h200sxm141gb": ("H200",),
    "h200141gb": ("H200",),
    "b200blackwell": ("B200",),
    "b300blackwell": ("B300",),
    "l40s48gb": ("L40S",),
    "mi300x192gb": ("MI300X",),
    "rtxpro6000bse": ("RTX-PRO-6000",),
    "rtxpro6000blackwell": ("RTX-PRO-6000",),
}
#: Machine types whose accelerator differs from what its short name says.
MACHINES = {
    r"^g4-standard-\d+$": ("RTX-PRO-6000",),
    r"^p4de\.": ("A100-80GB",),
    r"^\d+x_A100-80GB_(SECURE|COMMUNITY)$": ("A100-80GB-PCIe",),
}
#: First matching beginning of a region's name, and the geography it lies in.
GEOGRAPHIES = (
    (r"eu-west-2|europe-west2\b|uk", "uk"),
    (r"us|northamerica-south|mexico|mx-", "us"),
    (r"ca-|canada|northamerica-northeast", "ca"),
    (r"eu|germany|france|norway|sweden|switzerland|poland|italy|spain|austria|belgium|denmark", "eu"),
    (r"ap-|asia|australia|japan|korea|india|jioindia|southeastasia|eastasia|indonesia|malaysia|newzealand|taiwan", "apac"),
    (r"sa-|southamerica|brazil|chile", "sa"),
    (r"me-|il-|uae|qatar|israel", "me"),
    (r"af-|africa|southafrica", "af"),
)
#: Parts of a country in front of its name, as Azure names regions: eastus, northcentralus, westeurope.
_COMPASS = r"^(?:north|south|east|west|central)+(?=[a-z])"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def provider_named(name: str) -> str:
    """Return the name the tables use for a provider.

    Examples:
        >>> provider_named("Google Cloud"), provider_named("Lambda")
        ('gcp', 'lambda')
    """
    return PROVIDERS.get(_plain(name), name.strip().lower())


def geography_of(region: str) -> str:
    """Return the part of the world a provider's region lies in; any where its name does not tell.

    Examples:
        >>> geography_of("us-east-1"), geography_of("europe-west4"), geography_of("europe-west2"), geography_of("moon-1")
        ('us', 'eu', 'uk', 'any')
        >>> geography_of("northcentralus"), geography_of("West Europe"), geography_of("southafricanorth"), geography_of("centralindia")
        ('us', 'eu', 'af', 'apac')
    """
    name = re.sub(r"\s", "", region.lower())
    names = (name, re.sub(_COMPASS, "", name))
    return next((place for each in names for pattern, place in GEOGRAPHIES if re.match(pattern, each)), "any")


def accelerator_named(stated: object, machine: str, known: Set[str]) -> str | None:
    """Return the name the tables use for an accelerator, or None where they have none.

    Examples:
        >>> accelerator_named("NVIDIA H100", "p5.48xlarge", {"H100"}), accelerator_named("NVIDIA K80", "p2.xlarge", {"H100"})
        ('H100', None)
    """
    by_machine = next((names for pattern, names in MACHINES.items() if re.match(pattern, machine)), None)
    if by_machine is not None:
        return next((name for name in by_machine if name in known), None)
    if not isinstance(stated, str):
        return None
    short = _plain(re.sub(r"\b(nvidia|amd|instinct|tensor core|gpu)\b", "", stated, flags=re.IGNORECASE))
    exact = {_plain(name): name for name in sorted(known)}
    candidates = [exact.get(short), *(name for name in ACCELERATORS.get(short, ()) if name in known)]
    return next((name for name in candidates if name), None)


def known_table(table: str, book: Path | None) -> pd.DataFrame:
    """Return the reference facts of a table with the book's own rows in front of them.

    Faults of the book's table are left to the check of the book.
    """
    frames = [read_table(book / f"{table}.csv", table)[0]] if book and (book / f"{table}.csv").is_file() else []
    filled = [frame for frame in (*frames, _shipped_table(table)) if len(frame)]
    return pd.concat(filled, ignore_index=True).drop_duplicates(key_of(table)) if filled else empty_table(table)


@cache
def _shipped_table(table: str) -> pd.DataFrame:
    """Read the reference facts of a table once."""
    return read_facts(shipped("data") / "reference", table, sound=True)[0]
