"""Lists of hosts as schedulers write them, and the racks that hosts stand in."""

import itertools
import re
from collections.abc import Iterable, Iterator

import pandas as pd

#: Hosts that one list may name.
MOST_HOSTS = 100_000
_LIST = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expanded(text: str) -> list[str]:
    """Return the hosts of a list; empty where it cannot be read.

    Examples:
        >>> expanded("gpu[001-003,7],login1"), expanded("r[1-2]n[3,4]")
        (['gpu001', 'gpu002', 'gpu003', 'gpu7', 'login1'], ['r1n3', 'r1n4', 'r2n3', 'r2n4'])
        >>> expanded("gpu[3-1]"), expanded("gpu[")
        ([], [])
    """
    found: list[str] = []
    for name in _LIST.findall(text):
        parts = [list(_numbers(inside)) if inside else [plain] for inside, plain in _PART.findall(name)]
        size = 1
        for part in parts:
            size *= len(part)
        if "".join(match[0] for match in _PART.finditer(name)) != name or not size or len(found) + size > MOST_HOSTS:
            return []
        found += ["".join(choice).strip() for choice in itertools.product(*parts)]
    return found if ",".join(_LIST.findall(text)) == text else []


def _numbers(text: str) -> Iterator[str]:
    """Return the numbers of a list of ranges; they keep their zeros."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MOST_HOSTS:
            return
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def racks_of(lists: Iterable[str], nodes: pd.DataFrame) -> pd.DataFrame:
    """Say in how many racks the hosts of each list stand.

    Args:
        nodes: Table nodes: a row names one node, or by such a list several; a row of several nodes without a list names them node-0, node-1
            and so on. Its domain is the rack; a node without one is a rack of its own.

    Returns:
        DataFrame: [hosts, racks], racks missing where a host is in no row.
    """
    rack: dict[str, str] = {}
    for row in nodes.itertuples(index=False):
        name, count = str(row.node), getattr(row, "nodes", 1)
        names = expanded(name) or [name]
        if len(names) == 1 and pd.notna(count) and count > 1:
            names = [f"{name}-{number}" for number in range(int(min(count, MOST_HOSTS)))]
        domain = getattr(row, "domain", None)
        rack |= {host: str(domain) if isinstance(domain, str) and domain else host for host in names}
    rows = []
    for text in lists:
        found = {rack.get(host) for host in expanded(text)}
        rows.append((text, float(len(found)) if found and None not in found else None))
    return pd.DataFrame(rows, columns=["hosts", "racks"]).astype({"racks": "float64"})
