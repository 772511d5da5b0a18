"""A few results that are not computed again, the newest used."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Memory(Generic[Result]):
    """Results by the digest of all they depend on; threads share it, and the longest unused go first.

    Args:
        most: How many are kept.

    Examples:
        >>> memory = Memory(2)
        >>> for name in "abac":
        ...     memory[name] = name.upper()
        >>> memory.get("a"), memory.get("b"), memory.get("c")
        ('A', None, 'C')
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: str) -> Result | None:
        """Return a result, or None where it is not kept."""
        with self._guard:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def __setitem__(self, key: str, result: Result) -> None:
        """Keep a result."""
        with self._guard:
            self._results[key] = result
            self._results.move_to_end(key)
            while len(self._results) > self.most:
                self._results.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._guard:
            self._results.clear()
