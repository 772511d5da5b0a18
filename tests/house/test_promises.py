"""The promises of CONTRIBUTING, carried out: each addition touches only the place that its table names, in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

USAGE = 'class Usage(Table):\n    """Measured work of one interval."""\n\n'
PRICING = 'class PricingAssumptions(Timeline):\n    """What an accelerator-hour really costs."""\n\n'
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the code and its data."""
    for name in ("capplan", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edit(tree: Path, place: str, before: str, after: str) -> None:
    """Change one place, which the table must name."""
    assert f"`{place}`" in CONTRIBUTING or f"`{Path(place).parent}/`" in CONTRIBUTING, f"CONTRIBUTING does not name {place}"
    file = tree / place
    text = file.read_text(encoding="utf-8")
    assert text.count(before) >= 1, f"{place} has no {before!r}"
    file.write_text(text.replace(before, after, 1), encoding="utf-8")


def run(tree: Path, code: str) -> str:
    """Run a few lines against the copy."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_scheduling_policy(tree: Path) -> None:
    edit(
        tree,
        "capplan/book/policies.py",
        "POLICIES = {\n",
        'POLICIES = {\n    "emptiest_queue": Policy(order="remaining", backfill="skip"),\n',
    )
    code = (
        "import capplan, pandas as pd\nfrom capplan.book.scenario import ClusterAssumptions, Scenario\nfrom capplan.questions.cluster"
        " import simulate_cluster\nprint(capplan.__file__)\nScenario(cluster_policy='emptiest_queue',"
        " training_policy='emptiest_queue')\njobs = pd.DataFrame({'job_id': ['a', 'b'], 'submit': pd.to_datetime(['2026-01-01',"
        " '2026-01-01']), 'duration_seconds': [7200.0, 3600.0], 'accelerators': [8.0, 8.0]})\nnodes = pd.DataFrame({'node': ['n'],"
        " 'accelerator': ['H100'], 'accelerator_count': [8.0]})\nprint(sorted(simulate_cluster(jobs, nodes, 'emptiest_queue',"
        " ClusterAssumptions()).jobs['queue_seconds']))\n"
    )
    assert run(tree, code).split("\n") == [str(tree / "capplan" / "__init__.py"), "[0.0, 3600.0]"]


def test_a_column_of_a_table(tree: Path) -> None:
    edit(
        tree,
        "capplan/book/tables/work.py",
        USAGE,
        USAGE + '    carbon_kg: float = column("Carbon of the work.", unit="kg", optional=True, default=0.0, ge=0)\n',
    )
    book = tree / "book"
    book.mkdir()
    (book / "usage.csv").write_text("time,workload,quantity,carbon_kg\n2026-01-01T00:00:00,chat,1,2.5\n2026-01-01T01:00:00,chat,1,\n")
    code = (
        "from capplan import load_book\nfrom capplan.book.dictionary import dictionary\n"
        "print(load_book('book').get('usage')['carbon_kg'].tolist(), 'carbon_kg' in dictionary())\n"
    )
    assert run(tree, code) == "[2.5, 0.0] True"
    (book / "usage.csv").write_text("time,workload,quantity,carbon_kg\n2026-01-01T00:00:00,chat,1,-2.5\n")
    assert "carbon_kg: found '-2.5'" in run(
        tree, "from capplan import load_book\ntry:\n    load_book('book')\nexcept Exception as error:\n    print(error)\n"
    )


def test_an_assumption(tree: Path) -> None:
    field = '    insurance_share: float = assumption(0.01, "Insurance.", "A judgement.", unit="share", ge=0, le=1, step=0.01)\n'
    edit(tree, "capplan/book/assumptions/pricing.py", PRICING, PRICING + field)
    code = (
        "from capplan.book.dictionary import dictionary\nfrom capplan.book.scenario import Scenario\n"
        "from capplan.outputs.lab.controls import control_for\n"
        "scenario = Scenario(insurance_share=0.5)\n"
        "print(scenario.insurance_share, 'insurance_share' in dictionary(), control_for('insurance_share', 0.5) is not None)\n"
    )
    found = run(tree, code).split()
    assert found == ["0.5", "True", "True"]


def test_a_price_a_machine_and_an_accelerator(tree: Path) -> None:
    for place, row in (
        ("data/reference/accelerators.csv", {"accelerator": "Z100", "vendor": "nobody"}),
        ("data/reference/skus.csv", {"sku": "z.8x", "provider": "nobody", "accelerator": "Z100", "accelerator_count": "8"}),
        (
            "data/reference/offers.csv",
            {"offer_id": "z-od", "sku": "z.8x", "region": "any", "geography": "us", "term": "on_demand", "usd_per_hour": "8"},
        ),
    ):
        file = tree / place
        header, first = file.read_text(encoding="utf-8").split("\n")[:2]
        known = dict(zip(header.split(","), next(__import__("csv").reader([first])), strict=False))
        known |= row
        file.write_text(
            file.read_text(encoding="utf-8").rstrip("\n") + "\n" + ",".join(f'"{known[name]}"' for name in header.split(",")) + "\n",
            encoding="utf-8",
        )
        assert f"`{place}`" in CONTRIBUTING or f"`{Path(place).name}`" in CONTRIBUTING
    code = (
        "from capplan import load_book, price_hours\nfrom capplan.book.scenario import PricingAssumptions\n"
        "book = load_book('data/enterprise')\nprices = price_hours(book.get('skus'), book.get('offers'), PricingAssumptions())\n"
        "print(prices.set_index('offer_id').at['z-od', 'billed_usd_per_accelerator_hour'])\n"
    )
    assert float(run(tree, code)) == pytest.approx(1.0)
