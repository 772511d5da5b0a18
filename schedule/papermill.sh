#!/bin/sh
# A misspelt parameter, or a cell that fails, ends with an exit code other than 0.
set -eu
/opt/capplan/.venv/bin/papermill /opt/capplan/notebooks/14_plan.ipynb /srv/plans/plan.ipynb -p book /srv/plans/book -p risk_weight 0.3
