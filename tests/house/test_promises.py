"""The promises of CONTRIBUTING, carried out: each addition touches only the place that its table names, in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.outputs.test_excel import small_book

pytestmark = pytest.mark.slow
USAGE = 'class Usage(Table):\n    """Measured work of one interval."""\n\n'
PRICING = 'class PricingAssumptions(Timeline):\n    """What an accelerator-hour really costs."""\n\n'
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the code and its data."""
    for name in ("capplan", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def touched(tree: Path) -> list[str]:
    """Return the files of the copy that are new or differ."""
    files = (file for file in tree.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    names = ((file, file.relative_to(tree)) for file in files)
    return sorted(str(name) for file, name in names if not (ROOT / name).is_file() or (ROOT / name).read_bytes() != file.read_bytes())


def edit(tree: Path, place: str, before: str, after: str) -> None:
    """Change one place, which the table must name."""
    assert f"`{place}`" in CONTRIBUTING or f"`{Path(place).parent}/`" in CONTRIBUTING, f"CONTRIBUTING does not name {place}"
    file = tree / place
    text = file.read_text(encoding="utf-8")
    assert text.count(before) >= 1, f"{place} has no {before!r}"
    file.write_text(text.replace(before, after, 1), encoding="utf-8")


def run(tree: Path, code: str) -> str:
    """Run a few lines against the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}"}
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
    field = '    insurance_share: float = assumption(0.01, "Insurance.", "A judgement.", "0 to 1 by 0.01 share")\n'
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


def test_a_kind_of_contract(tree: Path) -> None:
    kind = '    "reserved_2y": Kind("Reserved, 2 years", "#123456", 35, 24.0, renewable=True, no_dearer_than="reserved_1y"),\n'
    edit(tree, "capplan/contract_kinds.py", "KINDS = {\n", "KINDS = {\n" + kind)
    code = (
        "from capplan import plan_purchases\nfrom capplan.outputs.charts.theme import STACK_ORDER, TERM_COLOURS\n"
        "from capplan.text import words\n"
        "from tests.cases.procurement_cases import assumptions, demand, offer, problem\n"
        "two = offer('two', 'reserved_2y', 1.0, discounts='units', guarantees_capacity=True)\n"
        "found = plan_purchases(problem(demand([[10.0, 10.0]]), [offer('od', 'on_demand', 4.0), two], assumptions()))\n"
        "bought = found.purchases.iloc[0]\n"
        "print(bought['term'], bought['machines'], bought['end_quarter'])\n"
        "print(words('reserved_2y'), TERM_COLOURS['reserved_2y'], STACK_ORDER.index('reserved_2y') - STACK_ORDER.index('reserved_3y'))\n"
    )
    assert run(tree, code).split("\n") == ["reserved_2y 10.0 2028Q4", "Reserved, 2 years #123456 1"]
    assert touched(tree) == ["capplan/contract_kinds.py"]


def test_a_limit(tree: Path) -> None:
    edit(tree, "capplan/book/terms.py", "LIMIT_KINDS = [\n", 'LIMIT_KINDS = [\n    "begun_lots",\n')
    place = "capplan/questions/procurement/program/limit_rows.py"
    rule = (
        "def begun_lots(limit: Limit, given: LimitRows) -> None:\n"
        '    r"""Lots that begin in a quarter: :math:`\\sum_{j: q_j = q} x_j \\le L`."""\n'
        "    for quarter in given.choices.timeline.horizon:\n"
        '        begins = (given.choices.table["quarter"] == quarter).to_numpy() * 1.0\n'
        '        given.add(limit, quarter, begins, float(limit["amount"]))\n\n\n'
    )
    edit(tree, place, "#: The function that writes each kind of limit", rule + "#: The function that writes each kind of limit")
    edit(tree, place, '    "quota_accelerators": quota,\n', '    "quota_accelerators": quota,\n    "begun_lots": begun_lots,\n')
    code = (
        "from capplan import plan_purchases\n"
        "from tests.cases.procurement_cases import assumptions, demand, offer, problem\n"
        "offers = [offer('od', 'on_demand', 4.0), offer('year', 'reserved_1y', 1.0)]\n"
        "for limits in ([], [{'limit_id': 'cap', 'kind': 'begun_lots', 'amount': 3.0}]):\n"
        "    found = plan_purchases(problem(demand([[10.0, 10.0]]), offers, assumptions(), limits=limits)).purchases\n"
        "    print(found.groupby('quarter')['machines'].sum().tolist())\n"
    )
    assert run(tree, code).split("\n") == ["[10.0]", "[3.0, 3.0]"]
    assert touched(tree) == ["capplan/book/terms.py", place]


def test_a_question_takes_five_files_beside_its_own_folder(tree: Path) -> None:
    own = tree / "capplan" / "questions" / "shelf"
    own.mkdir()
    (own / "__init__.py").write_text(
        '"""How much stands on the shelf?"""\n\nfrom capplan.questions.shelf.count import count_shelf as count_shelf\n'
    )
    (own / "count.py").write_text(
        '"""Machines without work."""\n\nfrom __future__ import annotations\n\nimport pandas as pd\n\n\n'
        'def count_shelf(skus: pd.DataFrame) -> int:\n    """Count the kinds of machines."""\n    return len(skus)\n'
    )
    (tree / "capplan" / "outputs" / "views" / "shelf.py").write_text(
        '"""The view of the shelf."""\n\nfrom __future__ import annotations\n\nfrom capplan.book.book import Book\n'
        "from capplan.book.scenario import Scenario\nfrom capplan.outputs.views.view import View\n"
        "from capplan.questions.shelf import count_shelf\n\n\n"
        'def show_shelf(book: Book, scenario: Scenario) -> View:\n    """Show it."""\n    skus = book.get("skus")\n'
        '    return View(f"{count_shelf(skus)} kinds.", {}, skus, float(count_shelf(skus)), "kinds", ())\n'
    )
    views = "capplan/outputs/views/all_questions.py"
    edit(
        tree,
        views,
        "from capplan.outputs.views.split",
        "from capplan.outputs.views.shelf import show_shelf\nfrom capplan.outputs.views.split",
    )
    edit(tree, views, '    "split": show_split,\n', '    "split": show_split,\n    "shelf": show_shelf,\n')
    edit(tree, "pyproject.toml", '    "placement",\n    "portfolio', '    "placement",\n    "shelf",\n    "portfolio')
    (tree / "notebooks").mkdir()
    notebook = (ROOT / "notebooks" / "10_split.ipynb").read_text(encoding="utf-8").replace("show_split", "show_shelf")
    (tree / "notebooks" / "15_shelf.ipynb").write_text(notebook, encoding="utf-8")
    (tree / "tests" / "questions").mkdir(parents=True)
    (tree / "tests" / "questions" / "test_shelf.py").write_text("from capplan.questions.shelf import count_shelf\n")
    code = (
        "import sys, capplan\nfrom importlinter.cli import lint_imports\nfrom capplan.outputs.views.all_questions import VIEWS\n"
        "book = capplan.load_book('data/enterprise')\n"
        "print(VIEWS['shelf'] is capplan.show_shelf, 'show_shelf' in dir(capplan), capplan.show_shelf(book, book.scenario).value > 10)\n"
        "sys.exit(lint_imports(no_cache=True))\n"
    )
    assert run(tree, code).startswith("True True True")
    beside = [name for name in touched(tree) if not name.startswith("capplan/questions/shelf/")]
    assert len(beside) == 5, beside


def test_a_column_of_the_workbook(tree: Path) -> None:
    place = "capplan/outputs/workbook/decisions.py"
    edit(
        tree, place, '        ("region", "Region", "text"),\n', '        ("region", "Region", "text"),\n        ("desk", "Desk", "text"),\n'
    )
    edit(tree, place, '    cells["booked"] =', '    cells["desk"] = "treasury"\n    cells["booked"] =')
    (tree / "book").mkdir()
    small_book(tree / "book", "USD")
    code = (
        "import openpyxl, pathlib, re\nfrom capplan import load_book, quarterly_plan\n"
        "from capplan.outputs.workbook.workbook import write_workbook\n"
        "book = load_book('book')\nwrite_workbook(quarterly_plan(book), book, pathlib.Path('plan.xlsx'))\n"
        "sheet = openpyxl.load_workbook('plan.xlsx')['Purchases']\n"
        "heads = {sheet.cell(5, column).value: sheet.cell(5, column).column_letter for column in range(1, sheet.max_column + 1)}\n"
        "rows = [row for row in range(6, sheet.max_row + 1) if sheet[heads['Desk'] + str(row)].value == 'treasury']\n"
        "for row in rows:\n"
        "    text = sheet[heads['Contract value (USD)'] + str(row)].value\n"
        "    named = [name for letters in re.findall('[A-Z]+', text) for name, letter in heads.items() if letter == letters]\n"
        "    priced = ['Machines', 'Hours', 'USD per machine-hour']\n"
        "    assert named in ([*priced, 'Price factor'], ['Paid at signing (USD)', *priced]), (text, named)\n"
        "print(len(rows) > 0)\n"
    )
    assert run(tree, code).endswith("True")
    assert [name for name in touched(tree) if not name.startswith(("book/", "plan.xlsx"))] == [place]


METERS = '''"""Meters of work: so many units of a service by the end of an hour."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from capplan.ingest.cells import Wanted, convert
from capplan.ingest.folding import fold
from capplan.ingest.pieces import pieces
from capplan.ingest.ingested import Ingested, WorkOptions, workload_rows
from capplan.ingest.opening import Sheet

METER_COLUMNS = (
    Wanted("read", "time", ("metered_until",)),
    Wanted("quantity", "number", ("metered_units",), minimum=0),
    Wanted("workload", "text", ("metered_service",)),
)


def read_meters(file: Path, options: WorkOptions) -> Ingested:
    """Sum the units of each service and hour."""
    with Sheet(file, options) as sheet:
        convert(sheet, METER_COLUMNS)
        sums = "select read - interval 1 hour as time, workload, cast(sum(quantity) as double) as quantity"
        usage = sheet.connection.execute(f"{sums} from typed group by all order by all").df()
    usage = usage.assign(region=options.region, seconds=3600.0, scope="")
    spans = usage.groupby(["workload", "region"], as_index=False).agg(earliest=("time", "min"), latest=("time", "max"))
    spans = spans.assign(family="meters", latest=spans["latest"] + pd.Timedelta(hours=1))
    parts = {"workloads": workload_rows(spans, "units", "serving"), "pieces": pieces(usage, "meters"), "spans": spans}
    tables, notes = fold(parts)
    return Ingested(tables, tuple(notes), f"{usage['quantity'].sum():,.0f} units.", parts=parts, rows=len(usage))
'''


def test_a_foreign_format(tree: Path) -> None:
    (tree / "capplan" / "ingest" / "meters.py").write_text(METERS)
    formats = "capplan/ingest/__init__.py"
    row = '    "meters": Format("Meters of work, by the hour.", "meters", "read_meters", "WorkOptions"),\n'
    edit(tree, formats, "FORMATS: dict[str, Format] = {\n", "FORMATS: dict[str, Format] = {\n" + row)
    forms, first = "capplan/ingest/forms.py", '    ("focus", "a FOCUS billing export", FOCUS_COLUMNS),\n'
    edit(tree, forms, "from capplan.ingest.opening", "from capplan.ingest.meters import METER_COLUMNS\nfrom capplan.ingest.opening")
    edit(tree, forms, first, first + '    ("meters", "meters of work", METER_COLUMNS),\n')
    (tree / "book").mkdir()
    (tree / "book" / "book.yaml").write_text("name: metered\n")
    (tree / "log.csv").write_text(
        "metered_until,metered_units,metered_service\n2026-01-01T01:00,3,chat\n2026-01-01T01:00,4,chat\n2026-01-01T02:00,5,=cmd()\n"
    )
    code = (
        "from capplan import load_book\nfrom capplan.ingest import ingest\n"
        "for format in ('auto', 'meters'):\n    print(ingest(format, 'log.csv').headline)\n"
        "ingest('meters', 'log.csv', 'book')\nusage = load_book('book').get('usage')\n"
        "print(usage['quantity'].tolist(), usage['time'].min())\n"
        "try:\n    ingest('meters', 'log.csv', metered='yes')\n"
        "except Exception as error:\n    print('is not an option of meters' in str(error))\n"
    )
    assert run(tree, code).split("\n") == ["12 units.", "12 units.", "[7.0, 5.0] 2026-01-01 00:00:00", "True"]
    assert [name for name in touched(tree) if name.startswith("capplan")] == [formats, forms, "capplan/ingest/meters.py"]


def test_a_scheduler_that_takes_quotas(tree: Path) -> None:
    """Its name is known at once, no other format becomes it, and what it writes is what the command prints."""
    place = "capplan/outputs/export/quotas.py"
    (tree / "capplan" / "outputs" / "export" / "queues.py").write_text(
        '"""Quotas as lines of a plain file."""\n\nfrom __future__ import annotations\n\nimport pandas as pd\n\n'
        "from capplan.outputs.export.foreign_names import labels\n\n\n"
        "def queue_lines(quotas: pd.DataFrame, fleet: pd.DataFrame, arrangement: str) -> str:\n"
        '    """Write a line a queue."""\n    names = labels(quotas["queue"], "queue")\n'
        '    rows = zip(quotas["queue"], quotas["nominal_accelerators"], strict=True)\n'
        '    return "".join(f"{names[queue]} {count} {arrangement}\\n" for queue, count in rows)\n'
    )
    edit(
        tree,
        place,
        "from capplan.outputs.export.slurm",
        "from capplan.outputs.export.queues import queue_lines\nfrom capplan.outputs.export.slurm",
    )
    edit(tree, place, '    "slurm": slurm_conf,\n', '    "slurm": slurm_conf,\n    "queues": queue_lines,\n')
    code = (
        "import pathlib\nfrom typer.testing import CliRunner\nfrom capplan.cli import app\n"
        "from tests.outputs.test_export_quotas import write_answer\n"
        "write_answer(pathlib.Path('split'))\nrun = CliRunner()\n"
        "print(run.invoke(app, ['export', 'queues', 'split']).stdout.strip())\n"
        "refused = run.invoke(app, ['export', 'queue', 'split'])\n"
        "print(refused.exit_code > 0, 'did you mean queues' in str(refused.output) + str(refused.exception))\n"
    )
    lines = ["inference 336 lending", "training-data 45 lending", "training-research 131 lending", "training 0 lending", "True True"]
    assert run(tree, code).split("\n") == lines
    assert [name for name in touched(tree) if name.startswith("capplan")] == ["capplan/outputs/export/queues.py", place]


def test_a_kind_of_chart(tree: Path) -> None:
    """It is drawn offline with the theme's fonts, its finding can be read aloud, and text in it is inert."""
    (tree / "capplan" / "outputs" / "charts" / "dots.py").write_text(
        '"""Dots: one measure of a few things."""\n\nfrom __future__ import annotations\n\nfrom typing import Any\n\n'
        "import pandas as pd\n\n"
        "from capplan.outputs.charts import theme\nfrom capplan.outputs.charts.altair_quickly import alt\n\n\n"
        "def dots(data: pd.DataFrame, *, title: str) -> Any:\n"
        '    """Draw a dot a row: name, value."""\n    table = theme.checked(data, ["name", "value"], "dots", ["value"])\n'
        '    table["name"] = [theme.display_name(name) for name in table["name"]]\n'
        '    return theme.finish(alt.Chart(table).mark_point().encode(x="value:Q", y="name:N"), title)\n'
    )
    assert "`capplan/outputs/charts/`" in CONTRIBUTING
    code = (
        "import pandas as pd\nfrom capplan.outputs.charts.dots import dots\n"
        "chart = dots(pd.DataFrame({'name': ['<script>', 'b'], 'value': [1.0, 2.0]}), title='Two things')\n"
        "svg = chart.svg\nprint(chart.finding, 'Liberation Sans' in svg, '<script' in svg, '&lt;script' in svg)\n"
        "try:\n    dots(pd.DataFrame({'name': ['a']}), title='x')\nexcept Exception as error:\n    print(type(error).__name__)\n"
    )
    assert run(tree, code).split("\n") == ["Two things True False True", "ChartError"]
    assert touched(tree) == ["capplan/outputs/charts/dots.py"]


def test_a_workload(tree: Path) -> None:
    """Three rows of a book's own tables: it is checked, forecast, and bought for."""
    (tree / "book").mkdir()
    small_book(tree / "book", "USD")
    (tree / "book" / "demand_scenarios.csv").unlink()
    usage = "".join(f"2026-{month:02}-01,WORK,us,{month}e4\n" for month in range(1, 12))
    (tree / "book" / "usage.csv").write_text("time,workload,region,quantity\n" + usage.replace("WORK", "@SUM(1)"))
    for table, row in (
        ("workloads", "search,serving,requests,self,false,false,2,core,CC-1\n"),
        ("speeds", "search,H100,20,measured,2026-11-01,s1\n"),
        ("usage", usage.replace("WORK", "search")),
    ):
        assert f"`{table}.csv`" in CONTRIBUTING
        with (tree / "book" / f"{table}.csv").open("a", encoding="utf-8") as file:
            file.write(row)
    code = (
        "from typer.testing import CliRunner\nfrom capplan import load_book, quarterly_plan\nfrom capplan.cli import app\n"
        "print(CliRunner().invoke(app, ['check', 'book']).exit_code)\nplan = quarterly_plan(load_book('book'))\n"
        "print(sorted(set(plan.forecast.paths['workload'])), 'search' in set(plan.purchases.dispatch['class']))\n"
    )
    assert run(tree, code).split("\n") == ["0", "['@SUM(1)', 'search'] True"]
