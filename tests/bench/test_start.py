"""What the first second costs: `import assay`, `assay --help` and a small `assay plan`, in CPU time beside NumPy's own
import in the same run (specs/verify.md, "From Python"): `make bench`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

TIMES = 5
MOST = {"import assay": 1.0, "assay --help": 3.5, "assay plan": 6.5}
"""CPU time by that of `import numpy`, whose start of an interpreter is in both."""


def cpu(command: list[str], cache: Path) -> float:
    """The least CPU seconds of several runs, with the bytecode of what is imported kept, as in an installation."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".src"), "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found = []
    for _ in range(TIMES + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], check=True, env=environment, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])


@pytest.mark.bench
def test_the_first_second(tmp_path: Path) -> None:
    buffers = tmp_path / "three.csv"
    buffers.write_text("id,lower,upper,size\na,0,2,64\nb,1,3,128\nc,2,4,64\n")
    commands = {
        "import assay": ["-c", "import assay"],
        "assay --help": ["-m", "assay", "--help"],
        "assay plan": ["-m", "assay", "plan", str(buffers)],
    }
    numpy = cpu(["-c", "import numpy"], tmp_path / "cache")
    ratios = {name: cpu(command, tmp_path / "cache") / numpy for name, command in commands.items()}
    print({name: f"{ratio:.2f} of {numpy:.3f} s" for name, ratio in ratios.items()})
    assert {name: ratio for name, ratio in ratios.items() if ratio > MOST[name]} == {}
