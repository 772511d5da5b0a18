"""The words in which a first stage is written: PuLP's expressions and models, for whoever may not know the solver behind them."""

from pulp import LpAffineExpression, LpMinimize, LpProblem, LpVariable, lpSum

__all__ = ["LpAffineExpression", "LpMinimize", "LpProblem", "LpVariable", "lpSum"]
