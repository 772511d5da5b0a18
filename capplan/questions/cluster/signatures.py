"""The types of what compiled code is called with."""

from typing import Any, get_type_hints

from capplan.compiling import types
from capplan.questions.cluster.state import FloatRows, Floats, Jobs, Places, Rules, State, Whole, WholeRows

COUNT, REAL, FLAG = types.int64, types.float64, types.boolean
COUNTS, REALS = types.int64[::1], types.float64[::1]
_TYPES = {int: COUNT, float: REAL, Whole: COUNTS, Floats: REALS, WholeRows: types.int64[:, ::1], FloatRows: types.float64[:, ::1]}


def _of(kind: Any) -> Any:
    """Return the type of a named tuple from what its fields are annotated with."""
    return types.NamedTuple([_TYPES[hint] for hint in get_type_hints(kind).values()], kind)


TRACE, NODES, RULES, STATE = _of(Jobs), _of(Places), _of(Rules), _of(State)
