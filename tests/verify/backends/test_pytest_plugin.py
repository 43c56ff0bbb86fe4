"""The pytest plugin, in sessions of pytest's own, as a package that uses it has them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay.verify.oracle.data import KINDS
from assay.verify.plugins import pytest_plugin
from tests.models import model
from tests.places import ROOT

BACKENDS = """
import os
import numpy as np

class Careless:  # leaves out the last term of each sum
    name = "careless"
    def prepare(self, subject, wanted):
        def run(inputs):
            m = inputs["x"][:, :-1] @ inputs["w"][:-1]
            return {n: m if n == "m" else np.maximum(m, 0) for n in wanted}
        return run

class Closed:  # shows its outputs and nothing else; its Relu gives 0 for NaN
    name = "closed"
    def prepare(self, subject, wanted):
        from assay.verify.backends import backend
        from assay.verify.backends.protocol import cannot
        if list(wanted) != subject.outputs:
            raise cannot("closed", "no intermediate tensors")
        run = backend("numpy").prepare(subject, wanted)
        return lambda inputs: {n: np.nan_to_num(v, posinf=np.inf, neginf=-np.inf) for n, v in run(inputs).items()}

class Dying:
    name = "dying"
    def prepare(self, subject, wanted):
        return lambda inputs: os.abort()
"""
TESTS = """
import numpy as np
import pytest
from assay.semantics.builder import Builder, tensor

def relu_of_product(rows="n"):
    b = Builder()
    with b.function("main", x=tensor(rows, 4), w=tensor(4, 3)) as f:
        b.result(b.nn.relu(b.matmul(f.x, f.w)))
    return b.module()

@pytest.mark.assay("integers", "random", seed=3)
def test_model(assay_backend):
    verdicts = assay_backend.check("model.onnx")
    assert list(verdicts) == ["integers", "random"]
    assert {v.outcome for v in verdicts.values()} == {"right"}

def test_module(assay_backend):
    from assay.verify.oracle.data import KINDS
    assert tuple(assay_backend.check(relu_of_product())) == KINDS

@pytest.mark.assay(dims={"n": 2})
def test_given(assay_backend):
    arrays = {"x": np.zeros((2, 4), np.float32), "w": np.ones((4, 3), np.float32)}
    assert list(assay_backend.check(relu_of_product(), arrays)) == ["given"]

def test_open(assay_backend):
    b = Builder()
    with b.function("main", x=tensor(4)) as f:
        b.result(b.floor(b.sum(f.x)))
    x = np.array([1e8, 0.5, -1e8, 0.25], np.float32)
    assay_backend.check(b.module(), {"x": x})

def test_silent(assay_backend):
    b = Builder()
    with b.function("main", x=tensor(2)) as f:
        b.result(b.nn.relu(f.x))
    (verdict,) = assay_backend.check(b.module(), {"x": np.array([np.nan, 1], np.float32)}).values()
    assert verdict.outcome == "open" and "nan.bounds" in verdict.detail

@pytest.mark.assay(sead=1)
def test_marker(assay_backend):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a model, tests, and backends that a distribution registers; Assay's own entry point beside
    them."""
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["m"]), onnx.helper.make_node("Relu", ["m"], ["y"])]
    f = np.float32
    onnx.save(model(nodes, {"x": (f, [2, 4]), "w": (f, [4, 3])}, {"y": (f, [2, 3])}), tmp_path / "model.onnx")
    (tmp_path / "planted.py").write_text(BACKENDS)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers -p no:cacheprovider\nfilterwarnings = error\n"
    )
    folder = tmp_path / "fake-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    rows = "".join(f"{name} = {place}\n" for name, place in plugins.items())
    own = "".join(f"{n.lower()} = planted:{n}\n" for n in ("Careless", "Closed", "Dying"))
    (folder / "entry_points.txt").write_text(f"[pytest11]\n{rows}[assay.backends]\n{own}")
    return tmp_path


def path_of(project: Path) -> str:
    return os.pathsep.join([str(project), str(ROOT / ".src"), *(p for p in sys.path if p)])


def session(project: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of one session of pytest."""
    env = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST")} | {"PYTHONPATH": path_of(project)}
    command = [sys.executable, "-m", "pytest", "-rA", "--basetemp", str(project / "tmp"), *options]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_right_backend_passes_what_is_open_is_told_what_is_not_installed_is_skipped(project: Path) -> None:
    (project / "tvm.py").write_text("raise ImportError('planted')")
    code, said = session(project, "--assay-backend", "closed", "--assay-backend", "tvm", "-k", "not marker")
    assert code == 0 and "4 passed, 6 skipped" in said, said
    assert "11 runs judged: 2 open, 8 right, 1 undecided" in said
    assert "nothing could be decided in test_it.py::test_open[closed]" in said
    assert "closed, given inputs: undecided (graph): " in said, "which is why it is skipped: nobody knows"
    assert "the backend tvm is not installed; pip install 'assay[tvm]'" in said


