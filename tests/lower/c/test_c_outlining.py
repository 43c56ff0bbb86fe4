"""The entry in functions of bounded size: the same results, hooks and order, whatever the bound; none grows with the
model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay.lower.c import Interface, emit, outlining
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Trap
from assay.semantics.module import Step
from assay.verify.c.compiled import compile_c
from tests.interp.test_machine_branches import UP, WANTED, F, X, choosing, inputs
from tests.lower.c.test_c_branches import PLAIN, agree
from tests.lower.memory.planned import planned
from tests.models import mesh
from tests.verify.app.test_cli import assay


@pytest.mark.parametrize("interface", Interface)
def test_small_parts_do_what_one_function_does(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlining, "LARGEST", 2)
    monkeypatch.setattr(outlining, "NESTED", 1)
    npu, dsp = VirtualDevice("npu"), VirtualDevice("dsp")
    made = choosing()
    places = {0: npu, 3: npu, 4: npu, 5: dsp, 6: dsp, 7: dsp, 8: npu}
    steps = tuple(replace(s, device=places[i]) if isinstance(s, Step) else s for i, s in enumerate(made.program.steps))
    source = emit(made.with_(main=replace(made.program, steps=steps)), "m", interface=interface)
    assert source.source.count("_APART int m_part_") > 5
    agree(made, [inputs(c, d) for c, d in WANTED], source)


def test_every_step_is_traced_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlining, "LARGEST", 3)
    made = planned(
        [(UP, ["x"], ["t0"]), *((UP, [f"t{i}"], [f"t{i + 1}"]) for i in range(20)), (UP, ["t20"], ["y"])],
        {"x": F},
        ["y"],
    )
    compiled = compile_c(emit(made, "m"), reproducible=True, trace=True, flags=PLAIN)
    seen: list[int] = []
    assert (compiled.run({"x": X}, on_step=lambda i, look: seen.append(i))["y"] == X + 22).all()
    assert seen == list(range(22))


def test_a_part_that_fails_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a kernel of the user's that fails in the midst of the parts."""
    monkeypatch.setattr(outlining, "LARGEST", 2)
    made = planned(
        [(UP, ["x"], ["t0"]), *((UP, [f"t{i}"], [f"t{i + 1}"]) for i in range(6)), (UP, ["t6"], ["y"])], {"x": F}, ["y"]
    )
    source = emit(made, "m")
    wrong, count = re.subn(r"( M_STEP\(4\))", r" status = M_TRAP_ASSERT;\1", source.source)
    assert count == 1
    seen: list[int] = []
    compiled = compile_c(replace(source, source=wrong), reproducible=True, trace=True, flags=PLAIN)
    with pytest.raises(Trap):
        compiled.run({"x": X}, on_step=lambda i, look: seen.append(i))
    assert seen == [0, 1, 2, 3]


def test_no_function_grows_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(mesh(300), "mesh.onnx")
    assert assay(monkeypatch, "build", "mesh.onnx", "-o", "out") == 0
    bodies = re.findall(r"^[a-z].*?^}", Path("out/mesh.c").read_text(), re.MULTILINE | re.DOTALL)
    steps = [body.count("/* step ") for body in bodies]
    assert sum(steps) > 100 and max(steps) <= outlining.LARGEST


def test_the_mesh_is_the_one_that_is_meant() -> None:
    graph = mesh(30).graph
    read = {n for node in graph.node for n in node.input}
    assert len(graph.node) == 30 and all(node.output[0] in read for node in graph.node[:-1])
    assert np.mean([sum(node.output[0] in n.input for n in graph.node) for node in graph.node[:-1]]) > 1.5
