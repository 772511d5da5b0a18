"""Recognise machines, accelerators, fractions and units of time in the words of bills, schedulers and price sheets."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pandas as pd

from capplan.ingest.known import accelerator_named

#: A100, H100 and later split into seven slices; profiles with these sizes belong to accelerators that split into four.
SLICES, SLICES_OF_FOUR = 7, {(1, 6), (2, 12), (4, 24), (2, 48), (4, 96)}
_MIG = re.compile(r"(?<![0-9a-z])(?:(\d)c\.)?(\d)g\.(\d+)gb", re.IGNORECASE)
_AWS = re.compile(r"(?<![a-z0-9])(?:ml\.)?((?:p|g|trn|inf|dl|vt|gr)\d[a-z0-9]*(?:-[a-z]+\d+)?)\.(\w+)(?![a-z0-9])", re.IGNORECASE)
_AWS_SIZES: dict[str, float] = {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8, "metal": 8}
_EIGHT: dict[str, float] = {"24xlarge": 8, "48xlarge": 8}
#: AWS family -> accelerator, accelerators by size (one where a size is not listed).
_AWS_FAMILIES: dict[str, tuple[str, dict[str, float]]] = {
    "p4d": ("A100-40GB", _EIGHT),
    "p4de": ("A100-80GB", _EIGHT),
    "p5": ("H100", _EIGHT),
    "p5e": ("H200", _EIGHT),
    "p5en": ("H200", _EIGHT),
    "p6-b200": ("B200", _EIGHT),
    "p6-b300": ("B300", _EIGHT),
    "p6e-gb200": ("GB200", {"36xlarge": 4}),
    "p6e-gb300": ("GB300", {"36xlarge": 4}),
    "g5": ("A10G", _AWS_SIZES),
    "g6": ("L4", _AWS_SIZES),
    "gr6": ("L4", {}),
    "g6e": ("L40S", _AWS_SIZES),
    "g6f": ("L4", {"large": 1 / 8, "xlarge": 1 / 8, "2xlarge": 1 / 4, "4xlarge": 1 / 2}),
    "gr6f": ("L4", {"4xlarge": 1 / 2}),
    "p2": ("K80", {"8xlarge": 8, "16xlarge": 16}),
    "p3": ("V100", {"8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("V100", {"24xlarge": 8}),
    "g3": ("M60", {"8xlarge": 2, "16xlarge": 4}),
    "g3s": ("M60", {}),
    "g4dn": ("T4", {"12xlarge": 4, "metal": 8}),
    "g4ad": ("Radeon Pro V520", {"8xlarge": 2, "16xlarge": 4}),
    "g5g": ("T4G", {"16xlarge": 2, "metal": 2}),
    "g7e": ("RTX PRO 6000", {"12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
    "trn1": ("Trainium", {"32xlarge": 16}),
    "trn1n": ("Trainium", {"32xlarge": 16}),
    "trn2": ("Trainium2", {"48xlarge": 16}),
    "inf1": ("Inferentia", {"6xlarge": 4, "24xlarge": 16}),
    "inf2": ("Inferentia2", {"24xlarge": 6, "48xlarge": 12}),
    "dl1": ("Gaudi", _EIGHT),
    "dl2q": ("Qualcomm AI 100", {"24xlarge": 8}),
}
_AZURE = re.compile(
    r"(?<![A-Za-z0-9])(?:Standard[_ ])?(N[CDGV])(\d+)(?:-\d+)?([a-z]*)(?:[_"
    r" ](H100|H200|A100|A10|V710|MI300X|GB200|GB300|B200|B300|T4|L40S))?(?:[_ ]v(\d))?(?![A-Za-z0-9])"
)
#: Azure sizes without a name of an accelerator in them: series, features and version -> accelerator.
_AZURE_BARE = {
    ("ND", "asr", "4"): "A100-40GB",
    ("ND", "amsr", "4"): "A100-80GB",
    ("ND", "rs", "2"): "V100",
    ("NC", "as", "3"): "T4",
    ("NC", "s", "3"): "V100",
    ("NC", "rs", "3"): "V100",
    ("NC", "s", "2"): "P100",
    ("NC", "rs", "2"): "P100",
    ("NC", "", ""): "K80",
    ("NC", "r", ""): "K80",
    ("NV", "", ""): "M60",
    ("NV", "s", "3"): "M60",
    ("NV", "as", "4"): "MI25",
}
#: Azure series and accelerator -> accelerators by virtual CPUs.
_AZURE_COUNTS: dict[tuple[str, str], dict[int, float]] = {
    ("NC", "A100"): {24: 1, 48: 2, 96: 4},
    ("NC", "H100"): {40: 1, 80: 2},
    ("NC", "T4"): {4: 1, 8: 1, 16: 1, 64: 4},
    ("NV", "A10"): {6: 1 / 6, 12: 1 / 3, 18: 1 / 2, 36: 1, 72: 2},
    ("ND", "GB200"): {128: 4},
    ("ND", "GB300"): {128: 4},
}
_GOOGLE = re.compile(
    r"(?<![a-z0-9-])(a2|a3|a4|a4x|g2|g4)-(highgpu|megagpu|edgegpu|ultragpu|maxgpu|standard)-(\d+)g?(?![a-z0-9])", re.IGNORECASE
)
_GOOGLE_KINDS = {
    "a2-highgpu": "A100-40GB",
    "a2-megagpu": "A100-40GB",
    "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100",
    "a3-edgegpu": "H100",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
    "a4x-highgpu": "GB200",
    "a4x-maxgpu": "GB300",
    "g2-standard": "L4",
    "g4-standard": "RTX PRO 6000",
}
_GOOGLE_BY_VCPUS = {"g2": {24: 2, 48: 4, 96: 8}, "g4": {96: 2, 192: 4, 384: 8}}
_ORACLE = re.compile(r"(?<![A-Za-z0-9])(?:BM|VM)\.GPU(?:\.|(?=\d))([A-Z0-9]+?)(-v2)?\.(\d+)(?![A-Za-z0-9])", re.IGNORECASE)
_ORACLE_KINDS = {"4": "A100-40GB", "b4": "A100-40GB", "a100": "A100-80GB", "3": "V100", "2": "P100"}
_WORDS = (
    "GB300|GB200|B300|B200|GH200|H200|H100|H800|H20|A100|A10G|A10|A30|A40|A16|L40S|L40|L20|L4|"
    "MI355X|MI325X|MI300X|MI250X?|MI210|MI100|MI25|V100S?|P100|(?<=tesla"
    " )P40?|K80|M60|T4|RTX ?PRO ?\\d+\\w*|RTX ?A?\\d{4}\\w*|Gaudi ?\\d?|HPU|Trainium ?\\d?|Inferentia ?\\d?|TPU ?v?\\d?\\w?|Ascend ?\\w+"
)
#: A name may follow a count (8xH100, 8H100), and the sign of InfiniBand may follow a name (h100ib).
_ACCELERATOR = re.compile(
    rf"(?:(?<![A-Za-z0-9])|(?<=\d[x×])|(?<=(?<![A-Za-z0-9.])\d))({_WORDS})(?:(?=ib(?![A-Za-z0-9]))|(?![A-WYZa-wyz0-9]|[Xx](?!\d)))",
    re.IGNORECASE,
)
#: NVIDIA's own systems have eight accelerators, whatever else is said of them.
_SYSTEM = re.compile(r"(?<![A-Za-z])DGX[\s_-]+(?:[ABH]\d00)(?![A-Za-z0-9])", re.IGNORECASE)
_ACCELERATORS_OF_SYSTEM = "8"
_MEMORY = re.compile(r"(?<![\d.])(\d{2,3}) ?(?:GB|GiB|G)(?![A-Za-z0-9])", re.IGNORECASE)
_BEFORE = re.compile(r"(\d+(?:\.\d+)?|\d+/\d+)\s*(?:x|×|\*)[\s_-]*(?:nvidia[\s_-]*|amd[\s_-]*)?$", re.IGNORECASE)
_PLAIN_BEFORE = re.compile(
    r"(?<![\w.])(\d+/\d+|\d+(?:\.\d+)?\s*%)\s*(?:of\s+)?(?:an?\s+)?(?:nvidia\s*|amd\s*)?$|(?<![\w.])(\d)$", re.IGNORECASE
)
_AFTER = re.compile(
    r"^(?:[\s_-]*(?:\d+ ?gi?b|sxm\d?|pcie|nvl|ib|gpus?))*[\s_-]*(?:x|×|:)[\s_-]*(\d+)(?![A-Za-z0-9])|^[\w-]*[._-](\d+)x(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_GPU_AFTER = re.compile(r"(?<![A-Za-z0-9.])(\d+)[\s_-]?gpus?(?![A-Za-z])(?![\s_-]*slice)", re.IGNORECASE)
_UNIT = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*)?(?:((?:gpu|accelerator|card|chip)|(?:instance|vm|node|machine|box|compute|server|virtual machine|bare"
    r" metal|host))s?)?[\s_/*·-]*(?:per\s+)?"
    r"(seconds?|secs?|s|minutes?|mins?|hours?|hourly|hrs?|h|days?)\.?(?:\s*\((gpu|accelerator|card|chip)s?\))?",
    re.IGNORECASE,
)
_HOURS = {"s": 1 / 3600, "m": 1 / 60, "h": 1.0, "d": 24.0}


@dataclass(frozen=True)
class Machine:
    """What words say of a machine: its name in the tables or in the words, its accelerator and how many it has.

    Args:
        name: Name in the table skus where it is there, else as the words have it; empty where only an accelerator is named.
        accelerator: Name in the table accelerators, or None where the tables have no such accelerator.
        count: Accelerators in one machine; below one for a part of an accelerator.
        stated: The accelerator in the words of the text.
    """

    name: str
    accelerator: str | None
    count: float
    stated: str


def slice_share(text: str) -> float | None:
    """Return the share of an accelerator that a profile of Multi-Instance GPU names, or None where none is named.

    Examples:
        >>> slice_share("nvidia_h100_80gb_hbm3_1g.10gb") == 1 / 7, slice_share("2g.12gb"), slice_share("h100") is None
        (True, 0.5, True)
    """
    found = _MIG.search(text)
    if found is None:
        return None
    compute, slices, memory = found.groups()
    return int(compute or slices) / (4 if (int(slices), int(memory)) in SLICES_OF_FOUR else SLICES)


def hours_of_unit(unit: str | None) -> tuple[float, bool] | None:
    """Return how many hours a unit of a bill is, and whether they are hours of single accelerators; None for any other unit.

    Examples:
        >>> hours_of_unit("Hrs"), hours_of_unit("100 Hours"), hours_of_unit("GPU-Hours"), hours_of_unit("gibibyte hour") is None
        ((1.0, False), (100.0, False), (1.0, True), True)
    """
    found = _UNIT.fullmatch((unit or "").strip())
    if found is None:
        return None
    times, noun, length, behind = found.groups()
    single = bool(behind) or (bool(noun) and noun.lower() in ("gpu", "accelerator", "card", "chip"))
    return float(times or 1) * _HOURS[length[0].lower()], single


def _number(text: str) -> float:
    return float(text.rstrip("% ")) / 100 if text.endswith("%") else float(Fraction(text)) if "/" in text else float(text)


def _aws(text: str) -> tuple[str, str, float] | None:
    for found in _AWS.finditer(text):
        family, size = found[1].lower(), found[2].lower()
        if family in _AWS_FAMILIES:
            accelerator, counts = _AWS_FAMILIES[family]
            return f"{family}.{size}", accelerator, counts.get(size, 1)
    return None


def _azure(text: str) -> tuple[str, str, float] | None:
    found = _AZURE.search(text)
    if found is None:
        return None
    series, cpus, features, named, version = found[1], int(found[2]), found[3], found[4], found[5] or ""
    accelerator = named or _AZURE_BARE.get((series, features, version))
    if accelerator is None:
        return None
    if accelerator == "A100":
        accelerator = "A100-80GB-PCIe" if series == "NC" else "A100-80GB" if "m" in features else "A100-40GB"
    elif (series, accelerator) == ("NC", "H100"):
        accelerator = "H100-NVL"
    by_cpus = _AZURE_COUNTS.get((series, named or accelerator), {})
    count = by_cpus.get(cpus, 8.0 if series == "ND" else max(1.0, cpus // 6) if not named else 1.0)
    return found[0].strip(), accelerator, count


def _google(text: str) -> tuple[str, str, float] | None:
    found = _GOOGLE.search(text)
    if found is None or (kind := f"{found[1]}-{found[2]}".lower()) not in _GOOGLE_KINDS:
        return None
    size = int(found[3])
    return (
        found[0].lower(),
        _GOOGLE_KINDS[kind],
        _GOOGLE_BY_VCPUS[found[1].lower()].get(size, 1) if found[1].lower() in _GOOGLE_BY_VCPUS else size,
    )


def _oracle(text: str) -> tuple[str, str, float] | None:
    found = _ORACLE.search(text)
    return found and (found[0], _ORACLE_KINDS.get(found[1].lower(), found[1].upper()), float(found[3]))


FAMILIES: tuple[Callable[[str], tuple[str, str, float] | None], ...] = (_aws, _azure, _google, _oracle)


def _worded(text: str) -> tuple[str, str, float] | None:
    """Find an accelerator's bare name, and the number that stands with it."""
    found = _ACCELERATOR.search(text.replace("_", " "))
    if found is None:
        return None
    before, after = text[: found.start()], text[found.end() :]
    count = _BEFORE.search(before.replace("_", " ")) or _PLAIN_BEFORE.search(before) or _AFTER.search(after) or _GPU_AFTER.search(text)
    single = _ACCELERATORS_OF_SYSTEM if _SYSTEM.search(text) else "1"
    number = next((group for group in count.groups() if group), single) if count else single
    name, near = found[1].upper(), after[:24]
    memory = _MEMORY.search(near)
    stated = (
        name
        + (f" {memory[1]}GB" if memory and name == "A100" else "")
        + (" PCIe" if name == "A100" and memory and re.search("pcie", near, re.IGNORECASE) else "")
    )
    if name == "H100" and re.search(r"\bnvl\b", near, re.IGNORECASE):
        stated = "H100-NVL"
    return "", stated, _number(number)


