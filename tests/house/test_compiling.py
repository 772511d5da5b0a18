"""Compiled code is kept in a folder of the user's own, named after all sources it rests on, and works without one."""

from __future__ import annotations

import pytest

from capplan import compiling
from capplan.compiling import compiled, kept_in


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A package of one module, and a fresh folder to keep its code in."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("one = 1\n")
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(compiling, "kept_in", kept_in.__wrapped__)
    return tmp_path


def test_another_source_is_another_folder(place):
    before = kept_in.__wrapped__(place / "package")
    assert before.is_relative_to(place / "kept")
    assert before.stat().st_mode & 0o077 == 0
    assert kept_in.__wrapped__(place / "package") == before
    (place / "package" / "module.py").write_text("one = 2\n")
    assert kept_in.__wrapped__(place / "package") != before


@pytest.mark.parametrize("writable", [True, False])
def test_code_is_compiled_once_with_and_without_a_folder(place, monkeypatch, writable):
    from numba import config, types

    if not writable:
        (place / "file").write_text("")
        monkeypatch.setenv("CAPPLAN_CACHE", str(place / "file"))

    def double(value):
        return 2.0 * value

    made = compiled(types.float64, source=str(place / "package" / "module.py"), entry=True)(double)
    assert made(1) == made(1.0) == 2.0
    assert len(made.signatures) == 1
    assert len(list(place.rglob("*.nbc"))) == int(writable)
    assert not list((place / "package").rglob("*.nb*"))
    assert (config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES) == ("", "")


def test_a_copy_of_the_sources_takes_what_was_compiled_and_a_changed_one_does_not(place):
    from numba import types

    def treble(value):
        return 3.0 * value

    for name, text, known in (("package", "one = 1\n", 0), ("copy", "one = 1\n", 1), ("changed", "one = 2\n", 0)):
        (place / name).mkdir(exist_ok=True)
        (place / name / "module.py").write_text(text)
        made = compiled(types.float64, source=str(place / name / "module.py"), entry=True)(treble)
        assert made(2.0) == 6.0
        assert sum(made.stats.cache_hits.values()) == known


def test_the_loop_over_events_is_compiled_once():
    from capplan.questions.cluster import kernel, lists, node_choice, reserving, resizing

    for module in (kernel, lists, node_choice, reserving, resizing):
        made = [found for found in vars(module).values() if hasattr(found, "signatures")]
        assert made
        assert {len(found.signatures) for found in made} == {1}


def test_a_folder_others_may_write_to_is_closed_before_anything_is_kept_there(place):
    (place / "kept" / "compiled").mkdir(parents=True)
    (place / "kept").chmod(0o777)
    (place / "kept" / "compiled").chmod(0o777)
    assert kept_in.__wrapped__(place / "package") is not None
    assert (place / "kept").stat().st_mode & 0o077 == (place / "kept" / "compiled").stat().st_mode & 0o077 == 0
