"""YAML as plain data, by the rules of YAML 1.2: what is written is what is meant, and nothing is taken twice."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from capplan.book.gate import read_text
from capplan.errors import CapplanError, Fault, ScenarioError

#: Largest file of assumptions, which holds a few lines.
MOST_YAML_MEGABYTES = 1
#: More digits than any number that means something has.
MOST_DIGITS = 30
_SCALARS = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", "~nN\0"),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "tag:yaml.org,2002:float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+0123456789."),
}


class _Loader(yaml.SafeLoader):
    """PyYAML follows YAML 1.1, in which no is false, 010 is 8 and 1:30 is 90; these are the core rules of 1.2."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - as PyYAML declares it

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not taken; write the value out", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice; keep one of the two", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _whole(_: _Loader, node: Any) -> int:
    text = node.value
    if len(text) > MOST_DIGITS:
        raise yaml.constructor.ConstructorError(None, None, f"a number of {len(text)} digits", node.start_mark)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _number(_: _Loader, node: Any) -> float:
    return float(node.value)


def _refused(_: _Loader, node: Any) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"the tag {node.tag} is not taken; write plain data", node.start_mark)


for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), ["" if letter == "\0" else letter for letter in _first])
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)
for _tag in ("timestamp", "binary", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _refused)


class NotYamlError(CapplanError):
    """A text is no YAML, or says something twice; `line` counts from 1, and is 0 where it is not known."""

    def __init__(self, said: str, line: int = 0) -> None:
        super().__init__(said)
        self.line = line


def read_yaml(text: str) -> Any:
    """Read YAML as plain data: texts, numbers, true and false, lists and mappings; days stay texts.

    Raises:
        NotYamlError: For what is no YAML, a key given twice, an alias, a number of absurd length, or nesting without end.

    Source: YAML Ain't Markup Language, version 1.2.2, section 10.3 (core schema).

    Examples:
        >>> read_yaml("[no, 010, 0o10, 1e3, true, 2027-01-01, 1:30]")
        ['no', 10, 8, 1000.0, True, '2027-01-01', '1:30']
    """
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise NotYamlError(str(error.problem or "this is no YAML")[:200], line) from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotYamlError(f"this is no YAML: {str(error)[:100]}") from error
    except RecursionError as error:
        raise NotYamlError("this is nested too deeply to mean anything") from error


def read_entries(path: Path, folder: Path | None = None) -> tuple[dict[str, Any], list[Fault]]:
    """Read `name: value` lines as plain data, or say what is wrong; no link may lead out of a folder (None: the file's own)."""
    text, refused = read_text(path, folder, MOST_YAML_MEGABYTES)
    if refused:
        return {}, refused
    try:
        entries = read_yaml(text) or {}
    except NotYamlError as error:
        return {}, [Fault(path.name, error.line, "", "", f"the file must be YAML in UTF-8: {error}", "Write one `name: value` a line.")]
    if not isinstance(entries, dict):
        return {}, [Fault(path.name, 1, "", str(entries)[:40], "the file must hold `name: value` lines", "Write one `name: value` a line.")]
    return {str(key): value for key, value in entries.items()}, []


def read_overrides(file: Path) -> dict[str, Any]:
    """Read a file of assumptions that somebody named, wherever it lies.

    Raises:
        ScenarioError: If it is no regular file, too large, no text, or no YAML of `name: value` lines.
    """
    found, faults = read_entries(file, Path(file.absolute().anchor))
    if faults:
        raise ScenarioError(f"the scenario file {file} cannot be taken: {faults[0]}")
    return found


def read_scenarios(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Read several files of assumptions, by the names of the files.

    Raises:
        ScenarioError: As for `read_overrides`, and where two files have one name.
    """
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        name = file.stem.replace("_", " ")
        if name in found:
            raise ScenarioError(f"{file}: another scenario is called {name}, too; give each file a name of its own")
        found[name] = read_overrides(file)
    return found
