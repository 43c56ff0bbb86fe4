"""Programs that are read in PyTorch's core operators, and what is said where that does not help."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import assay
from assay.semantics.errors import Unsupported

pytestmark = pytest.mark.peer


def exported(function: Any, *args: Any) -> Any:
    """A function as an exported program."""
    torch = pytest.importorskip("torch")

    class Called(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Called(), args, strict=False)


def test_results_have_the_names_of_the_program() -> None:
    torch = pytest.importorskip("torch")
    x, i = torch.arange(12.0).view(4, 3), torch.tensor([[1, 0, 2]])
    program = exported(lambda x, i: torch.take_along_dim(x, i, 0), x, i)
    given = assay.run(program, {"inputs_0": x.numpy(), "inputs_1": i.numpy()})
    assert list(given) == ["take_along_dim"]
    np.testing.assert_array_equal(given["take_along_dim"], torch.take_along_dim(x, i, 0).numpy())
    (verdict,) = assay.judge(program, ["torch:eager"], {}).verdicts
    assert verdict.outcome == "right", verdict


def test_an_operator_that_stays_is_named_and_no_hint_is_given_again() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(Unsupported, match="linalg_eigh") as wrong:
        assay.load(exported(torch.linalg.eigh, torch.eye(3)))
    assert "run_decompositions()" not in wrong.value.message


def test_a_size_or_an_assertion_may_not_hang_on_what_was_in_memory() -> None:
    torch = pytest.importorskip("torch")

    def cut(x: Any) -> Any:
        n = torch.empty(2, dtype=torch.int64)[0].item()
        torch._check(n >= 0)
        torch._check(n < 3)
        return x[:n]

    def branch(x: Any) -> Any:
        unset = torch.empty(3)
        return torch.cond(x.sum() > 0, lambda x: x + unset, lambda x: x - 1, (x,))

    for function in (cut, branch):
        with pytest.raises(Unsupported, match="whatever was in memory"):
            assay.load(exported(function, torch.ones(3)))


def test_an_inverse_after_decomposition_is_refused_by_the_name_of_its_operator() -> None:
    """What orders the effects of a check is an input of the program, and an output."""
    torch = pytest.importorskip("torch")
    with pytest.raises(Unsupported, match="operator aten.linalg_inv_ex.default is not handled"):
        assay.load(exported(torch.linalg.inv, torch.eye(3)).run_decompositions())


def test_what_pytorch_cannot_decompose_or_save_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    def fails(program: Any) -> Any:
        raise AssertionError("as its own decompositions do for some sizes")

    values = exported(torch.linalg.inv, torch.eye(3))
    with monkeypatch.context() as patched:
        patched.setattr(type(values), "run_decompositions", fails)
        with pytest.raises(Unsupported, match=r"linalg_inv.*run_decompositions\(\) fails: AssertionError"):
            assay.load(values)
    loop = torch.ops.higher_order.while_loop
    closed = exported(
        lambda x, w: loop(lambda x: x.abs().sum() < 50, lambda x: (x @ w + x,), (x,), ()),
        torch.ones(3), torch.ones(3, 3),
    )  # fmt: skip
    with pytest.raises(Unsupported, match="reads from outside is to be one of its operands"):
        assay.load(closed)
