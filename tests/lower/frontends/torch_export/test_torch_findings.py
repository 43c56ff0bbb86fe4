"""What was found in PyTorch still shows in the version in which it was found."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.places import SPECS

FOUND = sorted((SPECS / "findings" / "torch-2.14").glob("*.py"))


@pytest.mark.peer
@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_a_finding_shows(path: object) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=300)
    if "AVX512" not in ended.stdout + ended.stderr and "fmod" in str(path) and ended.returncode == 1:
        pytest.skip("this processor has no vectors of 512 bits")
    assert ended.returncode == 0, ended.stdout + ended.stderr
