"""ImageDecoder of ONNX: decoded at import, for the bytes that are said."""

from __future__ import annotations

import re
import struct
import sys
from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap, Unsupported
from tests.lower.frontends.onnx.onnx_own_cases import named
from tests.models import single


def bitmap() -> np.ndarray[Any, Any]:
    """A BMP of 1 x 2 pixels, written by hand: red, then (1, 2, 3)."""
    pixels = bytes([0, 0, 255, 3, 2, 1, 0, 0])
    header = struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    start = 14 + len(header)
    return np.frombuffer(b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + pixels, np.uint8)


def decoded(data: Any, constants: tuple[int, ...] = (0,), **attrs: Any) -> Any:
    return import_onnx(single("ImageDecoder", 20, [data], attrs, constants=constants), evaluate=graph.evaluate)


def test_a_stored_image() -> None:
    pytest.importorskip("PIL")
    for order, wanted in (("RGB", [255, 0, 0, 1, 2, 3]), ("BGR", [0, 0, 255, 3, 2, 1])):
        found = graph.run(decoded(bitmap(), pixel_format=order), {})["y0"]
        assert found.shape == (1, 2, 3) and found.dtype == np.uint8 and found.reshape(-1).tolist() == wanted
    found = graph.run(decoded(bitmap(), pixel_format="Grayscale"), {})["y0"]
    assert found.shape == (1, 2, 1) and found.reshape(-1).tolist() == [76, 2]


def test_onnx_cases() -> None:
    """Large images too are taken from inputs; the module asserts which one it was made for."""
    pytest.importorskip("PIL")
    cases = named("image_decoder")
    assert len(cases) >= 9
    for number, case in enumerate(cases):
        for inputs, outputs in case.data_sets or []:
            given = {case.model.graph.input[0].name: np.asarray(inputs[0])}
            module = import_onnx(case.model, evaluate=graph.evaluate, values=given)
            (found,) = graph.run(module, given).values()
            assert np.abs(found.astype(int) - np.asarray(outputs[0]).astype(int)).max() <= 1, case.name
            if number == 0:  # every module asserts it in one way
                with pytest.raises(Trap, match=r"assert_op.T1"):
                    graph.run(module, {n: v ^ np.uint8(1) for n, v in given.items()})


@pytest.mark.parametrize(
    ("data", "attrs", "label"),
    [
        (np.zeros(10, np.uint8), {}, "onnx.C12"),
        (bitmap()[:40], {}, "onnx.C12"),
        (bitmap(), {"pixel_format": "CMYK"}, "onnx.C12"),
        (bitmap()[None], {}, "onnx.C12"),
    ],
)
def test_invalid(data: Any, attrs: dict[str, Any], label: str) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(Invalid, match=re.escape(f"[{label}]")):
        decoded(data, **attrs)


def test_what_is_not_known_or_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(Unsupported, match=r"onnx.C13"):
        decoded(bitmap(), constants=())
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(Unsupported, match="not installed"):
        decoded(bitmap())
