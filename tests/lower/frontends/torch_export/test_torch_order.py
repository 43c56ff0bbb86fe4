"""Equal elements in PyTorch's orders: any of them may come first, unless the sort is stable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.interp.graph import run
from assay.semantics.module import Module
from assay.verify.oracle import Oracle

pytestmark = pytest.mark.peer

X = np.array([[3, 1, 3, 1, 3, 1, 0], [2, 2, 2, 2, 2, 1, 7]], np.float32)
LAST = {
    "topk": [[4, 2, 0], [6, 4, 3]],
    "smallest": [[6, 5, 3], [5, 4, 3]],
    "unsorted": [[0, 4, 2], [4, 6, 3]],
    "sort": [[6, 5, 3, 1, 4, 2, 0], [5, 4, 3, 2, 1, 0, 6]],
    "kthvalue": [[5], [4]],
    "median": [[5], [4]],
}
"""The places in an order that is not the first, where any is right."""
STABLE = {"stable": LAST["sort"], "argmax": [[2], [6]]}
"""The same, where the first is to come first."""


def orders() -> dict[str, Callable[[Any], Any]]:
    """Functions that give places alone."""
    torch = pytest.importorskip("torch")
    return {
        "topk": lambda x: torch.topk(x, 3)[1],
        "smallest": lambda x: torch.topk(x, 3, largest=False)[1],
        "unsorted": lambda x: torch.topk(x, 3, sorted=False)[1],
        "sort": lambda x: torch.argsort(x, 1),
        "kthvalue": lambda x: torch.kthvalue(x, 3, 1, keepdim=True)[1],
        "median": lambda x: torch.median(x, 1, keepdim=True)[1],
        "stable": lambda x: torch.sort(x, dim=1, stable=True)[1],
        "argmax": lambda x: torch.argmax(x, 1, keepdim=True),
    }


@pytest.mark.parametrize("name", [*LAST, *STABLE])
def test_another_order_of_equal_elements_is_wrong_only_of_a_stable_sort(name: str) -> None:
    torch, order = pytest.importorskip("torch"), orders()[name]

    class Order(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return order(x)

    exported = torch.export.export(Order(), (torch.from_numpy(X),))
    theirs = assay.judge(exported, ["torch:eager"], {"x": X}).verdicts[0]
    assert theirs.outcome in ("right", *(("open",) if name in LAST else ())), theirs
    module, last = assay.load(exported), np.array({**LAST, **STABLE}[name])
    assert said(module, last) == ("wrong" if name in STABLE else "open")
    assert said(module, order(torch.from_numpy(X)).numpy()) in ("right", "open")
    last[1, 0] = 5 if last[1, 0] == 6 else 6
    assert said(module, last) == "wrong", "7 for another element, or 1 for it"


def said(module: Module, places: Any) -> str:
    """The verdict on these places."""
    oracle = Oracle(module)
    (name,) = run(module, {"x": X})
    return oracle.judge(oracle.expected({"x": X}), {name: places}).outcome