class Recogniser:
    """Find machines of the tables, and of the families that clouds sell, in any words.

    Args:
        skus, accelerators: Tables of known machines and accelerators.
    """

    def __init__(self, skus: pd.DataFrame, accelerators: pd.DataFrame) -> None:
        self.accelerators = set(accelerators["accelerator"].astype(str))
        self._known: dict[str, tuple[str, str, float]] = {}
        for sku, provider, accelerator, count in skus[["sku", "provider", "accelerator", "accelerator_count"]].itertuples(index=False):
            own = str(sku).removeprefix(f"{provider}-")
            for name in (sku, own if re.search(r"[a-z]{3}", own) else sku, str(sku).removeprefix("Standard_").replace("_", " ")):
                self._known.setdefault(str(name).lower(), (str(sku), str(accelerator), float(count)))
        names = "|".join(re.escape(name) for name in sorted(self._known, key=len, reverse=True))
        self._table = re.compile(rf"(?<![a-z0-9-])(?:ml\.)?({names})(?![a-z0-9-]|\.[a-z0-9])", re.IGNORECASE) if names else None

    @property
    def names(self) -> list[str]:
        """All names of machines in the tables, in small letters."""
        return list(self._known)

    def find(self, text: str) -> Machine | None:
        """Return the machine that a text names, or None where it names none.

        Args:
            text: Any words: a meter, a description, a machine type.
        """
        found = self._table.search(text) if self._table else None
        if found is not None:
            name, accelerator, count = self._known[found[1].lower()]
            return Machine(name, accelerator, count * (slice_share(text) or 1.0), accelerator)
        named = next((match for match in (family(text) for family in FAMILIES) if match), None) or _worded(text)
        if named is None:
            return None
        name, stated, count = named
        return Machine(name, accelerator_named(stated, name, self.accelerators), count * (slice_share(text) or 1.0), stated)
