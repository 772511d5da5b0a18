"""Write tables and charts to files, with all text from books made inert."""

import tempfile
from pathlib import Path

import pandas as pd

from capplan.inert import inert
from capplan.outputs.charts import Picture


def inert_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy whose text cells and column names are inert."""
    safe = frame.copy()
    for name in safe.columns:
        if safe[name].dtype == object or isinstance(safe[name].dtype, pd.CategoricalDtype):
            safe[name] = safe[name].astype(object).map(inert)
    return safe.rename(columns={name: inert(name) for name in safe.columns})


def table_text(frame: pd.DataFrame) -> str:
    r"""Return a table as CSV: fixed number format, so that equal tables are equal bytes; days without, instants with their time of day.

    Examples:
        >>> table_text(pd.DataFrame({"day": pd.to_datetime(["2027-01-31"]), "at": pd.to_datetime(["2027-01-31T08:30"])}))
        'day,at\n2027-01-31,2027-01-31T08:30:00\n'
    """
    safe = inert_frame(frame)
    for place, kind in enumerate(safe.dtypes):
        times = safe.iloc[:, place]
        if pd.api.types.is_datetime64_any_dtype(kind) and (times.dropna() != times.dropna().dt.normalize()).any():
            safe.isetitem(place, times.dt.strftime("%Y-%m-%dT%H:%M:%S"))
    return safe.to_csv(index=False, float_format="%.10g", date_format="%Y-%m-%d", lineterminator="\n")


def write_table(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table as CSV (see `table_text`).

    Args:
        path: File to write; its folder must exist.
    """
    path.write_text(table_text(frame), encoding="utf-8", newline="")
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader never finds half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False, suffix=".part") as file:
        file.write(content)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def write_chart(picture: Picture, stem: Path) -> tuple[Path, Path]:
    """Write a chart as SVG and PNG beside each other."""
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    svg.write_text(picture.svg, encoding="utf-8")
    png.write_bytes(picture.png())
    return svg, png
