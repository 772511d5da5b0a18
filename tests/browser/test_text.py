"""What is written is what is read: no host of a notebook takes text of a view for mathematics, Markdown or HTML."""

from __future__ import annotations

import mimetypes
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.conftest import needed

pytestmark = [pytest.mark.browser, pytest.mark.slow]
#: Debian's MathJax 2 (package libjs-mathjax), the one that nbconvert's pages ask for.
MATHJAX = Path("/usr/share/javascript/mathjax")
#: Where the page believes that MathJax lies; the test answers in its place.
HOST = "https://mathjax.invalid"
TEXTS = (
    "Sign 6 contracts worth $11.2M, the first at once: the plan costs $3.4M",
    "team_a_b and __init__, *stars* and `ticks`",
    "1 < 2 & 3 > 2 <b>not bold</b> &amp; &lt;",
    r"\(x_1\) \[y\] C:\new\table \$5 and \begin{equation}z\end{equation}",
    "$$x^2$$ then $a$",
)
CODE = f"""
from pathlib import Path
import pandas as pd
from IPython.display import HTML, display
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.lab.widgets import explore
from capplan.outputs.views.view import View

TEXTS = {TEXTS!r}

class Book:
    path = Path("absent")
    scenario = Scenario()

def show_texts(book, scenario):
    shown = pd.DataFrame({{"label": ["from $1M", "to $2M"], "value": [1.0, 2.0]}})
    drawn = charts.bars(shown, title=TEXTS[0], axis=charts.Axis("Cost", "USD"))
    return View(TEXTS[0], {{"cost": drawn}}, pd.DataFrame({{"workload": TEXTS}}), 1.0, "USD", ("risk_weight",), TEXTS)
"""
CELLS = (
    CODE,
    "HTML(\"<p class='control'>from $1M to $2M</p>\")",
    "show_texts(Book, Book.scenario)",
    "show_texts(Book, Book.scenario).shown",
)


def notebook(*cells: str) -> nbformat.NotebookNode:
    """Make a notebook of these cells."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def read(page: Any, within: str) -> dict[str, list[str]]:
    """Return what a reader sees: headlines, cells, notes, and texts of charts that are drawn."""
    return page.evaluate(
        """within => Object.fromEntries(Object.entries({headlines: 'p b, h3', cells: 'td', notes: 'li', charts: 'svg text, img'})
            .map(([name, kind]) => [name,
            [...document.querySelectorAll(within)].flatMap(part => [...part.querySelectorAll(kind)].map(found =>
                (found.naturalWidth ? found.alt : found.closest('details') ? found.textContent
                    : found.innerText ?? found.textContent).trim()))]))""",
        within,
    )


def as_written(found: dict[str, list[str]], *, noted: bool = True) -> None:
    """Check that every text stands as it was written; notes stand once, above the controls, and not beside them."""
    assert set(found["headlines"]) == {TEXTS[0]}
    assert [text for text in TEXTS if text not in found["cells"]] == []
    assert [text for text in TEXTS if text not in found["notes"]] == ([] if noted else list(TEXTS))
    assert TEXTS[0] in " ".join(found["charts"])


def mathematics(page: Any, within: str = "body") -> int:
    """Count the formulas that MathJax has set."""
    return page.evaluate(
        "within => document.querySelectorAll(`${within} mjx-container, ${within} .MathJax, ${within} .mjx-chtml`).length", within
    )


#: What hosts of notebooks take for mathematics in the text of a cell.
MATHEMATICS = re.compile(r"\$\$.+?\$\$|\$[^$]+\$", re.DOTALL)


def plainly(text: str) -> str:
    """Return text without the marks of Markdown, and with single spaces."""
    return " ".join(re.sub(r"[*`#¶]", "", text).split())


def without_lists(text: str) -> str:
    """Return Markdown without the marks of its lists, which a browser draws but does not count as text."""
    return re.sub(r"^ *(?:-|\d+\.) ", "", text, flags=re.MULTILINE)


def cells_read(page: Any) -> list[str]:
    """Return the text of each cell of Markdown as it is shown, with a mark where a formula stands."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.jp-NotebookPanel .jp-MarkdownCell .jp-RenderedMarkdown')].map(part => {
            const shown = part.cloneNode(true);
            shown.querySelectorAll('mjx-container').forEach(formula => formula.replaceWith('\u0001'));
            shown.querySelectorAll('p, li, h1, h2, h3').forEach(block => block.append(' '));
            return shown.textContent; })"""
    )


def outputs_read(page: Any) -> list[str]:
    """Return the text of each output that is HTML, what is folded included."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.jp-NotebookPanel .jp-OutputArea-output.jp-RenderedHTML')].map(part => part.textContent)"""
    )


