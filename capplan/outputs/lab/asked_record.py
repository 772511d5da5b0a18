"""The record of questions in plain words: what was asked, who read it, what was approved, and what came of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capplan.answers.ask.reader import Reading
from capplan.book.book import Book
from capplan.errors import refused
from capplan.outputs.lab.answering import Answer


def keep_record(folder: Path, reading: Reading, book: Book, answer: Answer | None, readers: Sequence[Mapping[str, Any]]) -> Path:
    """Add a line to the record of questions: what was asked, who read it, what was approved, and what came of it.

    Args:
        folder: Where the record is, asked.jsonl: the folder of a book's reports, or where a board saves.
        reading, book: What was asked of which book.
        answer: The answer; None where nothing was approved.
        readers: Who read the sentence: the embedded grammar, and a model with its name, temperature and prompt.
    """
    target = folder / "asked.jsonl"
    line = {
        "question": reading.text,
        "readers": list(readers),
        "what_ifs": [{"words": item.words, "what_if": str(item)} for item in reading.what_ifs],
        "asked_back": [{"words": doubt.words, "why": doubt.why} for doubt in reading.doubts],
        "approved": answer is not None,
        "answer": list(answer.sentences) if answer else [],
        "parameters": answer.scenario.model_dump(mode="json", exclude_unset=True) if answer else {},
        "digests": dict(book.digests),
    }
    with refused(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    return target
