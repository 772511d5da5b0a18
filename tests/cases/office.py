"""What a spreadsheet program calculates for a workbook: LibreOffice, with every stored result taken out first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import openpyxl
import pytest

#: A formula whose stored result is wrong; it reads 3 only where the program has calculated.
CANARY = '<row r="1048576"><c r="A1048576"><f>1+2</f><v>999</v></c></row>'
CANARY_CELL, CANARY_VALUE = "A1048576", 3
_RESULT = re.compile(r"(</f>|<f/>|<f [^>]*/>)<v>[^<]*</v>")


def without_results(path: Path, target: Path) -> Path:
    """Copy a workbook with a canary on its first sheet and no stored result of any formula."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        first = True
        for name in sorted(old.namelist()):
            data = old.read(name)
            if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name):
                text = data.decode()
                if first:
                    text, first = text.replace("</sheetData>", CANARY + "</sheetData>", 1), False
                text = _RESULT.sub(r"\1", text)
                assert not re.search(r"</f><v>", text)
                data = text.encode()
            new.writestr(name, data)
    return target


def office() -> str:
    """Return the program; where it must be there, its absence is a failure."""
    program = shutil.which("soffice") or shutil.which("libreoffice")
    if program is None:
        message = "LibreOffice is not installed (Debian: apt-get install libreoffice-calc)"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(message)
        pytest.skip(message)
    return program


def recalculated(path: Path, out: Path) -> openpyxl.Workbook:
    """Return the values LibreOffice calculates for a workbook, from nothing but its formulas and inputs."""
    bare = without_results(path, out / f"bare-{path.name}")
    profile = (out.parent / "office-profile").as_uri()
    command = [
        office(),
        f"-env:UserInstallation={profile}",
        "--headless",
        "--convert-to",
        "xlsx",
        "--outdir",
        str(out / "calculated"),
        str(bare),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    values = openpyxl.load_workbook(out / "calculated" / bare.name, data_only=True)
    first = values.worksheets[0]
    read = first[CANARY_CELL].value
    assert read == CANARY_VALUE, f"the program did not calculate: the canary reads {read}"
    del first._cells[first[CANARY_CELL].row, 1]
    return values
