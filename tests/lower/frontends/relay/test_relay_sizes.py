"""Sizes that a Relay text leaves open: each is its own, and what Relay checks when it runs is checked (row R26)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.lower.frontends import stretching
from assay.lower.frontends.relay import parse_relay
from assay.lower.frontends.relay.infer import TypeInference
from assay.lower.frontends.relay.reader import TokenReader
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph.nodes import Let, MatchCast
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, symbols
from assay.semantics.walk import post_order
from assay.verify.anf import check_anf

pytestmark = pytest.mark.row("R26")

F = np.float32


def ones(*shape: int) -> Any:
    return np.ones(shape, F)


def result(text: str, **inputs: Any) -> Any:
    """The results of `main`, and those of its A-normal form, which are the same."""
    module = parse_relay(text)
    found = run(module, inputs)
    normal = to_anf(module)
    assert check_anf(module, normal).holds
    again = run(normal, inputs)
    assert repr(again) == repr(found)
    return found["output_0"]


ADD = "def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) { add(%x, %y) }"


def test_each_unknown_size_is_a_symbol_of_its_own() -> None:
    x, y = parse_relay(ADD).main.params
    assert [s.name for s in (*symbols(x.type), *symbols(y.type))] == ["x_0", "y_0"]


@pytest.mark.parametrize(
    ("a", "b", "rows"), [(3, 3, 3), (1, 3, 3), (3, 1, 3), (1, 1, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0)]
)
def test_unknown_sizes_broadcast_as_the_run_shows(a: int, b: int, rows: int) -> None:
    assert result(ADD, x=ones(a, 4), y=ones(b, 4)).shape == (rows, 4)


@pytest.mark.parametrize(("a", "b"), [(2, 3), (3, 2), (0, 2), (2, 0)])
def test_unknown_sizes_that_do_not_fit_trap(a: int, b: int) -> None:
    with pytest.raises(Trap) as trapped:
        result(ADD, x=ones(a, 4), y=ones(b, 4))
    assert trapped.value.kind == "shape"
    assert ":1:" in str(trapped.value)


@pytest.mark.parametrize("b", [1, 5])
def test_an_unknown_size_beside_a_number_is_that_or_one(b: int) -> None:
    text = "def @main(%x: Tensor[(5), float32], %y: Tensor[(?), float32]) { multiply(%x, %y) }"
    module = parse_relay(text)
    of = module.main.result_type
    assert isinstance(of, TensorType) and of.shape == (5,)
    assert result(text, x=ones(5), y=ones(b)).shape == (5,)
    with pytest.raises(Trap):
        result(text, x=ones(5), y=ones(4))


def test_one_name_used_twice_has_one_size_and_nothing_is_checked() -> None:
    main = parse_relay("def @main(%x: Tensor[(?), float32]) { add(%x, nn.relu(%x)) }").main
    assert not any(isinstance(n, MatchCast) for n in post_order(main.body))


def test_many_unknown_sizes_stay_short() -> None:
    """Each sum gets a fresh size, so that types do not grow with the chain."""
    count = 40
    params = ", ".join(f"%x{i}: Tensor[(?), float32]" for i in range(count))
    text = f"def @main({params}) {{ {' + '.join(f'%x{i}' for i in range(count))} }}"
    module = parse_relay(text)
    assert max(len(str(n.type)) for n in post_order(module.main.body)) < 200
    sizes = [5 if i % 3 else 1 for i in range(count)]
    got = run(module, {f"x{i}": ones(n) for i, n in enumerate(sizes)})["output_0"]
    np.testing.assert_array_equal(got, np.full(5, count, F))


F_OPEN = """def @f(%n: int32, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  if (%n < 1) { zeros(shape=[0, 2], dtype="float32") } else { %x }
}
"""
CALL = '@f(%n, ones(shape=[3, 2], dtype="float32"))'


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (
            (
                f"%0 = {CALL}; %1 = (%0, %0); %2 = concatenate(%1); let %z = concatenate((%2, %0)); reshape(%z,"
                " newshape=[-1])"
            ),
            (18,),
        ),
        (f"let %b = {{ let %a = {CALL}; concatenate((%a, %a)) }}; reshape(%b, newshape=[2, -1])", (2, 6)),
        (f"let %b = {{ let %a = {CALL}; concatenate((%a, %a)) }}; add(%b, @g(%n))", (6, 2)),
        ("if (%n < 1) { @g(%n) } else { concatenate((@g(%n), @g(%n))) }", (12, 2)),
        ("strided_slice(@g(%n), begin=[1], end=[-1])", (4, 2)),
        ("split(@g(%n), indices_or_sections=3).1", (2, 2)),
        ("nn.dense(@g(%n), @g(%n))", (6, 6)),
        ("squeeze(strided_slice(@g(%n), begin=[0], end=[1]), axis=[0])", (2,)),
        ("nn.bias_add(@g(%n), reshape(strided_slice(@g(%n), begin=[0], end=[1]), newshape=[-1]))", (6, 2)),
        ("take(@g(%n), 99, axis=0)", (2,)),
    ],
)
def test_sizes_of_results_have_values_where_they_are_used(body: str, shape: tuple[int, ...]) -> None:
    text = f"{F_OPEN}def @g(%n: int32) {{ %0 = {CALL}; concatenate((%0, %0)) }}\ndef @main(%n: int32) {{ {body} }}"
    assert result(text, n=np.int32(1)).shape == shape


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("concatenate((%x, %y), axis=1)", ((2, 3), (2, 1)), ((2, 3), (3, 1))),
        ("nn.dense(%x, %y)", ((2, 3), (4, 3)), ((2, 3), (4, 2))),
        ("nn.dense(%x, %y, units=4)", ((2, 3), (4, 3)), ((2, 3), (5, 3))),
        ("reshape(%x, newshape=[-1, 4]) + reshape(%y, newshape=[1, 1])", ((2, 6), (1, 1)), ((3, 3), (1, 1))),
        ("slice_like(%x, %y)", ((3, 3), (2, 3)), ((3, 3), (4, 3))),
        ("squeeze(%x, axis=[0]) + squeeze(%y, axis=[1])", ((1, 3), (3, 1)), ((2, 3), (3, 1))),
        ("broadcast_to_like(%x, %y)", ((1, 3), (4, 3)), ((2, 3), (4, 3))),
        ("split(%x, indices_or_sections=2, axis=1).0 + %y", ((2, 4), (2, 2)), ((2, 3), (2, 2))),
        ("stack((%x, %y))", ((2, 3), (2, 3)), ((2, 3), (2, 2))),
    ],
)
def test_what_relay_checks_when_it_runs_is_checked(text: str, good: Any, bad: Any) -> None:
    whole = f"def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?, ?), float32]) {{ {text} }}"
    result(whole, x=ones(*good[0]), y=ones(*good[1]))
    with pytest.raises(Trap) as trapped:
        result(whole, x=ones(*bad[0]), y=ones(*bad[1]))
    assert trapped.value.kind == "shape"


def test_a_numbers_check_is_a_match_cast_and_a_known_one_is_none() -> None:
    open_ = parse_relay("def @main(%x: Tensor[(?), float32]) { let %y: Tensor[(3), float32] = nn.relu(%x); %y }").main
    known = parse_relay("def @main(%x: Tensor[(3), float32]) { let %y: Tensor[(?), float32] = nn.relu(%x); %y }").main
    assert isinstance(open_.body, Let) and isinstance(open_.body.value, MatchCast)
    assert isinstance(known.body, Let) and not isinstance(known.body.value, MatchCast)
    assert str(known.result_type) == "Tensor((3), float32)"
    with pytest.raises(Invalid) as wrong:
        parse_relay("def @main(%x: Tensor[(2), float32]) { let %y: Tensor[(3), float32] = nn.relu(%x); %y }")
    assert wrong.value.label == "let.C1"


def test_a_function_without_types_may_be_called_with_two_sizes() -> None:
    text = """def @main(%x: Tensor[(?, 2), float32], %y: Tensor[(?, 2), float32]) {
      let %double = fn (%a) { concatenate((%a, %a)) };
      concatenate((%double(%x), %double(%y)))
    }"""
    assert result(text, x=ones(2, 2), y=ones(1, 2)).shape == (6, 2)


def test_lists_of_tensors_have_the_sizes_of_names() -> None:
    text = "def @main(%x: Tensor[(?, 2), float32]) { @length(@map(fn (%a) { nn.relu(%a) }, Cons(%x, Cons(%x, Nil)))) }"
    assert result(text, x=ones(3, 2)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%l: List[Tensor[(?), float32]]) { %l }",
        "def @main(%l: ref(Tensor[(?), float32])) { %l }",
        "type Box { Box(Tensor[(?, 1), uint16]) } def @main(%b: Box) { %b }",
        f"{F_OPEN}def @main(%n: int32) {{ @hd(Cons(transpose({CALL}), Nil)) }}",
    ],
)
def test_a_size_that_no_run_could_ask_for_is_refused(text: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse_relay(text)
    assert refused.value.label == "relay.C7"


# --- planted faults ------------------------------------------------------------------------------------------------


def one_symbol_for_all(patch: pytest.MonkeyPatch) -> None:
    """Two `?` are taken for one size."""
    right, shared = TokenReader.dim, Symbol("n")

    def dim(self: TokenReader, name: str, closed: str) -> Any:
        return shared if isinstance(found := right(self, name, closed), Symbol) else found

    patch.setattr(TokenReader, "dim", dim)


def first_is_all(patch: pytest.MonkeyPatch) -> None:
    """The first unknown size is taken for the common one, though it may be 1."""
    patch.setattr(stretching, "meeting", lambda sizes: next((d for d in sizes if not isinstance(d, int)), sizes[0]))


def never_repeated(patch: pytest.MonkeyPatch) -> None:
    """An unknown size is never 1."""
    patch.setattr(stretching, "stretched", lambda b, x, shape, span: stretching.claimed(b, x, shape, span))


def uses_are_one(patch: pytest.MonkeyPatch) -> None:
    """A name whose type is found has the size of its first use."""
    patch.setattr(TypeInference, "meet", lambda self, a, b: None)


TWO_USES = """def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  let %same = fn (%a) { nn.relu(%a) };
  add(%same(%x), %same(%y))
}"""


@pytest.mark.parametrize(
    ("fault", "text"), [(one_symbol_for_all, ADD), (first_is_all, ADD), (never_repeated, ADD), (uses_are_one, TWO_USES)]
)
def test_a_wrong_treatment_of_unknown_sizes_is_caught(
    fault: Callable[[pytest.MonkeyPatch], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = {"x": ones(1, 4), "y": ones(3, 4)}
    assert result(text, **pair).shape == (3, 4)
    fault(monkeypatch)
    with pytest.raises((Invalid, Trap)):
        result(text, **pair)
