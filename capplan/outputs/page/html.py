"""The plan as one self-contained page that opens from disk, without network and without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from capplan.text import readable

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; color: #1b1f24; max-width: 1260px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 38px 0 6px; border-bottom: 1px solid #d5dae0; padding-bottom: 3px; }
p, ul { max-width: 1020px; } p.headline { font-size: 18px; line-height: 1.4; margin: 12px 0; } p.quiet, li.quiet { color: #57606a; font-size: 13.5px; }
table { border-collapse: collapse; margin: 10px 0; font-size: 13px; } th { text-align: left; border-bottom: 1.5px solid #57606a; padding: 3px 10px 3px 0; vertical-align: bottom; }
td { border-bottom: 1px solid #e6e9ed; padding: 3px 10px 3px 0; vertical-align: top; } td { white-space: nowrap; } td.long { white-space: normal; min-width: 180px; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
div.wide { overflow-x: auto; } figure { margin: 14px 0; } figure svg { max-width: 100%; height: auto; }
details { margin: 8px 0; } summary { cursor: pointer; color: #0b5394; } ul.notes { padding-left: 20px; }
div.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 14px 0; } div.card { border: 1px solid #d5dae0; border-radius: 6px; padding: 8px 14px; min-width: 150px; }
div.card b { display: block; font-size: 20px; } div.card span { color: #57606a; font-size: 13px; }
@media print { @page { size: A4 landscape; } body { max-width: none; padding: 0; } details { display: none; } figure, table { break-inside: avoid; } }
"""

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title><style>{{ style|safe }}</style></head><body>
<h1>{{ title }}</h1><p class="quiet">{{ subtitle }}</p>
<p class="headline">{{ headline }}</p>
{% if cards %}<div class="cards">{% for name, value in cards %}<div class="card"><b>{{ value }}</b><span>{{ name }}</span></div>{% endfor %}</div>{% endif %}
{% for section in sections %}
<section><h2>{{ section.title }}</h2>
{% if section.text %}<p>{{ section.text }}</p>{% endif %}
{% for svg in section.charts %}<figure>{{ svg|safe }}</figure>{% endfor %}
{% for table in section.tables %}
{% if table.folded %}<details><summary>{{ table.caption }}</summary>{% elif table.caption %}<p class="quiet">{{ table.caption }}</p>{% endif %}
<div class="wide"><table><thead><tr>{% for name in table.headings %}<th{% if name in table.numbers %} class="number"{% endif %}>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}<tr>{% for name, cell in row %}<td{% if name in table.numbers %} class="number"{% elif cell|length > 34 %} class="long"{% endif %}>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% if table.rest %}<p class="quiet">{{ table.rest }} more rows are in {{ table.file }}.</p>{% endif %}
{% if table.folded %}</details>{% endif %}
{% endfor %}
{% if section.notes %}<ul class="notes">{% for note in section.notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
</section>
{% endfor %}
</body></html>
"""


@dataclass(frozen=True)
class TableBlock:
    """A table on the page: at most `shown` rows, the rest is in a file."""

    frame: pd.DataFrame
    caption: str = ""
    file: str = ""
    shown: int = 30
    folded: bool = False

    def parts(self) -> Mapping[str, object]:
        """Return what the template needs."""
        text = readable(self.frame, self.shown)
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


def render_page(title: str, subtitle: str, headline: str, cards: Sequence[tuple[str, str]], sections: Sequence[PageSection]) -> str:
    """Render the page; every text is escaped, and the page allows no script and no outside content.

    Parameters
    ----------
    title, subtitle, headline
        Words at the top.
    cards
        (name, value) of the few numbers at the top.
    sections
        The rest, in order.
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
    return template.render(style=_STYLE, title=title, subtitle=subtitle, headline=headline, cards=cards, sections=shown)
