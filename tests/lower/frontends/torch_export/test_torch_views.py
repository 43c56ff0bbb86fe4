"""Results that are a part of their operand's memory, as PyTorch itself says which are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.lower.frontends.torch_export.operators import RULES
from assay.lower.frontends.torch_export.operators.views import ViewRule
from assay.semantics.errors import Unsupported

pytestmark = pytest.mark.peer

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def written() -> dict[str, tuple[Callable[[Any], Any], str]]:
    """What is written to, of a tensor that is none of the inputs; and why that is refused, if it is."""
    torch = pytest.importorskip("torch")
    return {
        "a diagonal": (lambda y: y.diagonal(), ""),
        "a diagonal below, of the axes exchanged": (lambda y: y.diagonal(-1, 1, 0), ""),
        "windows side by side": (lambda y: y.unfold(1, 2, 2), ""),
        "windows that overlap": (lambda y: y.unfold(1, 3, 1), "windows that overlap"),
        "strides of what is transposed": (lambda y: y.t().as_strided((2, 2), (4, 1)), ""),
        "strides of a part": (lambda y: y[1:, 2:].as_strided((2,), (5,)), ""),
        "strides that overlap": (lambda y: y.as_strided((3, 2), (1, 1)), "elements that overlap"),
        "strides of what may be a copy": (lambda y: y.t().reshape(-1).as_strided((3,), (2,), 1), "view of this kind"),
        "another shape of what lies in order": (lambda y: y.reshape(2, 6).flatten()[3:5], ""),
        "another shape of a part": (lambda y: y[:, :2].reshape(-1), "view of this kind"),
        "itself in order": (lambda y: y.contiguous(), ""),
        "itself in its dtype": (lambda y: y.float(), ""),
        "a copy in its dtype": (lambda y: y.to(torch.float32, copy=True), "view of this kind"),
        "another dtype": (lambda y: y.double(), ""),
        "chunks": (lambda y: y.unsafe_chunk(2, 1)[1], ""),
        "what is not dropped": (lambda y: torch.nn.functional.dropout(y, 0.5, False), ""),
        "itself": (lambda y: +y, ""),
        "axes exchanged by letters": (lambda y: torch.einsum("ij->ji", y), "view of this kind"),
    }


NAMES = (
    "a diagonal", "a diagonal below, of the axes exchanged", "windows side by side", "windows that overlap",
    "strides of what is transposed", "strides of a part", "strides that overlap", "strides of what may be a copy",
    "another shape of what lies in order", "another shape of a part", "itself in order", "itself in its dtype",
    "a copy in its dtype", "another dtype", "chunks", "what is not dropped", "itself", "axes exchanged by letters",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_to_a_view_is_written_to_the_whole(name: str) -> None:
    torch = pytest.importorskip("torch")
    view, refused = written()[name]

    class Writes(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            y = x.clone()
            view(y).mul_(-2)
            return y, view(y).sum()

    program = torch.export.export(Writes(), (torch.from_numpy(X),))
    if refused:
        with pytest.raises(Unsupported, match=refused):
            assay.load(program)
        return
    for ours, theirs in zip(assay.run(program, {"x": X}).values(), Writes()(torch.from_numpy(X)), strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())


def test_every_operator_whose_result_pytorch_calls_a_view_is_one() -> None:
    torch = pytest.importorskip("torch")
    views = {
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
        and any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    }
    ours = RULES["torch.ops.aten"]
    assert "transpose" in views
    assert not [name for name in sorted(views & ours.keys()) if not isinstance(ours[name], ViewRule)]


def test_memory_that_several_buffers_lie_in_is_not_written() -> None:
    """It may be read; and one tensor under two names may be written."""
    torch = pytest.importorskip("torch")

    class Shares(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, write: bool, part: bool) -> None:
            super().__init__()
            self.write = write
            self.register_buffer("a", torch.arange(6.0))
            self.register_buffer("v", self.a[2:4] if part else self.a)

        def forward(self, x: Any) -> Any:
            if self.write:
                self.v.add_(x)
            return self.a * 1 + self.v.sum()

    for write, part in ((False, True), (True, False), (True, True)):
        program = torch.export.export(Shares(write, part), (torch.ones(()),))
        if write and part:
            with pytest.raises(Unsupported, match="a write to memory that a lies in too"):
                assay.load(program)
            continue
        ours = list(assay.run(program, {"x": np.ones((), np.float32)}).values())[0]
        np.testing.assert_array_equal(ours, program.module()(torch.ones(())).numpy())
