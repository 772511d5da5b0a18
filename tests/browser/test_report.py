"""The report as a finance reviewer gets it: one file, opened from disk, without network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def open_whole(page: Any, report: Path) -> None:
    """Open the page with every appendix."""
    page.goto((report / "plan.html").as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(part => { part.open = true; })")


def test_the_memo_is_one_printed_page_with_nothing_cut(report: Path, page: Any, tmp_path: Path) -> None:
    page.goto((report / "plan.html").as_uri())
    file = tmp_path / "memo.pdf"
    page.pdf(path=str(file), prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", file.read_bytes())) == 1
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 710, "height": 1000})  # A4 upright less its margins, at 96 dots an inch
    wide = page.evaluate(
        "() => [...document.querySelectorAll('div.memo table')].filter(part => part.getBoundingClientRect().right > window.innerWidth +"
        " 1).length"
    )
    assert wide == 0
    ids = page.evaluate("() => [...document.querySelectorAll('div.memo td')].map(part => part.id)")
    assert len(ids) == len(set(ids)) > 20


def test_the_page_opens_from_disk_with_every_chart(report: Path, page: Any, shot: Any) -> None:
    open_whole(page, report)
    figures = page.evaluate(
        "() => [...document.querySelectorAll('figure')].map(part => part.querySelectorAll('svg .role-mark path[d], svg .role-mark"
        " line').length)"
    )
    assert len(figures) >= len(list((report / "charts").glob("*.svg"))) > 0
    assert min(figures) > 0, "every chart has marks in it"
    shot(page, "plan_page")
    assert page.foreign == []
    assert page.faults == []
    assert page.evaluate("() => document.querySelectorAll('script, iframe, object, embed, link').length") == 0


def test_the_page_reads_like_a_paper_not_like_a_table_dump(report: Path, page: Any) -> None:
    open_whole(page, report)
    headings = page.evaluate("() => [...document.querySelectorAll('th, h1, h2, summary')].map(part => part.textContent.trim())")
    assert [text for text in headings if "_" in text] == [], "no raw column name"
    cells = page.evaluate("() => [...document.querySelectorAll('td.number, div.card b')].map(part => part.textContent.trim())")
    assert [text for text in cells if re.search(r"\d{5,}|\d\.\d{5,}|e[+-]\d|nan|inf", text)] == [], "no unformatted number"
    labels = page.evaluate("() => [...document.querySelectorAll('figure text')].map(part => part.textContent)")
    assert [text for text in labels if "…" in text or "undefined" in text or text in ("NaN", "null")] == []


def test_no_text_of_a_chart_is_cut_or_covers_another(report: Path, page: Any) -> None:
    open_whole(page, report)
    cut_off = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => { const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(part => part.textContent.trim() && part.getAttribute('opacity') !== '0')
                .filter(part => { const box = part.getBoundingClientRect();
                    return box.left < frame.left - 1 || box.right > frame.right + 1
                        || box.top < frame.top - 1 || box.bottom > frame.bottom + 1; })
                .map(part => part.textContent); })"""
    assert page.evaluate(cut_off) == []
    covered = page.evaluate("""() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('.role-axis-label text, .role-legend-label text, .role-title-text text')]
                .filter(part => part.textContent.trim() && part.getAttribute('opacity') !== '0')
                .map(part => [part.textContent, part.getBoundingClientRect()]);
            return boxes.flatMap(([one, a], place) => boxes.slice(place + 1)
                .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
                .map(([other]) => one + ' / ' + other)); })""")
    assert covered == []
    page.add_style_tag(content="figure svg text { font-family: 'DejaVu Sans', Verdana !important; }")
    assert page.evaluate(cut_off) == [], "a browser with none of the charts' fonts takes a wider one"


def test_the_page_fits_a_narrow_window(report: Path, page: Any, shot: Any) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    open_whole(page, report)
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth + 1")
    shot(page, "plan_page_narrow")
