"""The line `compare`: faults in the C text, and inputs on which there is nothing to compare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from assay.lower.c import CSource, emit
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from tests.models import model, small_cnn
from tests.verify.app.test_check import failed, run, two_outputs


def test_wrong_loop_bound_in_c() -> None:
    def faulty(module: Module, name: str) -> CSource:
        source = emit(module, name)
        start = source.source.index("nn_conv2d")
        text = source.source[start:]
        # the innermost reduction loop of the first convolution stops one short
        bound = next(n for n in ("3", "2") if f" < {n};" in text)
        return replace(source, source=source.source[:start] + text.replace(f" < {bound};", f" < {int(bound) - 1};", 1))

    line = failed(run(small_cnn(), emitter=faulty))
    assert line.stage == "compare" and "nn_conv2d" in line.evidence.detail


def test_c_that_is_right_only_while_watched() -> None:
    """The text is compiled as its users compile it, too."""

    def faulty(module: Module, name: str) -> CSource:
        source = emit(module, name)
        out = source.outputs[0]
        spoil = f"#ifndef {source.macro}_TRACE\n    memset({out.name}, 0, {out.nbytes}u);\n#endif\n    return status;"
        head, tail = source.source.rsplit("return status;", 1)
        return replace(source, source=head + spoil + tail)

    line = failed(run(two_outputs(), emitter=faulty))
    assert line.stage == "compare" and "as its users compile it" in line.evidence.detail


def test_a_model_that_traps_by_itself_is_no_wrong_lowering() -> None:
    nodes = [onnx.helper.make_node("Gather", ["x", "i"], ["y"])]
    proto = model(nodes, {"x": (np.float32, [2, 3]), "i": (np.int64, [2])}, {"y": (np.float32, [2, 3])})
    given = {"i": np.array([0, 9])}
    with pytest.raises(Invalid, match="the model traps on these inputs"):
        run(proto, given=given)