def test_a_wrong_backend_is_reported_and_the_command_makes_it_smaller(project: Path) -> None:
    names = [x for name in ("careless", "dying", "nobody") for x in ("--assay-backend", name)]
    code, said = session(project, *names, "-k", "model or marker")
    assert code == 1 and "2 failed" in said and "4 errors" in said, said
    assert "AssertionError: careless, integers inputs, seed 3" in said
    assert "the first operator that is wrong: MatMul, tensor m" in said
    assert re.search(r"m element \(\d, \d\) is \S+, allowed is \S+, \S+ ulp outside", said)
    assert "the process of backend dying died by signal SIGABRT" in said
    assert "no backend 'nobody'; there are " in said
    assert "the marker assay has no sead; it takes kinds of inputs, and seed, dims, seconds" in said
    line = next(found for found in re.findall(r"make it smaller: (.*)", said) if "careless" in found)
    words = shlex.split(line)
    assert words[:3] == ["assay", "reduce", str(project / "model.onnx")]
    environment = {**os.environ, "PYTHONPATH": path_of(project)}
    run = [sys.executable, "-m", "assay", *words[1:]]
    done = subprocess.run(run, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "2 operators, 0 attributes, 20 elements -> 1 operator, " in done.stdout, done.stderr
    assert (project / "reduced" / "test_careless_matmul.py").exists()


UNREAD = """
import pytest

def test_comparison():
    from assay.semantics.builder import Builder, tensor
    def program(name):
        b = Builder()
        with b.function("main", x=tensor(2)) as f:
            b.result(getattr(b.nn, name)(f.x))
        return b.module()
    assert program("relu") == program("gelu")

@pytest.mark.assay("integers")
@pytest.mark.parametrize("name", ["unknown.onnx", "unsupported.onnx", "broken.onnx", "absent.onnx", "text.py"])
def test_it(assay_backend, name):
    assay_backend.check(name)
"""


def test_what_cannot_be_imported_is_skipped_and_what_cannot_be_read_fails_each_with_one_line(project: Path) -> None:
    (project / "test_it.py").write_text(UNREAD)
    nodes = {"unknown": ("Foo", "my.ops"), "unsupported": ("RandomNormal", "")}
    for name, (op, domain) in nodes.items():
        node = onnx.helper.make_node(op, [], ["y"], domain=domain, **({"shape": [2]} if not domain else {}))
        made = model([node], {}, {"y": (np.float32, (2,))}, {}, 18)
        made.opset_import.append(onnx.helper.make_opsetid("my.ops", 1))
        onnx.save(made, project / f"{name}.onnx")
    (project / "broken.onnx").write_bytes(b"\0nonsense")
    (project / "text.py").write_text("class Nothing: pass\n")
    code, said = session(project, "--assay-backend", "closed")
    assert code == 1 and "4 failed, 2 skipped" in said, said
    for line in (
        "not judged: unknown.onnx: .*unknown operator Foo in domain my.ops, operator set 1 [onnx.C5]",
        "not judged: unsupported.onnx: .*[onnx.*]",
    ):
        pattern = re.escape(line).replace(r"\.\*", ".*")
        assert len(re.findall(rf"^SKIPPED .* {pattern}$", said, re.MULTILINE)) == 1, said
    for line in ("broken.onnx: not an ONNX model", "cannot read the model 'absent.onnx'", "text.py: no module: "):
        assert len(re.findall(rf"^{line}.*$", said, re.MULTILINE)) == 1, said
    assert "Traceback" not in said and "During handling" not in said and "backends/pytest_plugin.py" not in said
    # what two modules differ by is shown as their texts
    assert re.search(r"^E +-  +relu: .* = R.nn.relu\(x\)$", said, re.MULTILINE), said
    assert re.search(r"^E +\+  +gelu: .* = R.nn.gelu\(x\)$", said, re.MULTILINE), said


HEAVY = """
import sys

def test_nothing():
    loaded = {n.partition(".")[0] for n in sys.modules} & {"numpy", "onnx", "z3", "ml_dtypes", "rich"}
    assert not loaded
    ours = ["assay.verify", "assay.verify.plugins", "assay.verify.plugins.pytest_plugin"]
    assert [n for n in sys.modules if n.startswith("assay.")] == ours

def test_without_an_option(assay_backend):
    assert False
"""


def test_nothing_is_imported_before_it_is_used(project: Path) -> None:
    (project / "test_it.py").write_text(HEAVY)
    code, said = session(project)
    assert code == 0 and "1 passed, 1 skipped" in said, said
    assert "no backend to judge: give --assay-backend NAME" in said
    assert "runs judged" not in said


def test_kinds_may_stand_in_one_text_and_a_verdict_is_no_text(project: Path) -> None:
    (project / "test_it.py").write_text(KINDS_IN_A_TEXT)
    code, said = session(project, "--assay-backend", "numpy")
    assert code == 1 and "3 passed, 1 error" in said, said
    assert "no kind of data 'odd'; there are integers, random, " in said and "During handling" not in said
    assert "[oracle.C1]" in said


KINDS_IN_A_TEXT = """
import numpy as np
import pytest
from assay.semantics.builder import Builder, tensor
import assay

b = Builder()
with b.function("main", x=tensor(2)) as f:
    b.result(b.nn.relu(f.x))
MODULE = b.module()

@pytest.mark.assay("random,specials", "integers")
def test_kinds(assay_backend):
    assert sorted(assay_backend.check(MODULE)) == ["integers", "random", "specials"]

def test_text(assay_backend):
    verdicts = assay_backend.check(MODULE, {"x": np.ones(2, np.float32)})
    assert verdicts["given"].outcome == "right"
    with pytest.raises(TypeError, match="a verdict is no text: compare .outcome == 'right'"):
        verdicts["given"] == "right"

@pytest.mark.assay("random", "odd")
def test_odd(assay_backend):
    assay_backend.check(MODULE)

def test_judge(request):
    found = assay.judge(MODULE, "numpy", kinds="random, ties")
    assert {s.kind for s in found.samples} == {"random", "ties"}
    with pytest.raises(TypeError):
        found.verdicts[0] == "right"
    assert found.verdicts[0] == found.verdicts[0] and found.verdicts[0] is not None
"""


def test_the_marker_names_all_kinds() -> None:
    assert all(kind in pytest_plugin.MARKER for kind in KINDS)
