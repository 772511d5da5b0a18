"""The reference facts: how they are read, and what must hold of them (`make facts`)."""

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from capplan.book.reader import read_together
from capplan.contract_kinds import NO_DEARER
from capplan.errors import Fault
from capplan.records import records

#: Prices stand in one file a provider, so that an update is one file; owned machines in the table itself.
SHEETS = {"offers": "prices"}
#: Peaks of a data sheet in units of the 16-bit one: with a factor outside these a figure is a sparse one, or in another unit.
PEAK_RATIOS = {"fp8_tflops": (1.0, 4.0), "fp4_tflops": (1.8, 8.0)}
#: Prices of a machine in different regions of a provider differ by less than this factor.
MOST_APART = 2.2
#: Extra dollars of a virtual CPU and hour for a Windows licence at Azure; a price that is off by that is not Linux.
WINDOWS_USD_PER_VCPU_HOUR = 0.046
#: Virtual CPUs that a provider's own name of a size states (an xlarge of AWS has four), and those of an accelerator in families of Google
#: and Oracle that state none: a second source beside the one a machine is listed by (provider documentation; SkyPilot's catalogue of Google
#: Cloud; Oracle's compute shapes as the Python package gpuhunt 0.1.34 has them, two virtual CPUs an OCPU and one on Arm).
NAMED_CPUS = {
    "aws": (r"\.(\d*)xlarge$", 4),
    "azure": (r"^Standard_N[A-Z]+(\d+)", 1),
    "nebius": (r"-(\d+)vcpu", 1),
    "gcp": (r"-standard-(\d+)$", 1),
}
CPUS_OF_ONE = {
    **{"a2-highgpu": 12, "a2-ultragpu": 12, "a3-highgpu": 26},
    **{"BM.GPU.B300": 32, "BM.GPU.GB200": 36, "BM.GPU.GB300": 36, "BM.GPU.RTXPRO": 36},
}
#: Days after which a price is called old.
OLD_DAYS = 365
#: Known exceptions: what is as its source has it although a rule says otherwise.
EXCEPTIONS = frozenset[str]()


def read_facts(folder: Path, name: str, *, sound: bool = False) -> tuple[pd.DataFrame, list[Fault]]:
    """Read one table of the reference facts, with its files by provider where it has such; `sound`: as shipped, and so checked already."""
    files = [folder / f"{name}.csv", *(sorted((folder / SHEETS[name]).glob("*.csv")) if name in SHEETS else [])]
    return read_together(files, name, sound=sound)


def check_facts(tables: Mapping[str, pd.DataFrame], today: pd.Timestamp) -> tuple[list[str], list[str]]:
    """Say what is wrong with the facts, and what is old.

    Units (memory, bandwidth and peaks within what accelerators have), dense peaks against sparse ones, machines of one provider and
    accelerator with the virtual CPUs and prices of their size, terms that must not be dearer than shorter ones, prices off by a Windows
    licence, and prices by age.

    Args:
        tables: accelerators, skus, offers, models, serving_runs, sources.
        today: Day against which ages are counted.

    Returns:
        faults, old: Sentences; exceptions that are listed are left out.
    """
    faults = [
        *_units(tables["accelerators"]),
        *_machines(tables["skus"]),
        *_cpus(tables["skus"]),
        *_terms(tables["offers"]),
        *_regions(tables["offers"]),
        *_windows(tables),
        *_models(tables["models"]),
    ]
    offers = tables["offers"]
    age = (today - offers["as_of"]).dt.days
    old = [
        f"{source}: {len(part)} prices of {part['as_of'].max().date()} are {int(age[part.index].min())} days old"
        for source, part in offers[age > OLD_DAYS].groupby("source_id", sort=True)
    ]
    return [fault for fault in faults if fault.split(":")[0] not in EXCEPTIONS], old


def _units(chips: pd.DataFrame) -> list[str]:
    """Check sizes, and that no peak is one with sparsity beside dense ones."""
    faults = []
    for row in records(chips):
        name = row["accelerator"]
        for column, least, most in (
            ("memory_gib", 8, 2000),
            ("memory_bandwidth_gbps", 100, 50_000),
            ("bf16_tflops", 20, 20_000),
            ("power_w", 30, 5000),
        ):
            if pd.notna(row[column]) and not least <= row[column] <= most:
                faults.append(f"{name}: {column} is {row[column]:g}; accelerators have {least:,} to {most:,}: is its unit another?")
        for column, (low, high) in PEAK_RATIOS.items():
            ratio = row[column] / row["bf16_tflops"] if pd.notna(row[column]) else low
            if not low <= ratio <= high:
                faults.append(f"{name}: {column} is {ratio:.2g} times the 16-bit peak; is one of them a peak with sparsity?")
    return faults


