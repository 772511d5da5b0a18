"""Where the files that come with capplan are: reference facts, example books and notebooks."""

from pathlib import Path


def shipped(kind: str) -> Path:
    """Return the folder of shipped files: "data" or "notebooks".

    A wheel carries them inside the package; a source checkout has them beside it.
    """
    package = Path(__file__).resolve().parents[1]
    inside = package / "share" / kind
    return inside if inside.is_dir() else package.parent / kind


def example_books() -> dict[str, Path]:
    """Return the example books by name."""
    return {place.parent.name: place.parent for place in sorted(shipped("data").glob("*/book.yaml"))}
