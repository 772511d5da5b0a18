"""The fleet in two parts, and who has which node when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.split import SplitAssumptions
from capplan.errors import CapplanError
from capplan.questions.split.inference_load import Load

SEPARATE, SHARED, LENDING = "separate", "shared", "lending"
ARRANGEMENTS = (SEPARATE, SHARED, LENDING)


@dataclass(frozen=True)
class Fleet:
    """One row a node, in the order in which jobs fill them: training's own nodes first, inference's own last.

    Args:
        nodes: [node, accelerator, accelerator_count, nodes (1), domain, own ("training" or "inference")].
        kind: Accelerator that serves.
    """

    nodes: pd.DataFrame
    kind: str

    def accelerators(self, own: str | None = None) -> int:
        """Return the accelerators of one part, or of the whole fleet."""
        rows = self.nodes if own is None else self.nodes[self.nodes["own"] == own]
        return int(rows["accelerator_count"].sum())

    def with_training(self, count: int) -> Fleet:
        """Return the fleet with another number of training nodes of the kind that serves."""
        mine = (self.nodes["own"] == "training") & (self.nodes["accelerator"] == self.kind)
        own, rest = self.nodes[mine], self.nodes[~mine]
        pattern = own.iloc[-1] if len(own) else self.nodes[self.nodes["own"] == "inference"].iloc[0]
        more = [
            {**pattern.to_dict(), "node": f"more-{index + 1}", "domain": "0 more", "own": "training"}
            for index in range(max(0, count - len(own)))
        ]
        return Fleet(pd.concat([own.head(count), pd.DataFrame(more), rest], ignore_index=True), self.kind)

    def without(self, accelerators: int) -> Fleet:
        """Return the fleet with accelerators taken from training's own nodes of the kind that serves, in whole nodes.

        Raises:
            CapplanError: Where training has fewer, or would be left with none.
        """
        mine = self.nodes[(self.nodes["own"] == "training") & (self.nodes["accelerator"] == self.kind)]
        sizes = mine["accelerator_count"].to_numpy()[::-1].cumsum()
        taken = int(np.searchsorted(sizes, accelerators)) + 1
        if taken > len(mine) or self.accelerators("training") <= sizes[taken - 1]:
            raise CapplanError(
                f"added_accelerators = {-accelerators}: training's own nodes have only {self.accelerators('training'):,} accelerators, and"
                " one of them must stay; take fewer, or state fewer inference_accelerators"
            )
        return self.with_training(len(mine) - taken)

    @property
    def training_nodes(self) -> int:
        """Training's own nodes of the kind that serves."""
        return int(((self.nodes["own"] == "training") & (self.nodes["accelerator"] == self.kind)).sum())


def divide(nodes: pd.DataFrame, peak: float, a: SplitAssumptions) -> Fleet:
    """Divide the nodes table: inference gets whole nodes of the commonest accelerator for its quota, training the rest.

    Raises:
        CapplanError: The quota leaves training nothing, or no node has an accelerator.
    """
    usable = nodes[nodes["accelerator_count"] > 0].reset_index(drop=True)
    if usable.empty:
        raise CapplanError("nodes: no node has an accelerator; give accelerator_count of at least 1")
    counts = (usable["nodes"] if "nodes" in usable else pd.Series(1, index=usable.index)).to_numpy()
    rows = usable.loc[usable.index.repeat(counts)].reset_index(drop=True)
    domain = rows["domain"].fillna(rows["node"]) if "domain" in rows else rows["node"]
    position = rows.groupby("node").cumcount()
    several = rows.groupby("node")["node"].transform("size") > 1
    frame = pd.DataFrame(
        {
            "node": np.where(several, rows["node"] + "-" + position.astype(str), rows["node"]),
            "accelerator": rows["accelerator"],
            "accelerator_count": rows["accelerator_count"],
            "nodes": 1,
            "domain": domain,
        }
    )
    order = {name: index for index, name in enumerate(dict.fromkeys(frame["accelerator"]))}
    frame = frame.iloc[np.lexsort((np.arange(len(frame)), frame["domain"], frame["accelerator"].map(order)))].reset_index(drop=True)
    kind = str(frame.groupby("accelerator", sort=False)["accelerator_count"].sum().idxmax())
    quota = float(a.inference_accelerators) if a.inference_accelerators is not None else float(np.ceil(peak))
    where = np.flatnonzero(frame["accelerator"] == kind)
    sizes = frame["accelerator_count"].to_numpy()[where]
    room = np.concatenate([[0], np.cumsum(sizes[::-1])])
    taken = int(np.searchsorted(room, quota))
    total = int(frame["accelerator_count"].sum())
    if taken >= len(room) or room[taken] >= total:
        raise CapplanError(
            f"inference wants {quota:,.0f} of the fleet's {int(room[-1]):,} {kind}, which leaves training nothing; "
            "state fewer with inference_accelerators, or add nodes with added_accelerators"
        )
    frame["own"] = "training"
    frame.loc[where[len(where) - taken :], "own"] = "inference"
    # the simulator fills nodes of a kind in the order of their domains: training's own come first
    frame["domain"] = np.where(frame["own"] == "training", "0 ", "1 ") + frame["domain"].astype(str)
    frame = frame.iloc[np.lexsort((np.arange(len(frame)), frame["domain"], frame["accelerator"].map(order)))].reset_index(drop=True)
    return Fleet(frame, kind)


