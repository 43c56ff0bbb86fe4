"""What all tests share: the Hypothesis profiles, the models that ship inside onnx, and what the C compiler has made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from hypothesis import settings

from assay.verify.app import answers
from assay.verify.c import tools
from tests import collecting
from tests.compiled_once import Level, keeping
from tests.published import CheckedJson
from tests.trees import nothing_collected

# A gate must say the same thing twice, and a shared machine is slow at times: no deadline, and the same examples in
# each run. `make campaign` looks for new ones.
settings.register_profile("gate", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.register_profile("campaign", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("gate")


@pytest.fixture(scope="session")
def light_models() -> dict[str, Path]:
    """The nine models of known architectures inside the onnx package, by name; weights are made by their nodes."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}


def pytest_configure(config: pytest.Config) -> None:
    collecting.keep_bytecode(config.rootpath / ".pytest_cache" / "bytecode")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    given = getattr(session.config, "workerinput", None)
    with nothing_collected():
        if given is not None:
            names = collecting.from_behind(given["workerid"], given["workercount"], session.config.args)
            collecting.import_from_behind(names)
        yield


level = Level()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    level.choose(item.path, campaign=item.config.getoption("hypothesis_profile", None) == "campaign")


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The C compiler runs once for one text, in all processes that run tests."""
    place = tmp_path_factory.getbasetemp()
    kept = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "compiled"
    kept.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "compiler", keeping(tools.compiler, kept, level))
        yield


checked_json = CheckedJson()


@pytest.fixture(scope="session", autouse=True)
def answers_checked() -> Iterator[None]:
    """Whatever a command writes as JSON is compared with the schema that is published."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "json", checked_json)
        yield


@pytest.fixture(autouse=True)
def answers_published() -> Iterator[None]:
    """No answer of this test was other than the schema says."""
    yield
    assert not checked_json.taken(), "an answer is not as specs/answers.schema.json says"
