"""How a picture becomes SVG, PNG, or an image within a page."""

import base64
import hashlib
import html
import re
from typing import Any


def to_svg(chart: Any) -> str:
    """Draw a picture as SVG text, offline; text out of a book is escaped and no link is followed or made.

    Vega numbers its clip paths from zero in each picture; here they carry the picture's digest, so that several stand in one page.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg(chart.to_dict(validate=False), allowed_base_urls=[])
    mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
    return re.sub(r'(\bid="|url\(#|xlink:href="#|\bhref="#)((?:clip|gradient)[\w-]*)', rf"\1c{mark}-\2", svg)


def to_png(chart: Any, scale: float = 2.0) -> bytes:
    """Draw a picture as PNG, offline; scale 2 gives 144 dots per inch."""
    import vl_convert

    return vl_convert.svg_to_png(to_svg(chart), scale=scale)


def to_image(chart: Any) -> str:
    """Draw a picture as an HTML image whose alternative text is its finding.

    Hosts strip drawings from notebooks that they do not trust, such as one that another person executed, but keep images;
    and an image holds no text that a host could take for mathematics.
    """
    data = base64.b64encode(to_svg(chart).encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(finding(chart))}" style="max-width:100%;height:auto">'


def finding(chart: Any) -> str:
    """Return the titles of a picture, each with what it rests on, as one text."""
    spec = chart.to_dict(validate=False)
    titles = [part["title"] for part in (spec, *spec.get("vconcat", ())) if isinstance(part.get("title"), dict)]
    texts = [title.get(name) or [] for title in titles for name in ("text", "subtitle")]
    return ". ".join(text if isinstance(text, str) else " ".join(text) for text in texts if text)