@dataclass(frozen=True)
class Handover:
    """Which nodes change hands, and when."""

    nodes: np.ndarray  #: Names of the nodes that may, in the order in which they are lent first and asked back last.
    sizes: np.ndarray  #: Their accelerators.
    #: time, lent: Steps, in seconds since the first submission: from each time on, so many of them are lent.
    time: np.ndarray
    lent: np.ndarray

    def changes(self, origin: pd.Timestamp) -> pd.DataFrame:
        """Return the nodes that leave and join training: [time, node, available]."""
        before = np.concatenate([[len(self.nodes)], self.lent[:-1]])
        names, when, available = [], [], []
        for seconds, old, new in zip(self.time, before, self.lent, strict=True):
            moved = self.nodes[min(old, new) : max(old, new)]
            names += list(moved)
            when += [seconds] * len(moved)
            available += [bool(new > old)] * len(moved)
        return pd.DataFrame(
            {"time": origin + pd.to_timedelta(np.array(when, dtype=float), unit="s"), "node": names, "available": available}
        )

    def ready(self, delay_seconds: float, until: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the accelerators that are ready to serve, as steps (time, accelerators).

        A node asked back is ready after the delay, unless it has been lent again before.
        """
        room = np.concatenate([[0.0], np.cumsum(self.sizes)])
        moments, moves = [np.zeros(1)], [np.array([room[-1] - room[self.lent[0]] if len(self.lent) else room[-1]])]
        for index, size in enumerate(self.sizes):
            away = self.lent > index
            turned = np.flatnonzero(np.diff(away.astype(int)) != 0) + 1
            times = self.time[turned]
            back = ~away[turned]
            following = np.append(times[1:], until)
            if len(times) and not back[0]:
                moments.append(times[:1])
                moves.append(np.array([-float(size)]))
            starts = times[back] + delay_seconds
            stops = following[back]
            held = starts < stops
            moments += [starts[held], stops[held & (stops < until)]]
            moves += [np.full(int(held.sum()), float(size)), np.full(int((held & (stops < until)).sum()), -float(size))]
        when, change = np.concatenate(moments), np.concatenate(moves)
        times, place = np.unique(when, return_inverse=True)
        return times, np.cumsum(np.bincount(place, weights=change, minlength=len(times)))


def hand_over(fleet: Fleet, load: Load, arrangement: str, a: SplitAssumptions) -> Handover:
    """Say which nodes are lent when.

    Separate clusters lend nothing. Lending keeps the load and its warm spare at home, and lends at most lending_share of inference's own
    accelerators
    and at most borrowing_share of training's. In a shared pool inference takes what load and spare need of any node that serves.
    """
    serving = fleet.nodes["accelerator"] == fleet.kind
    rows = fleet.nodes[serving & ((fleet.nodes["own"] == "inference") | (arrangement == SHARED))]
    names, sizes = rows["node"].to_numpy(), rows["accelerator_count"].to_numpy(dtype=float)
    if arrangement == SEPARATE:
        return Handover(names, sizes, np.zeros(1), np.zeros(1, dtype=np.int64))
    spare = 1.0 + a.warm_spare_share
    # accelerators at home if so many of the last nodes are kept
    kept = np.concatenate([[0.0], np.cumsum(sizes[::-1])])
    needed = np.minimum(np.searchsorted(kept, load.accelerators * spare - 1e-9), len(sizes))
    lent = len(sizes) - needed
    if arrangement == LENDING:
        most = min(a.lending_share * sizes.sum(), a.borrowing_share * fleet.accelerators("training"))
        lent = np.minimum(lent, np.searchsorted(np.cumsum(sizes), most + 1e-9, side="right"))
    time = load.start
    lead = 60 * a.reclaim_lead_minutes
    if lead > 0:
        time = np.unique(np.concatenate([load.start, np.maximum(load.start - lead, 0.0)]))
        first = np.searchsorted(load.start, time, side="right") - 1
        last = np.searchsorted(load.start, time + lead, side="right") - 1
        lent = np.array([lent[low : high + 1].min() for low, high in zip(first, last, strict=True)])
    turned = np.concatenate([[True], np.diff(lent) != 0])
    return Handover(names, sizes, time[turned], lent[turned].astype(np.int64))


def short_of(load: Load, ready: tuple[np.ndarray, np.ndarray], seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the steps of load and readiness together: (length in the first `seconds`, load, accelerators missing)."""
    times, accelerators = ready
    edges = np.unique(np.concatenate([load.start, times, [seconds]]))
    edges = edges[edges <= seconds]
    start, length = edges[:-1], np.diff(edges)
    needed = load.accelerators[np.searchsorted(load.start, start, side="right") - 1]
    there = accelerators[np.searchsorted(times, start, side="right") - 1]
    return length, needed, np.maximum(needed - there, 0.0)
