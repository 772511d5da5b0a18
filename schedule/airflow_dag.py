"""The plan as an Airflow task: the notebook, run by papermill; a failing cell fails the task."""

import datetime as dt

from airflow.providers.papermill.operators.papermill import PapermillOperator
from airflow.sdk import DAG

with DAG("capacity_plan", schedule="15 6 * * 1", start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), catchup=False) as dag:
    PapermillOperator(
        task_id="plan",
        input_nb="/opt/capplan/notebooks/14_plan.ipynb",
        output_nb="/srv/plans/notebooks/plan-{{ ds }}.ipynb",
        parameters={"book": "/srv/plans/book", "risk_weight": 0.3, "more": {"demand_factor": 1.1}},
    )
