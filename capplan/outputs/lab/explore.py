"""Sliders around a view: move an assumption and see headline, chart, table and the difference to the baseline change.

The chart is SVG made in the kernel, not a JavaScript chart: it needs no library in the page (nothing to load where the network is
cut off), is the very picture of the report, and is redrawn in a quarter of a second, where a Vega widget first sends almost a megabyte.
"""

import asyncio
import hashlib
import html
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import ipywidgets
import yaml

from capplan.book.book import Book, load_book
from capplan.book.gate import stamp
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError
from capplan.outputs.export.files import table_text
from capplan.outputs.lab.controls import Control, control_for, label_of
from capplan.outputs.lab.differences import TECHNICAL, computed_alike, difference_text
from capplan.outputs.lab.given import hand_over
from capplan.outputs.lab.page_side import Names
from capplan.outputs.views.view import MOST_CONTROLS, NO_MATHEMATICS, First, Show, View, folded
from capplan.text import counted, words

WAIT_SECONDS = 0.35
#: Rest after a first answer before the full one is computed, so that one can go on moving.
REST_SECONDS = 2.0
SPINNER = (
    "<style>@keyframes capplan-turn{to{transform:rotate(360deg)}}"
    " .capplan-turning{display:inline-block;width:12px;height:12px;margin-right:6px;border:2px solid"
    " #bbb;border-top-color:#0045a5;border-radius:50%;animation:capplan-turn .8s linear infinite}</style><span"
    " class='capplan-turning'></span><span class='capplan-busy'>Computing ...</span>"
)
TABLE_STYLE = (
    "<style>.capplan-explorer .widget-html-content{min-width:0;overflow:hidden}"
    " .capplan-table{overflow:auto;max-height:360px}.capplan-table table{border-collapse:collapse;font-size:12px}.capplan-table"
    " td,.capplan-table th{padding:2px 8px;text-align:left;border-bottom:1px solid #ddd;white-space:nowrap}</style>"
)


class Handle(Protocol):
    """Something planned that can be called off."""

    def cancel(self) -> object:
        """Call it off."""


Later = Callable[[float, Callable[[], None]], Handle]


