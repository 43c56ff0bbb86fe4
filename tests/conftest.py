"""What all tests share: the Hypothesis profiles, and where the models that ship inside onnx are."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import settings

# A gate must say the same thing twice, and a shared machine is slow at times: no deadline, and the same examples in
# each run. `make campaign` looks for new ones.
settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("campaign", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("gate")


@pytest.fixture(scope="session")
def light_models() -> dict[str, Path]:
    """The nine models of known architectures inside the onnx package, by name; weights are made by their nodes."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}