def shown_as_meant(page: Any, cells: list[dict[str, Any]]) -> None:
    """Check every sentence of a notebook that ran: formulas are formulas, money is money, and outputs are what the views say."""
    from bs4 import BeautifulSoup

    written = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    money = [
        formula for text in written for formula in MATHEMATICS.findall(text) if re.match(r"\$+\s*\d[\d,.]*\s*([kMB]\b|$|\s[a-z])", formula)
    ]
    assert money == [], "an amount of money is taken for a formula"
    assert [plainly(text) for text in cells_read(page)] == [plainly(MATHEMATICS.sub("\u0001", without_lists(text))) for text in written]
    said = [output["data"]["text/html"] for cell in cells for output in cell.get("outputs", []) if "text/html" in output.get("data", {})]
    assert [plainly(text) for text in outputs_read(page)] == [plainly(BeautifulSoup("".join(one), "html.parser").text) for one in said]
    assert mathematics(page, ".jp-OutputArea-output") == 0


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Execute the texts' notebook without a person."""
    from capplan.outputs.run.notebooks import execute

    folder = tmp_path_factory.mktemp("texts")
    written = folder / "texts.ipynb"
    nbformat.write(notebook(*CELLS), written)
    return execute(written, {}, folder / "executed.ipynb")


def test_the_lab_shows_text_as_it_is_written(lab: Any, page: Any, shot: Any) -> None:
    nbformat.write(notebook(*CELLS, "explore(show_texts, Book, Book.scenario)"), lab.folder / "texts.ipynb")
    lab.open(page, "texts.ipynb")
    lab.run_all(page)
    page.wait_for_selector(".jp-OutputArea-output .control mjx-container", timeout=30_000)
    page.wait_for_function(
        "() => document.querySelectorAll('.capplan-explorer .capplan-status').length && !document.querySelector('.capplan-busy')"
    )
    shot(page, "texts_lab", tall=True)
    assert mathematics(page) == mathematics(page, ".control") > 0, "the control is a formula, and nothing else is"
    as_written(read(page, ".jp-OutputArea-output .mathjax_ignore"))
    explorer = read(page, ".capplan-explorer")
    as_written(explorer, noted=False)
    assert {"from $1M", "to $2M"} <= set(explorer["charts"])


def test_an_executed_notebook_shows_text_as_it_is_written(lab: Any, page: Any, executed: Path, shot: Any) -> None:
    (lab.folder / "executed.ipynb").write_bytes(executed.read_bytes())
    lab.open(page, "executed.ipynb")
    page.wait_for_selector(".control mjx-container", timeout=30_000)
    shot(page, "texts_executed", tall=True)
    assert mathematics(page) == mathematics(page, ".control") > 0
    as_written(read(page, ".jp-OutputArea-output .mathjax_ignore"))


def test_notebook_shows_text_as_it_is_written(lab: Any, page: Any, executed: Path, shot: Any) -> None:
    """Jupyter Notebook, which is a page of its own beside JupyterLab."""
    (lab.folder / "in_notebook.ipynb").write_bytes(executed.read_bytes())
    page.goto(f"{lab.address}/notebooks/in_notebook.ipynb?token={lab.token}")
    page.wait_for_selector(".control mjx-container", timeout=90_000)
    shot(page, "texts_notebook", tall=True)
    assert mathematics(page) == mathematics(page, ".control") > 0
    as_written(read(page, ".jp-OutputArea-output .mathjax_ignore"))


def test_voila_shows_text_as_it_is_written(lab: Any, page: Any, shot: Any) -> None:
    """The pages without code, which run the notebook for each reader."""
    nbformat.write(notebook(*CELLS, "explore(show_texts, Book, Book.scenario)"), lab.folder / "in_voila.ipynb")
    page.goto(f"{lab.address}/voila/render/in_voila.ipynb?token={lab.token}", wait_until="commit")
    page.wait_for_function(
        "() => document.querySelectorAll('.capplan-explorer .capplan-status').length && !document.querySelector('.capplan-busy')",
        timeout=180_000,
    )
    shot(page, "texts_voila", tall=True)
    assert mathematics(page) == mathematics(page, ".control")
    as_written(read(page, ".mathjax_ignore"))
    as_written(read(page, ".capplan-explorer"), noted=False)


def test_a_converted_page_shows_text_as_it_is_written(page: Any, executed: Path, shot: Any) -> None:
    if not MATHJAX.is_dir():
        needed("MathJax 2 (Debian package libjs-mathjax)")
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "html",
        f"--HTMLExporter.mathjax_url={HOST}/MathJax.js?config=TeX-AMS_CHTML-full,Safe",
    ]
    subprocess.run([*command, str(executed)], check=True, capture_output=True)

    def serve(route: Any) -> None:
        file = MATHJAX / route.request.url.removeprefix(f"{HOST}/").partition("?")[0]
        if file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(file.name)[0] or "text/plain")
        else:
            route.abort()

    page.route(re.compile("^https://"), serve)
    page.goto(executed.with_suffix(".html").as_uri())
    page.wait_for_selector(".control .mjx-chtml", timeout=30_000)
    page.wait_for_timeout(500)
    shot(page, "texts_converted")
    assert mathematics(page) == mathematics(page, ".control") > 0
    as_written(read(page, ".tex2jax_ignore"))
