"""What `tests/collecting.py` does before pytest collects."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from tests import collecting
from tests.places import ROOT
from tests.trees import nothing_collected


def test_every_second_worker_begins_at_the_end() -> None:
    names = list(collecting.from_behind("gw1", 2, ["tests/docs", "tests/tour", "tests/test_rows.py"]))
    files = [p for f in ("docs", "tour") for p in sorted((ROOT / "tests" / f).rglob("test_*.py"))]
    assert names == [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in reversed(files)] != []
    assert list(collecting.from_behind("gw0", 2, ["tests/docs"])) == []
    assert list(collecting.from_behind("gw1", 1, ["tests/docs"])) == []


def test_what_cannot_be_imported_is_left_to_pytest() -> None:
    collecting.import_from_behind(iter(["tests.no_such_file", "tests.places"]))


def test_bytecode_is_kept_where_the_caller_wants_none_beside_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "elsewhere")
    collecting.keep_bytecode(tmp_path)
    assert sys.dont_write_bytecode, "the caller has a place"
    monkeypatch.delenv("PYTHONPYCACHEPREFIX")
    collecting.keep_bytecode(tmp_path)
    assert not sys.dont_write_bytecode and sys.pycache_prefix == os.environ["PYTHONPYCACHEPREFIX"] == str(tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_garbage_is_looked_for_again() -> None:
    assert gc.isenabled()
    with nothing_collected():
        assert not gc.isenabled()
    assert gc.isenabled()
