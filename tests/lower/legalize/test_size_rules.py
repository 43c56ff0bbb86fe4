"""Kernels of symbolic sizes trap at the sizes that their operator refuses, and at no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.lower.legalize import legalize
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.scalar import Var
from assay.semantics.types import TensorType

N = Var("n")
USES: list[tuple[str, dict[str, Any], tuple[tuple[Any, ...], ...]]] = [
    ("nn.conv1d", {"padding": (0, 1)}, ((1, 2, N), (3, 2, 4))),
    ("nn.conv1d", {"dilation": (2,), "strides": (2,)}, ((0, 2, N), (3, 2, 2))),
    ("nn.max_pool1d", {"pool_size": (3,), "strides": (2,)}, ((1, 2, N),)),
    ("nn.max_pool1d", {"pool_size": (3,), "padding": (1, 1), "ceil_mode": True}, ((1, 2, N),)),
    ("nn.avg_pool1d", {"pool_size": (2,), "padding": (1, 1)}, ((1, 2, N),)),
    ("max", {"axis": (1,)}, ((2, N),)),
    ("max", {}, ((N,),)),
    ("min", {"axis": (0,)}, ((N, 0),)),
    ("topk", {"k": 3}, ((2, N),)),
    ("topk", {"k": N, "axis": 0}, ((2, N),)),
]


@pytest.mark.parametrize(("name", "attrs", "shapes"), USES)
def test_a_kernel_traps_where_its_operator_does(
    name: str, attrs: dict[str, Any], shapes: tuple[tuple[Any, ...], ...]
) -> None:
    params = [var(f"x{k}", TensorType(s, FLOAT32)) for k, s in enumerate(shapes)]
    module = legalize(Module({"main": function(params, call(name, *params, **attrs))}))
    (kernel,) = module.kernels.values()
    op, said = operator(name), set()

    def outcome(run: Callable[[], object]) -> str:
        try:
            run()
        except Trap as trap:
            return trap.kind
        except Invalid as wrong:  # there is no memory for a result with a dim below 0
            return "shape" if wrong.label == "argument.C5" else str(wrong)
        return ""

    for n in range(8):
        given = [np.ones([n if d is N else d for d in s], np.float32) for s in shapes]
        sizes = op.check_attrs({k: n if v is N else v for k, v in attrs.items()})
        scalars = [n for _ in kernel.scalars]
        wanted = outcome(partial(op.value, sizes, *given))
        found = [outcome(partial(run, kernel, given, scalars=scalars)) for run in (vector.run, tensor.run)]
        assert found == [wanted, wanted], (n, wanted, found)
        said.add(wanted)
    assert said == {"", "shape"}, "at some sizes, and not at others"


def test_numbers_need_no_assertion() -> None:
    x = var("x", TensorType((1, 2, 5), FLOAT32))
    module = legalize(Module({"main": function([x], call("nn.max_pool1d", x, pool_size=(3,)))}))
    (kernel,) = module.kernels.values()
    assert "assert" not in repr(kernel).lower()
