"""A finished picture: drawn once, however often and in however many forms it is shown."""

import base64
import hashlib
import html
import os
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from capplan.scratch import environment, scratch

#: Where Linux keeps fonts.
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")


@cache
def _drawer() -> Any:
    """Return what draws: with the font it brings first, and those of the system for letters that this one lacks.

    The system's Liberation Sans would go before its own, and its file be opened and read for each letter of each text that is measured or
    drawn: three quarters of the time of a picture, which would look a little different on each system.
    """
    import vl_convert

    if "FONTCONFIG_FILE" not in os.environ:
        with scratch("capplan-fonts-") as none, environment(FONTCONFIG_FILE=str(none / "fonts.conf")):
            (none / "fonts.conf").write_text(f"<fontconfig><dir>{none}</dir></fontconfig>", encoding="utf-8")
            for folder in filter(Path.is_dir, (Path(name).expanduser() for name in FONT_FOLDERS)):
                vl_convert.register_font_directory(str(folder))
    return vl_convert


class Picture:
    """A finished picture, as SVG, PNG, or an image within a page; offline, and whoever unpickles it needs no chart library."""

    def __init__(self, chart: Any) -> None:
        """Take an Altair chart."""
        self.chart = chart

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: what it shows, and the drawing where there is one."""
        return {**vars(self), "spec": self.spec, "chart": None}

    def __repr__(self) -> str:
        """Return the same text in every run, since the outputs of a notebook hold it."""
        return "Picture()"

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What it shows, as Vega-Lite."""
        return dict(self.chart.to_dict(validate=False))

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG text; text out of a book is escaped and no link is followed or made.

        Vega numbers its clip paths from zero in each picture; here they carry the picture's digest, so that several stand in one page.
        """
        svg = _drawer().vegalite_to_svg(self.spec, allowed_base_urls=[])
        mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
        return re.sub(r'(\bid="|url\(#|xlink:href="#|\bhref="#)((?:clip|gradient)[\w-]*)', rf"\1c{mark}-\2", svg)

    def png(self, scale: float = 2.0) -> bytes:
        """Return the drawing as PNG; scale 2 gives 144 dots per inch."""
        return bytes(_drawer().svg_to_png(self.svg, scale=scale))

    @property
    def finding(self) -> str:
        """The titles, each with what it rests on, as one text."""
        titles = [part["title"] for part in (self.spec, *self.spec.get("vconcat", ())) if isinstance(part.get("title"), dict)]
        texts = [title.get(name) or [] for title in titles for name in ("text", "subtitle")]
        return ". ".join(text if isinstance(text, str) else " ".join(text) for text in texts if text)

    def _repr_html_(self) -> str:
        """Show it as an HTML image whose alternative text is its finding.

        Hosts strip drawings from notebooks that they do not trust, such as one that another person executed, but keep images;
        and an image holds no text that a host could take for mathematics.
        """
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(self.finding)}" style="max-width:100%;height:auto">'
