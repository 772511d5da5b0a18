"""The board of a meeting: questions as cards, each one click and one number; every answer stays as a column."""

import html
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets

from capplan.answers.ask.model import Model, Second, ask_model, model_of, record_of, with_model
from capplan.answers.ask.reader import Reader, Reading
from capplan.answers.ask.shown import reading_text, scenario_asked
from capplan.answers.board import Column, first_column, full_column
from capplan.answers.cards import CARDS, get_ready
from capplan.book.book import Book, load_book
from capplan.book.book_currency import book_currency
from capplan.book.gate import stamp
from capplan.book.scenario import Scenario
from capplan.dollars import in_force
from capplan.errors import CapplanError
from capplan.outputs.lab.answering import Answer, answer_reading
from capplan.outputs.lab.asked_record import keep_record
from capplan.outputs.lab.background import Background, Runs
from capplan.outputs.lab.board_card import card_row
from capplan.outputs.lab.board_table import board_chart, board_html, comparison_html, scenario_text, workbook_bytes
from capplan.outputs.lab.explore import error_text, file_name
from capplan.outputs.lab.given import hand_over
from capplan.outputs.lab.page_side import Names
from capplan.outputs.views.view import NO_MATHEMATICS

TODAY = "Today"


@dataclass
class Asked:
    """A question on the board, and how far its answer is."""

    title: str
    scenario: Scenario
    column: Column | None = None
    state: str = "computing"
    readers: str = ""
    reading: Reading | None = None


