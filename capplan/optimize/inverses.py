"""Where the inverses of bases lie: in one place for all problems of one size, so that what one lets go of another takes."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from typing import Protocol

import numpy as np

Array = np.ndarray
#: Memory that the inverses of all problems may take, and the share of it that stays in use when it was more.
ALL_BYTES, KEPT_SHARE = 2_000_000_000, 0.7
FIRST_ROOM = 64
#: Room for inverses grows by this share, and by no more memory at once; the system moves what is there without copying it.
GROWTH, GROWTH_BYTES = 0.5, 200_000_000
#: Ticks with every use of a store, so that ages of inverses compare between stores.
clock = itertools.count(1)
#: Held while inverses are read or written: several threads may solve problems of one size.
guard = threading.RLock()
_places: weakref.WeakValueDictionary[tuple[int, int], Inverses] = weakref.WeakValueDictionary()


class Keeper(Protocol):
    """A store whose bases have inverses here."""

    slot: Array  #: Place of the inverse of each basis, -1 where it has none.
    used: Array  #: When each basis was last met.


class Inverses:
    """Inverses of bases of m rows and n columns, by slot.

    Attributes:
        inverse (slots, m, m): Transposed inverses.
        norm (slots, m): Length of each row of an inverse.
        reduced (slots, n): Reduced costs.
        free, left: Slots that are free, those that are taken first last; how many they are, in an array of one.
    """

    def __init__(self, m: int, n: int) -> None:
        self.inverse, self.norm, self.reduced = np.zeros((FIRST_ROOM, m, m)), np.zeros((FIRST_ROOM, m)), np.zeros((FIRST_ROOM, n))
        self.free, self.left = np.arange(FIRST_ROOM)[::-1].copy(), np.array([FIRST_ROOM])
        self.slot_bytes = 8 * (m * (m + 1) + n)
        self.keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        #: What stores had that are no more; they may end at any moment, so it is only taken back when room is looked for.
        self.returned: deque[Array] = deque()

    @property
    def taken_bytes(self) -> int:
        """Memory of the inverses that are kept."""
        return (len(self.inverse) - int(self.left[0])) * self.slot_bytes

    def room(self, count: int) -> Array:
        """Return so many slots."""
        while self.left[0] < count:
            self.grow()
        self.left[0] -= count
        return self.free[self.left[0] : self.left[0] + count][::-1].copy()

    def grow(self) -> None:
        """Make room for more inverses: what is no more in use, or else more memory."""
        if self.take_back():
            return
        have, left = len(self.inverse), int(self.left[0])
        count = max(min(int(GROWTH * have), GROWTH_BYTES // self.slot_bytes), 1)
        self.inverse, self.norm, self.reduced = (grown(array, count) for array in (self.inverse, self.norm, self.reduced))
        more = np.arange(have, have + count)[::-1]
        self.free = np.concatenate([more, self.free[:left], np.zeros(have - left, dtype=np.int64)])
        self.left[0] += len(more)

    def give(self, slots: Array) -> None:
        """Take slots back."""
        left = int(self.left[0])
        self.free[left : left + len(slots)] = slots
        self.left[0] += len(slots)

    def take_back(self) -> bool:
        """Take back the slots of stores that are no more; tell whether there were any."""
        before = int(self.left[0])
        while self.returned:
            self.give(self.returned.popleft())
        return int(self.left[0]) > before


def inverses_of(m: int, n: int) -> Inverses:
    """Return where the inverses of all bases of a size lie."""
    with guard:
        found = _places.get((m, n))
        if found is None:
            found = _places[m, n] = Inverses(m, n)
        return found


def let_go() -> None:
    """Let go of the inverses used longest ago, in all stores, when they take more memory than they may."""
    places = list(_places.values())
    for place in places:
        place.take_back()
    if sum(place.taken_bytes for place in places) <= ALL_BYTES:
        return
    held = [(place, keeper, np.flatnonzero(keeper.slot >= 0)) for place in places for keeper in list(place.keepers)]
    age = np.concatenate([keeper.used[own] for _, keeper, own in held])
    size = np.repeat([place.slot_bytes for place, _, _ in held], [len(own) for _, _, own in held])
    newest = np.argsort(-age, kind="stable")
    kept = int(np.searchsorted(np.cumsum(size[newest]), KEPT_SHARE * ALL_BYTES, side="right"))
    if kept == len(age):
        return
    for place, keeper, own in held:
        gone = own[keeper.used[own] <= age[newest[kept]]]
        place.give(keeper.slot[gone])
        keeper.slot[gone] = -1


def grown(array: Array, more: int | None = None) -> Array:
    """Return the array with room for so many more, or for twice as many; it is the same one."""
    array.resize((len(array) + (len(array) if more is None else more), *array.shape[1:]), refcheck=False)
    return array
