"""The purchase as a two-stage program: first stage, recourse, limits, budgets, agreements."""