class Board(ipywidgets.VBox):
    """Cards, the chart, and the answers side by side.

    Args:
        book, scenario: What is planned today.
        folder: Where scenarios, workbook and picture are saved.
        runs: How work is done: beside the kernel, or at once in tests.
    """

    def __init__(self, book: Book, scenario: Scenario, *, folder: Path | None = None, runs: Runs | None = None) -> None:
        """Show today's plan, and ask for it in full."""
        self._book, self._today, self._folder, self._runs = book, scenario, folder or Path.cwd(), runs or Background()
        self._currency = book_currency(book, scenario)
        self._stamp = stamp(book.path)
        self.asked: list[Asked] = []
        self._understood: tuple[Reading, Asked, str] | None = None
        self.headline, self.status, self.notice, self.picture, self.table, self.comparison, self.told = (
            ipywidgets.HTML(layout=ipywidgets.Layout(width="auto")) for _ in range(7)
        )
        for name in ("headline", "status", "notice", "picture", "table", "told"):
            getattr(self, name).add_class(f"capplan-{name}")
        self.onto = ipywidgets.Dropdown(options=[TODAY], description="On top of", layout=ipywidgets.Layout(width="330px"))
        self.first, self.second = (
            ipywidgets.Dropdown(options=[], description=name, layout=ipywidgets.Layout(width="235px")) for name in ("Compare", "with")
        )
        self.buttons = {
            "compare": self._button("Show the difference", self.compare),
            "save": self._button("Save scenario", self.save),
            "excel": self._button("Export Excel", self.export_workbook),
            "picture": self._button("Export PNG", self.export_picture),
            "clear": self._button("Clear the board", self.clear),
            "reload": self._button("Reload the book", self.reload),
        }
        self.words = ipywidgets.Text(
            description="Ask in words",
            placeholder="what if spot doubles and a run slips two quarters?",
            continuous_update=False,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="620px"),
        )
        self.words.observe(lambda _: self._unread(), "value")
        self.read_words, self.answer_words = self._button("Read it", self.read), self._button("Answer this", self.answer)
        self._unread()
        words = ipywidgets.HBox([self.words, self.read_words, self.answer_words], layout=ipywidgets.Layout(flex_flow="row wrap"))
        self._cards = ipywidgets.VBox(layout=ipywidgets.Layout(flex="0 0 535px", max_height="575px", overflow="auto"))
        self._cards.add_class("capplan-cards")
        self._lay_cards()
        answers = ipywidgets.VBox(
            [self.picture, self.table, self.comparison], layout=ipywidgets.Layout(flex="1 1 0", min_width="0", max_height="575px")
        )
        top = ipywidgets.HBox([answers, self._cards])
        said = ipywidgets.HBox([self.status, self.notice], layout=ipywidgets.Layout(flex_flow="row wrap"))
        choose = ipywidgets.HBox([self.first, self.second, *self.buttons.values()], layout=ipywidgets.Layout(flex_flow="row wrap"))
        super().__init__(
            children=[self.headline, said, words, self.told, top, choose, Names()], layout=ipywidgets.Layout(width="auto", min_width="0")
        )
        for name in ("capplan-meeting", *NO_MATHEMATICS):
            self.add_class(name)
        self._begin()

    def _lay_cards(self) -> None:
        """Lay the cards, with what the book has to pick from."""
        self.cards = {card.name: card_row(self._book, card, self.ask, self._pressed) for card in CARDS}
        self._cards.children = [self.onto, *(row for row, _, _ in self.cards.values())]

    def ask(self, name: str, number: float = 0.0, pick: str = "", given: Mapping[str, float | str] | None = None) -> None:
        """Ask a card's question on top of the chosen column, as a click on it does."""
        card = next(card for card in CARDS if card.name == name)
        ground = self._ground()
        asked = card.ask(self._book.with_changes(ground.scenario.changes), ground.scenario, number, pick, given)
        self._ask(card.title(number, pick, given), ground, asked)

    def read(self) -> str:
        """Read the question in words, and show what was understood; nothing is computed before it is approved."""
        ground, model = self._ground(), model_of(os.environ)
        reading = Reader(self._book, ground.scenario).read(self.words.value)
        self._unread()
        if model is None:
            return self._shown(reading, ground, "")
        self._runs(
            "model", partial(ask_model, model, reading, self._book, ground.scenario), partial(self._read_twice, reading, ground, model)
        )
        return html.escape(f"{model.name} at {model.address} reads it, too ...")

    def _read_twice(self, reading: Reading, ground: Asked, model: Model, second: Second | None, error: BaseException | None) -> None:
        """Show what a model made of the question beside the grammar's reading, unless something else is asked by now."""
        if " ".join(self.words.value.split()) != reading.text:
            return
        if second is None:
            self.notice.value = f"{error_text(str(error))}<br>{self._shown(reading, ground, '')}"
            return
        record = record_of(model, second)
        said = f"{model.name} at {model.address}, temperature {model.temperature:g}, prompt {record['prompt_version']}: {second.outcome}"
        readers = " ".join(said.split())  # it becomes one line of a file
        lines = [f"Model {readers}.", *second.remarks, *(f"Read by the model alone: {item}" for item in second.proposed)]
        said = self._shown(with_model(reading, second), ground, readers)
        self.notice.value = "<br>".join([*(html.escape(line) for line in lines), said])

    def _shown(self, reading: Reading, ground: Asked, readers: str) -> str:
        """Show a reading, to be approved where there is something to answer."""
        if reading.what_ifs:
            self._understood = reading, ground, readers
            self.answer_words.disabled = False
        kept = self._keep(reading, None, readers)
        return "<br>".join([*(html.escape(line) for line in reading_text(reading, self._book, ground.scenario).splitlines()), *kept])

    def _keep(self, reading: Reading, answer: Answer | None, readers: str) -> list[str]:
        """Keep a record of what was read, and of what was approved with its answer; where it cannot be written, that is said."""
        who = [{"reader": "embedded grammar"}, *([{"reader": readers}] if readers else [])]
        try:
            keep_record(self._folder, reading, self._book, answer, who)
        except CapplanError as error:
            return [error_text(str(error))]
        return []

    def answer(self) -> None:
        """Answer the question in words as it was read and shown: a plan on the board, reports and reasons beside it."""
        if self._understood is None:
            raise CapplanError("Read the question first, so that you see what is answered.")
        reading, ground, readers = self._understood
        self._unread()
        beside = [item for item in reading.what_ifs if item.kind == "explain" or (item.kind == "report" and item.report != "plan")]
        if len(beside) < len(reading.what_ifs) and not any(item.kind == "report" for item in beside):
            self._ask(reading.text, ground, scenario_asked(reading, self._book, ground.scenario), readers, reading)
        if beside:
            self.told.value = html.escape(f"Computing: {reading.text}")
            asked = replace(reading, what_ifs=tuple(item for item in reading.what_ifs if item.kind != "report" or item.report != "plan"))
            self._runs("told", partial(answer_reading, asked, self._book, ground.scenario), partial(self._tell, reading, readers))

    def _tell(self, reading: Reading, readers: str, answer: Answer | None, error: BaseException | None) -> None:
        """Show the sentences that answer a question about reports or reasons, each with the ids that `capplan trace` follows."""
        if answer is None:
            self.told.value = error_text(str(error))
            return
        kept = self._keep(reading, answer, readers)
        self.told.value = "<br>".join([f"<b>{html.escape(reading.text)}</b>", *(html.escape(line) for line in answer.lines), *kept])

    def _unread(self) -> None:
        """Forget what was read: other words need another approval."""
        self._understood = None
        self.answer_words.disabled = True

    def _ground(self) -> Asked:
        """Return the column that a question stands on top of, while the book is as it was loaded."""
        if stamp(self._book.path) != self._stamp:
            raise CapplanError(
                "The book has changed on disk since it was loaded: press Reload the book; the answers on the board are those of before."
            )
        return next((asked for asked in self.asked if asked.title == self.onto.value), self.asked[0])

    def _ask(self, asked_as: str, ground: Asked, scenario: Scenario, readers: str = "", reading: Reading | None = None) -> None:
        """Put a question on the board, once."""
        title = asked_as + (f", on top of: {ground.title}" if ground.title != TODAY else "")
        self._book.with_changes(scenario.changes)
        before = next((asked for asked in self.asked if asked.title == title), None)
        if before is not None and before.state in ("computing", "first answer"):
            raise CapplanError(f"{title} is being computed already.")
        if before is not None:
            self.asked.remove(before)
        self._put(Asked(title, scenario, readers=readers, reading=reading))

    def _begin(self) -> None:
        """Plan today, and get the cards ready meanwhile."""
        self._put(Asked(TODAY, self._today))
        self._runs("ready", partial(get_ready, self._book, self._today), lambda *_: None)

    def _put(self, asked: Asked) -> None:
        """Set a question on the board, and ask for its first and its full answer."""
        self.asked.append(asked)
        self._show_all()
        self._draw()
        self.second.value = asked.title
        today = self.asked[0].column.signed if self.asked[0].column and asked.title != TODAY else None
        if asked.title != TODAY:
            self._runs(
                "first",
                partial(first_column, asked.title, self._book, asked.scenario, self._today),
                partial(self._answered, asked, "first answer"),
            )
        self._runs(
            "full", partial(full_column, asked.title, self._book, asked.scenario, today), partial(self._answered, asked, "full answer")
        )

    def _answered(self, asked: Asked, state: str, column: Column | None, error: BaseException | None) -> None:
        """Take an answer; a first one never takes the place of a full one, and what fails in it is said by the full one."""
        if asked not in self.asked or (state == "first answer" and (column is None or asked.state == "full answer")):
            return
        if error is not None:
            asked.column, asked.state = None, str(error) if isinstance(error, CapplanError) else f"failed ({type(error).__name__}: {error})"
        else:
            asked.column, asked.state = column, state
        if asked.reading is not None and column is not None and state == "full answer":
            self.notice.value += "".join(self._keep(asked.reading, Answer((column.headline,), {}, asked.scenario), asked.readers))
        self._draw()

    def _draw(self) -> None:
        """Show everything as it stands."""
        waiting = [asked.title for asked in self.asked if asked.state in ("computing", "first answer")]
        # The browser takes these one after another: a column is seen after it is said to compute, and before it is said to be full.
        if waiting:
            self.status.value = html.escape(f"Computing in full: {'; '.join(waiting)}. You can go on.")
        columns = [asked.column for asked in self.asked if asked.column is not None]
        self.table.value = board_html([(asked.title, asked.column, asked.state) for asked in self.asked], self._today, self._currency)
        titles = [asked.title for asked in self.asked]
        for chooser in (self.onto, self.first, self.second):
            kept = chooser.value
            chooser.options = titles
            chooser.value = kept if kept in titles else titles[-1] if chooser is self.second else titles[0]
        if columns:
            told = columns[-1].headline if columns[-1].name == TODAY else f"{columns[-1].name}: {columns[-1].headline}"
            self.headline.value = f"<h3>{html.escape(told)}</h3>"
            self.picture.value = self._drawn(columns).svg
        if not waiting:
            self.status.value = "All answers are full ones: a run without a person gives the same."

    def _drawn(self, columns: list[Column]) -> Any:
        """Draw columns in the book's currency."""
        with in_force(self._currency):
            return board_chart(columns)

    def _button(self, text: str, action: Callable[[], str | None]) -> ipywidgets.Button:
        button = ipywidgets.Button(description=text, tooltip=text, layout=ipywidgets.Layout(width="auto"))
        button.on_click(lambda _: self._pressed(action))
        return button

    def _pressed(self, action: Callable[[], Any]) -> None:
        """Do what a button says, and show what it says as HTML; what goes wrong is said in its place."""
        try:
            self.notice.value = action() or ""
        except (CapplanError, OSError) as error:
            self.notice.value = error_text(str(error))

    def _chosen(self, title: str) -> Column:
        column = next((asked.column for asked in self.asked if asked.title == title and asked.column), None)
        if column is None:
            raise CapplanError(f"{title} has no answer yet.")
        return column

    def compare(self) -> str:
        """Show two columns and their difference in the place of all answers, and all answers again on the next click."""
        if self.comparison.value:
            self._show_all()
            return ""
        before, after = self._chosen(self.first.value), self._chosen(self.second.value)
        self.comparison.value = comparison_html(before, after, self._currency)
        self.table.layout.display, self.buttons["compare"].description = "none", "Show all answers"
        return html.escape(f"{after.name} against {before.name}.")

    def _show_all(self) -> None:
        """Show the answers side by side, and no comparison."""
        self.comparison.value, self.table.layout.display, self.buttons["compare"].description = "", "", "Show the difference"

    def save(self) -> str:
        """Write the assumptions of the second chosen column as a file that `capplan plan --scenario` takes."""
        column = self._chosen(self.second.value)
        name = f"scenario_{file_name(column.name)}.yaml"
        readers = next((asked.readers for asked in self.asked if asked.title == column.name), "")
        text = scenario_text(column, self._book) + (f"# Read from words by the embedded grammar and {readers}\n" if readers else "")
        said = hand_over(self._folder, name, text.encode())
        return f"{said} {html.escape(f'capplan plan {self._book.path} --scenario {name}')} gives the same numbers."

    def export_workbook(self) -> str:
        """Write the board as an Excel workbook."""
        columns = {asked.title: asked.column for asked in self.asked if asked.column is not None}
        if not columns:
            raise CapplanError("There is no answer yet.")
        return hand_over(self._folder, "board.xlsx", workbook_bytes(columns, self._today, self._currency))

    def export_picture(self) -> str:
        """Write the chart as PNG."""
        columns = [asked.column for asked in self.asked if asked.column is not None]
        if not columns:
            raise CapplanError("There is no answer yet.")
        return hand_over(self._folder, "board.png", self._drawn(columns).png())

    def clear(self) -> None:
        """Take every what-if from the board; today's plan stays."""
        del self.asked[1:]
        self._show_all()
        self._draw()

    def reload(self) -> str:
        """Read the book again, and plan today anew; the what-ifs were answers about another book and go."""
        self._book = load_book(self._book.path)
        self._stamp = stamp(self._book.path)
        self.asked.clear()
        self._lay_cards()
        self._show_all()
        self._begin()
        return "The book was read again."
