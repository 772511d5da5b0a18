"""The words in which a first stage is written: PuLP's expressions and models, for whoever may not know the solver behind them."""

import pulp
from pulp import LpAffineExpression, LpMinimize, LpProblem, LpVariable, lpSum

__all__ = ["LpAffineExpression", "LpMinimize", "LpProblem", "LpVariable", "lpSum"]

# PuLP keeps why a solver is not there, and that keeps the calls, with all their tables, in which PuLP was first imported: for good.
for _solver in vars(pulp).values():
    _missing = getattr(_solver, "err", None)
    while isinstance(_missing, BaseException):
        _missing.__traceback__, _missing = None, _missing.__context__
