"""The plan as one self-contained page that opens from disk, without network and without scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from capplan.text import readable

_STYLE = """
:root { color-scheme: light; }
body { font: 14px/1.45 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; color: #1b1f24;
  max-width: 1840px; margin: 0 auto; padding: 20px 28px 60px; }
h1 { font-size: 23px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 14px 0 3px; border-bottom: 1px solid #d5dae0; padding-bottom: 2px; }
p { max-width: 1100px; margin: 5px 0; }
p.headline { font-size: 17px; line-height: 1.4; margin: 9px 0; font-weight: bold; } p.quiet, li.quiet { color: #57606a; font-size: 13px; }
table { border-collapse: collapse; margin: 6px 0; font-size: 12.5px; }
th { text-align: left; border-bottom: 1.5px solid #57606a; padding: 2px 9px 2px 0; vertical-align: bottom; }
td { border-bottom: 1px solid #e6e9ed; padding: 2px 9px 2px 0; vertical-align: top; }
td { white-space: nowrap; } td.long { white-space: normal; min-width: 130px; }
a.figure { color: inherit; text-decoration: none; } a.figure:hover { text-decoration: underline; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
div.wide { overflow-x: auto; }
figure { margin: 12px 0; display: inline-block; vertical-align: top; } figure svg { max-width: 100%; height: auto; }
details { margin: 7px 0; } summary { cursor: pointer; color: #0b5394; }
details.appendix > summary { font-size: 16px; font-weight: bold; border-bottom: 1px solid #d5dae0; padding: 4px 0; }
ul { margin: 3px 0; padding-left: 18px; max-width: 1100px; }
div.memo { display: grid; grid-template-columns: 1fr 1fr; column-gap: 26px; }
div.memo > section { grid-column: 1 / 3; min-width: 0; } div.memo > section.half { grid-column: auto; }
div.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 14px 0; }
div.card { border: 1px solid #d5dae0; border-radius: 6px; padding: 8px 14px; min-width: 150px; }
div.card b { display: block; font-size: 20px; } div.card span { color: #57606a; font-size: 13px; }
@media (max-width: 900px) { div.memo { display: block; } }
@page { size: A4 portrait; margin: 11mm; } @page appendix { size: A4 landscape; margin: 10mm; }
@media print {
 body { max-width: none; padding: 0; font-size: 10.5px; line-height: 1.32; }
 h1 { font-size: 14px; } h2 { font-size: 11.5px; margin: 7px 0 1px; }
 p.headline { font-size: 12.5px; margin: 5px 0; } p.quiet, li.quiet { font-size: 8.5px; } p { margin: 2px 0; }
 div.memo { column-gap: 14px; display: grid; } table { font-size: 8.3px; margin: 2px 0; }
 th, td { padding: 1px 5px 1px 0; } td.long { min-width: 0; } th { white-space: normal; } div.wide { overflow: visible; }
 details.appendix { display: none; page: appendix; break-before: page; } details.appendix[open] { display: block; }
 details.appendix > summary { list-style: none; } h2, summary { break-after: avoid; } tr, figure { break-inside: avoid; }
 details.appendix td { white-space: normal; } details.appendix figure svg { max-height: 138mm; }
 details.appendix > p { break-after: avoid; } p.screen { display: none; }
}
"""

_TABLE = """{% macro block(table, key) %}
{% if table.folded %}<details><summary>{{ table.caption }}</summary>
{%- elif table.caption %}<p class="quiet">{{ table.caption }}</p>{% endif %}
<div class="wide" tabindex="0" role="region" aria-label="{{ table.caption or 'Table' }}"><table><thead><tr>
{%- for name in table.headings %}<th{% if name in table.numbers %} class="number"{% endif %}>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}{% set place = loop.index0 %}<tr{% if table.anchors %} id="{{ table.anchors[place] }}"{% endif %}>
{%- for name, cell in row %}{% set id = key ~ "_" ~ place ~ "_" ~ loop.index0 %}<td{% if key %} id="{{ id }}"{% endif %}
{%- if name in table.numbers %} class="number"{% elif cell|length > (14 if key else 34) %} class="long"{% endif %}>
{%- if key and name in table.numbers and cell %}<a class="figure" href="#{{ 'from_' if id in table.linked }}{{ id }}">{{ cell }}</a>
{%- else %}{{ cell }}{% endif %}</td>
{%- endfor %}</tr>{% endfor %}</tbody></table></div>
{% if table.rest %}<p class="quiet">{{ table.rest }} more rows are in {{ table.file }}.</p>{% endif %}
{% if table.folded %}</details>{% endif %}
{% endmacro %}"""

_TEMPLATE = (
    _TABLE
    + """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title><style>{{ style|safe }}</style></head><body>
<h1>{{ title }}</h1><p class="quiet">{{ subtitle }}</p>
<p class="headline">{{ headline }}</p>
{% if cards %}<div class="cards">
{%- for name, value in cards %}<div class="card"><b>{{ value }}</b><span>{{ name }}</span></div>{% endfor %}</div>{% endif %}
{% if memo %}<div class="memo">{% for part in memo %}<section{% if part.half %} class="half"{% endif %}><h2>{{ part.title }}</h2>
{% if part.sentences %}<ul>{% for text in part.sentences %}<li>{{ text }}</li>{% endfor %}</ul>{% endif %}
{% if part.table %}{{ block(part.table, part.key) }}{% endif %}</section>{% endfor %}</div>
<p class="quiet screen">Every figure above has an identifier, the name of its cell in plan.xlsx, and leads to what it is made of.
What follows opens; what is closed is not printed.</p>{% endif %}
{% for section in sections %}
<details class="appendix"{% if not memo %} open{% endif %}><summary>{{ section.title }}</summary>
{% if section.text %}<p>{{ section.text }}</p>{% endif %}
{% for svg in section.charts %}<figure>{{ svg|safe }}</figure>{% endfor %}
{% for table in section.tables %}{{ block(table, "") }}{% endfor %}
{% if section.notes %}<ul class="notes">{% for note in section.notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
</details>
{% endfor %}
</body></html>
"""
)


@dataclass(frozen=True)
class TableBlock:
    """A table on the page: at most `shown` rows, the rest is in a file; linked figures lead to the row that has their id as its anchor."""

    frame: pd.DataFrame
    caption: str = ""
    file: str = ""
    shown: int = 30
    folded: bool = False
    currency: str = "USD"
    linked: frozenset[str] = frozenset()
    anchors: Sequence[str] = ()

    def parts(self) -> Mapping[str, object]:
        """Return what the template needs."""
        text = readable(self.frame, self.shown, self.currency)
        numeric = {
            heading
            for heading, name in zip(text.columns, self.frame.columns, strict=True)
            if pd.api.types.is_numeric_dtype(self.frame[name]) and self.frame[name].dtype != bool
        }
        rows = [list(zip(text.columns, row, strict=True)) for row in text.itertuples(index=False, name=None)]
        return {
            "headings": list(text.columns),
            "numbers": numeric,
            "rows": rows,
            "caption": self.caption,
            "file": self.file,
            "folded": self.folded,
            "linked": self.linked,
            "anchors": list(self.anchors),
            "rest": max(0, len(self.frame) - self.shown),
        }


@dataclass(frozen=True)
class PageSection:
    """One part of the page: words, charts as SVG text made by us, tables, notes."""

    title: str
    text: str = ""
    charts: Sequence[str] = ()
    tables: Sequence[TableBlock] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class MemoPart:
    """One part of page one: its key, with which the ids of its figures begin, a title, sentences, a table, and its width."""

    key: str
    title: str
    sentences: Sequence[str] = ()
    table: TableBlock | None = None
    half: bool = False


def render_page(
    title: str,
    subtitle: str,
    headline: str,
    cards: Sequence[tuple[str, str]],
    sections: Sequence[PageSection],
    memo: Sequence[MemoPart] = (),
) -> str:
    """Render the page; every text is escaped, and the page allows no script and no outside content.

    Args:
        cards: (name, value) of few numbers at the top.
        sections: The rest, in order: appendices that open where there is a memo.
        memo: Page one: what is printed, also where nothing is opened.
    """
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_TEMPLATE)
    shown = [
        {
            "title": part.title,
            "text": part.text,
            "charts": part.charts,
            "tables": [table.parts() for table in part.tables],
            "notes": part.notes,
        }
        for part in sections
    ]
    first = [
        {
            "key": part.key,
            "title": part.title,
            "sentences": part.sentences,
            "half": part.half,
            "table": part.table.parts() if part.table else None,
        }
        for part in memo
    ]
    return template.render(style=_STYLE, title=title, subtitle=subtitle, headline=headline, cards=cards, memo=first, sections=shown)
