"""One training run: what it is, how much work, and how long it has."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.book.roadmap import with_active_parameters
from capplan.errors import CapplanError, nearest
from capplan.questions.training.architecture import Shape, shape_of
from capplan.questions.training.flops import EXA, check_tokens, operations_per_token
from capplan.questions.training.layout import operations_counted
from capplan.questions.training.offered import PEAKS, TrainingTables
from capplan.questions.training.speed_by_count import Published, published_rates

DAY = pd.Timedelta(days=1)


@dataclass(frozen=True)
class Job:
    """A training run that has been checked."""

    row: dict[str, Any]  #: The run as it is stated.
    #: shape, precision: Architecture and number format.
    shape: Shape
    precision: str
    #: exaflop, tokens: How much work it is.
    exaflop: float
    tokens: float
    days_available: float  #: From start to deadline; infinite where none is stated.
    published: Published  #: From `published_rates`.

    @property
    def name(self) -> str:
        """Name of the run."""
        return str(self.row.get("run_id", "the run"))


def job_of(run: Any, tables: TrainingTables, a: TrainingAssumptions) -> Job:
    """Check a run: a row of training_runs, a table of one, or a mapping.

    Raises:
        CapplanError: As `as_run`; for an unknown number format or model, and a deadline before the start.
    """
    row = as_run(run, tables.models)
    precision = checked_precision(row)
    shape = shape_of(float(row["parameters"]), row.get("model"), tables.models, row.get("parameters_total"))
    exaflop = run_work(row, shape, a)
    tokens = float(row["tokens"]) if "tokens" in row else exaflop * EXA / float(operations_per_token(shape.active))
    published = published_rates(tables.speeds, row.get("model"), shape, tables.models, a)
    return Job(row, shape, precision, exaflop, tokens, days_available(row), published)


def as_run(run: Any, models: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return a run, given as a row, a table of one or a mapping, as a mapping; with both parameter counts where its model is known.

    Raises:
        CapplanError: If there is not one run, or it states no parameters, or neither tokens nor quantity, or they are not in units.
    """
    if isinstance(run, pd.DataFrame):
        if len(run) != 1:
            raise CapplanError(f"plan_run plans one run at a time; got {len(run)} rows of training_runs. Choose one by its run_id")
        run = run.iloc[0]
    run = with_active_parameters(pd.DataFrame([dict(run)]), models)[0].iloc[0]
    row = {name: value for name, value in dict(run).items() if value is not None and not pd.isna(value)}
    name = row.get("run_id", "the run")
    if "parameters" not in row:
        raise CapplanError(
            f"{name} states no parameters; its memory, and with them its layout, cannot be known without. State parameters and tokens"
        )
    if "tokens" not in row and "quantity" not in row:
        raise CapplanError(f"{name} states neither tokens nor its quantity in exaflop; state tokens")
    if "tokens" in row:
        check_tokens(row["tokens"])
    return row


def checked_precision(row: dict[str, Any]) -> str:
    """Return the number format of a run; refuse those without a peak rate."""
    precision = str(row.get("precision", "bf16"))
    if precision not in PEAKS:
        raise CapplanError(
            f"precision = {precision!r}: peak rates are known for {', '.join(PEAKS)}; {nearest(precision, PEAKS)}. A run in fp32 is usually"
            " one in bf16 with sums in fp32"
        )
    return precision


def run_work(row: dict[str, Any], shape: Shape, a: TrainingAssumptions) -> float:
    r"""Say how much work a run is, in exaflop: as stated, or its operations.

    With the defaults it is 6 N D / 10^18, the quantity of the demand forecast; attention's own work and what is computed again come on top
    where the scenario counts them.

    Returns:
        float: 10^18 operations.
    """
    counted = operations_counted(shape, a)
    if "quantity" in row:
        return float(row["quantity"]) * counted / float(operations_per_token(shape.active))
    return counted * float(row["tokens"]) / EXA


def days_available(row: dict[str, Any]) -> float:
    """Return the days from start to deadline, both days included; infinite where none is stated."""
    if "deadline" not in row or "start" not in row:
        return float("inf")
    start, deadline = pd.Timestamp(row["start"]), pd.Timestamp(row["deadline"])
    if deadline < start:
        raise CapplanError(
            f"{row.get('run_id', 'the run')}: its deadline {deadline.date()} is before its start {start.date()}; correct one of them"
        )
    return float((deadline - start) / DAY) + 1