def later(seconds: float, action: Callable[[], None]) -> Handle:
    """Plan an action on the kernel's event loop; without a loop (a plain script) do it at once."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        action()
        return _Done()
    return loop.call_later(seconds, action)


class _Done:
    def cancel(self) -> None:
        """Nothing is left to call off."""


class Explorer(ipywidgets.VBox):
    """Controls, headline, difference to the baseline, chart and table of one view.

    Args:
        show, book, scenario, fields, first: As in `widgets.explore`.
        folder: Where scenario, chart and table are saved.
        plan_action: How an action is planned; replaced in tests.
    """

    def __init__(
        self,
        show: Show,
        book: Book,
        scenario: Scenario,
        fields: Sequence[str] | None = None,
        *,
        first: First | None = None,
        folder: Path | None = None,
        plan_action: Later = later,
    ) -> None:
        """Show the baseline and build a control for every field."""
        self._show, self._book, self.baseline_scenario, self._later = show, book, scenario, plan_action
        self._folder, self._quiet, self._first, self._stamp = folder or Path.cwd(), False, first, stamp(book.path)
        self._handle: Handle | None = None
        self._picked: str | None = None
        self.baseline: View | None = None
        self.view: View | None = None
        self.headline = ipywidgets.HTML(layout=ipywidgets.Layout(width="auto"))
        self.difference = ipywidgets.HTML(layout=ipywidgets.Layout(width="auto"))
        self.status = ipywidgets.HTML(layout=ipywidgets.Layout(width="auto", min_height="24px"))
        self.picture = ipywidgets.HTML()
        self.table = ipywidgets.HTML(layout=ipywidgets.Layout(width="auto"))
        self.which = ipywidgets.Dropdown(options=[], description="Chart", layout=ipywidgets.Layout(display="none"))
        self.headline.add_class("capplan-headline")
        self.difference.add_class("capplan-difference")
        self.status.add_class("capplan-status")
        self.picture.add_class("capplan-picture")
        self._attempt(scenario)
        self.baseline = self.view
        wanted = fields if fields is not None else self.view.fields if self.view else ()
        self.controls: dict[str, Control] = {
            name: control_for(name, getattr(scenario, name), self.view.choices.get(name, ()) if self.view else ()) for name in wanted
        }
        for control in self.controls.values():
            for part in control.parts:
                part.observe(self._moved, names="value")
        self.which.observe(self._draw, names="value")
        self.buttons = self._made_buttons()
        children = [
            self.headline,
            self.difference,
            self.picture,
            self.status,
            *self._groups(),
            ipywidgets.HBox([*self.buttons.values(), self.which], layout=ipywidgets.Layout(flex_flow="row wrap")),
            self.table,
            self._help(),
            Names(),
        ]
        super().__init__(children=children, layout=ipywidgets.Layout(width="auto", min_width="0", overflow="hidden"))
        for name in ("capplan-explorer", *NO_MATHEMATICS):
            self.add_class(name)

    def _groups(self) -> list[ipywidgets.Widget]:
        """Put the few controls that move the answer most in view, and the rest, with all technical ones, under More."""
        most = self.view.telling if self.view else MOST_CONTROLS
        telling = [name for name in self.controls if name not in TECHNICAL][:most]
        rest = [control.widget for name, control in self.controls.items() if name not in telling]
        more = ipywidgets.Accordion(children=[ipywidgets.VBox(rest)], selected_index=None)
        more.set_title(0, f"More ({len(rest)})")
        return [ipywidgets.VBox([self.controls[name].widget for name in telling]), *([more] if rest else [])]

    @property
    def scenario(self) -> Scenario:
        """The scenario as the controls stand; raises ScenarioError where they contradict each other."""
        moved = {name: control.read() for name, control in self.controls.items()}
        changed = {name: value for name, value in moved.items() if value != getattr(self.baseline_scenario, name)}
        return self.baseline_scenario.replaced(**changed) if changed else self.baseline_scenario

    def reset(self) -> None:
        """Put every control back to the baseline."""
        self._quiet = True
        for name, control in self.controls.items():
            control.write(getattr(self.baseline_scenario, name))
        self._quiet = False
        self.refresh()

    def refresh(self) -> None:
        """Run the view for the scenario as it stands; an error stands in place of the answer, in plain words."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if stamp(self._book.path) != self._stamp:
            self.buttons["reload"].layout.display = ""
            self.status.value = error_text(
                "The book has changed on disk since it was loaded: what is shown is from before. Reload the book."
            )
            return
        try:
            scenario = self.scenario
        except CapplanError as error:
            self._fail(str(error))
            return
        began = time.perf_counter()
        if self._look(scenario):
            self.status.value = html.escape(
                f"First answer in {time.perf_counter() - began:.1f} s; the full one follows when the sliders rest."
            )
            self._handle = self._later(REST_SECONDS, lambda: self._attempt(scenario))
        else:
            self._attempt(scenario)

    def reload(self) -> None:
        """Read the book again, and show its baseline and what the controls make of it."""
        self._book, self._stamp = load_book(self._book.path), stamp(self._book.path)
        self.buttons["reload"].layout.display, self.baseline = "none", None
        self._attempt(self.baseline_scenario)
        self.baseline = self.view
        if self.baseline is not None:
            self._fill(self.baseline, self.baseline_scenario)
        if self.scenario != self.baseline_scenario:
            self.refresh()

    def _look(self, scenario: Scenario) -> bool:
        """Show a first answer, where there is one; what fails here fails again, and is said, in the full answer."""
        try:
            view = self._first(self._book, scenario) if self._first is not None else None
        except Exception:
            return False
        if view is not None:
            self._fill(view, scenario)
        return view is not None

    def overrides(self) -> dict[str, Any]:
        """Return the assumptions that differ from the book, as a scenario file holds them."""
        scenario = self.scenario
        plain = {**scenario.model_dump(mode="json"), "changes": [change.line for change in scenario.changes]}
        return {name: plain[name] for name in Scenario.model_fields if getattr(scenario, name) != getattr(self._book.scenario, name)}

    def save_scenario(self) -> str:
        """Write the overrides as YAML and say how to use them."""
        changed = self.overrides()
        text = yaml.safe_dump(changed, sort_keys=True, allow_unicode=True) if changed else "{}\n"
        text = "# Assumptions that differ from the book. Use: capplan plan BOOK --scenario scenario.yaml\n" + text
        return f"{hand_over(self._folder, 'scenario.yaml', text.encode())} It holds {counted(len(changed), 'assumption')} of its own."

    def export_chart(self) -> str:
        """Write the chart that is shown as SVG."""
        if self.view is None:
            raise CapplanError("There is no chart to export; mend the assumptions first.")
        name = f"{self._stem()}_{file_name(str(self.which.value))}.svg"
        return hand_over(self._folder, name, self.view.charts[self.which.value].svg.encode())

    def export_table(self) -> str:
        """Write the table as CSV; text that a spreadsheet would run as a formula is made inert."""
        if self.view is None:
            raise CapplanError("There is no table to export; mend the assumptions first.")
        return hand_over(self._folder, f"{self._stem()}.csv", table_text(self.view.table).encode())

    def _stem(self) -> str:
        return file_name(getattr(self._show, "__name__", "view").removeprefix("show_"))

    def _made_buttons(self) -> dict[str, ipywidgets.Button]:
        """Build the buttons; the one that reads the book again shows when there is something to read."""
        buttons = {
            "reset": self._button("Reset", "Put every assumption back to the baseline", self.reset),
            "save": self._button(
                "Save scenario", "Write the assumptions that differ from the book to a file for capplan plan --scenario", self.save_scenario
            ),
            "chart": self._button("Export chart", "Write the chart as SVG", self.export_chart),
            "table": self._button("Export table", "Write the table as CSV", self.export_table),
            "reload": self._button("Reload the book", "Read the book again as it lies on disk now", self.reload),
        }
        buttons["reload"].layout.display = "none"
        return buttons

    def _button(self, text: str, help_text: str, action: Callable[[], str | None]) -> ipywidgets.Button:
        button = ipywidgets.Button(description=text, tooltip=help_text)

        def pressed(_: object) -> None:
            try:
                said = action()
            except (CapplanError, OSError) as error:
                self.status.value = error_text(str(error))
            else:
                if said:
                    self.status.value = said

        button.on_click(pressed)
        return button

    def _help(self) -> ipywidgets.Widget:
        """Say what every assumption means and where its default comes from."""
        lines = []
        for name in self.controls:
            field = Scenario.model_fields[name]
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            lines.append(
                f"<li><b>{html.escape(label_of(name))}</b>: {html.escape(field.description or '')} Default:"
                f" {html.escape(str(extra.get('source', '')))}</li>"
            )
        guide = ipywidgets.Accordion(children=[ipywidgets.HTML(f"<ul>{''.join(lines)}</ul>")], selected_index=None)
        guide.set_title(0, "What the assumptions mean, and where their defaults come from")
        return guide

    def _moved(self, _: object) -> None:
        """Wait until the user rests, then run the view once."""
        if self._quiet:
            return
        if self._handle is not None:
            self._handle.cancel()
        self.status.value = SPINNER
        self._handle = self._later(WAIT_SECONDS, self.refresh)

    def _attempt(self, scenario: Scenario) -> None:
        self.status.value = SPINNER
        began = time.perf_counter()
        try:
            view = self._show(self._book, scenario)
            self._fill(view, scenario)
        except CapplanError as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(
                f"This view failed ({type(error).__name__}: {error}). Reset the assumptions; if it stays, report it with the saved"
                " scenario."
            )
        else:
            self.status.value = html.escape(f"Computed in {time.perf_counter() - began:.1f} s.")

    def _fail(self, message: str) -> None:
        self.view = None
        self.status.value = error_text(message)
        for part in (self.headline, self.difference, self.picture, self.table):
            part.value = ""

    def _fill(self, view: View, scenario: Scenario) -> None:
        names = list(view.charts)
        chosen = self._picked if self._picked in names else names[0]
        picture = view.charts[chosen].svg
        difference = self._difference(view, scenario)
        self.view = view
        self._quiet = True
        self.which.options = [(words(name), name) for name in names]
        self.which.value = chosen
        self.which.layout.display = "none" if len(names) < 2 else ""
        self._quiet = False
        self.headline.value = f"<h3 style='margin:4px 0'>{html.escape(view.headline)}</h3>"
        self.difference.value = html.escape(difference)
        self.picture.value = picture
        known = self.baseline.notes if self.baseline is not None else view.notes
        new = [note for note in view.notes if note not in known]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in new)
        self.table.value = (
            f"{TABLE_STYLE}<div class='capplan-table' tabindex='0' role='region' aria-label='The table'>{view.shown.to_html()}</div>"
            + folded(f"<ul>{notes}</ul>", counted(len(new), "note") + " beside the baseline's", len(new))
        )

    def _difference(self, view: View, scenario: Scenario) -> str:
        """Say how far a view is from the baseline, which is computed anew where the controls change how answers are computed."""
        before = computed_alike(self.baseline_scenario, scenario)
        if before == self.baseline_scenario:
            return difference_text(self.baseline, view, before, scenario)
        try:
            return difference_text(self._show(self._book, before), view, before, scenario)
        except CapplanError as error:
            return f"The baseline cannot be computed in this way: {error}"

    def _draw(self, _: object) -> None:
        if not self._quiet and self.view is not None and self.which.value in self.view.charts:
            self._picked = self.which.value
            self.picture.value = self.view.charts[self.which.value].svg


def error_text(message: str) -> str:
    """Write what went wrong, where an answer would stand."""
    lines = html.escape(message).replace("\n", "<br>")
    return f"<div class='capplan-error' style='color:#9c0011;border-left:3px solid #9c0011;padding-left:8px'>{lines}</div>"


def file_name(text: str) -> str:
    """Return a text as part of a file name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    return (name if len(name) <= 60 else f"{name[:51]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}") or "view"