def _machines(skus: pd.DataFrame) -> list[str]:
    """Check that machines of a family have no fewer virtual CPUs with more accelerators."""
    faults = []
    known = skus[skus["vcpus"].notna()].assign(family=[re.sub(r"\d+", "#", name) for name in skus.loc[skus["vcpus"].notna(), "sku"]])
    for family, part in known.groupby(["provider", "family", "accelerator"], sort=True):
        by_count = part.groupby("accelerator_count")["vcpus"].max().sort_index()
        if (by_count.diff().dropna() < 0).any():
            faults.append(f"{part['sku'].iloc[0]}: in the family {family[1]} larger machines have fewer virtual CPUs")
    return faults


def _cpus(skus: pd.DataFrame) -> list[str]:
    """Check virtual CPUs against those that the name of a size states, or that its family has for each accelerator."""
    faults = []
    for row in records(skus[skus["vcpus"].notna()]):
        pattern, each = NAMED_CPUS.get(row["provider"], ("$^", 1))
        named, family = re.search(pattern, row["sku"]), re.sub("[-.][^-.]*$", "", row["sku"])
        said = each * int(named[1] or 1) if named else CPUS_OF_ONE.get(family, 0) * row["accelerator_count"]
        if said and row["vcpus"] != said:
            faults.append(f"{row['sku']}: vcpus is {row['vcpus']:g}, and its name or family says {said:g}")
    return faults


def _terms(offers: pd.DataFrame) -> list[str]:
    """Check that a longer promise, and one that may be taken back, is no dearer."""
    price = offers.pivot_table(index=["sku", "region"], columns="term", values="usd_per_hour", aggfunc="min")
    faults = []
    for cheap, dear in NO_DEARER:
        if cheap in price and dear in price:
            both = price[[cheap, dear]].dropna()
            faults += [
                f"{sku} in {region}: {cheap} at {row[cheap]:g} is dearer than {dear} at {row[dear]:g}"
                for (sku, region), row in both[both[cheap] > both[dear]].iterrows()
            ]
    return faults


def _regions(offers: pd.DataFrame) -> list[str]:
    """Check that one machine's prices in different regions are not too far apart."""
    faults = []
    for (sku, term), part in offers.groupby(["sku", "term"], sort=True):
        low, high = part["usd_per_hour"].min(), part["usd_per_hour"].max()
        if term != "spot" and low > 0 and high / low > MOST_APART:
            faults.append(f"{sku}: {term} costs {low:g} in one region and {high:g} in another")
    return faults


def _windows(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Check that a machine with several accelerators costs what they do in the smallest one with it, and not a licence more."""
    offers = tables["offers"].merge(tables["skus"][["sku", "provider", "accelerator", "accelerator_count", "vcpus"]], on="sku")
    offers = offers[offers["term"].eq("on_demand") & offers["vcpus"].notna()]
    faults = []
    for _, part in offers.groupby(["provider", "accelerator", "region"], sort=True):
        first = part.sort_values("accelerator_count").iloc[0]
        for row in records(part):
            licence = WINDOWS_USD_PER_VCPU_HOUR * row["vcpus"]
            extra = row["usd_per_hour"] - first["usd_per_hour"] / first["accelerator_count"] * row["accelerator_count"]
            if abs(extra - licence) < 0.02 * licence:
                faults.append(
                    f"{row['offer_id']}: {row['usd_per_hour']:g} is {extra:.3g} above its smaller sibling, a Windows licence for"
                    f" {row['vcpus']:g} virtual CPUs"
                )
    return faults


def _models(models: pd.DataFrame) -> list[str]:
    """Check that parameters are about what layers, widths and vocabularies hold, and that windows leave layers."""
    faults = []
    for row in records(models):
        wide = row["attention_heads"] * row["head_size"]
        least = row["layers"] * row["hidden_size"] * wide * 0.5
        if not least < row["parameters_active"] * 3:
            faults.append(f"{row['model']}: {row['parameters_active']:.3g} active parameters are fewer than its attention has")
        if (
            pd.notna(row["window_tokens"])
            and not 0 <= (row["full_attention_layers"] if pd.notna(row["full_attention_layers"]) else 0) < row["layers"]
        ):
            faults.append(f"{row['model']}: with a window some layers, not all, look at the whole context")
    return faults
