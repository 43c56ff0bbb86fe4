"""Graph functions as text: printing then parsing is the identity, what is read means what it says (R4, R5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.builder.prelude import prelude
from assay.semantics.dtypes import BOOL, FLOAT32, dtype
from assay.semantics.graph import Expr, call, constant, function, let, var
from assay.semantics.module import Module
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.text.module_text import parse, show
from assay.semantics.text.relax.ops import WRITERS, to_relax
from assay.semantics.types import TensorType
from assay.verify.strategies.graphs import Maker
from tests.lower import small_programs
from tests.lower.anf import shared_programs
from tests.scale import FEW

pytestmark = [pytest.mark.row("R4"), pytest.mark.row("R5")]
DEEP = FEW
F = TensorType((2, 3), FLOAT32)
V = TensorType((2,), FLOAT32)
B = TensorType((), BOOL)


def identity(module: Module) -> str:
    """The text of a module, which is read back as an equal module and printed again as the same text."""
    text = show(module)
    back = parse(text, "printed.py")
    assert first_difference(module, back) is None
    assert show(back) == text
    return text


def body(*lines: str, params: str = 'x: R.Tensor((2, 3), "float32")', result: str = "", flags: str = "") -> Module:
    """A module of one function with these lines."""
    arrow = f" -> {result}" if result else ""
    text = ["@I.ir_module", "class Module:", f"    @R.function{flags}", f"    def main({params}){arrow}:"]
    return parse("\n".join([*text, *(f"        {line}" for line in lines)]) + "\n", "m.py")


def main_of(expr: Expr, *params: g.Var) -> Module:
    return Module({"main": function(params, expr)})


# --- identity -----------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_print_then_parse_is_the_identity(data: st.DataObject) -> None:
    identity(Maker(lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0).module())


@pytest.mark.parametrize("make", [shared_programs.program, small_programs.program])
def test_random_programs_are_read_back(make: Callable[[int], tuple[Module, object]]) -> None:
    for seed in range(60):
        identity(make(seed)[0])


def test_the_prelude_is_read_back() -> None:
    assert "class List:" in identity(prelude())


@pytest.mark.parametrize(
    ("op", "example"), [(o, e) for o in OPERATORS.values() for e in o.examples], ids=lambda v: getattr(v, "name", "")
)
def test_every_example_of_every_operator_is_read_back(op: Operator, example: Example) -> None:
    params = [var(f"p{i}", TensorType(shape, dtype(d))) for i, (shape, d) in enumerate(example.operands)]
    node = call(op, *params, **example.attrs)
    identity(main_of(node, *params))
    relax = to_relax(node)
    if relax is not None:
        assert op.name in WRITERS


def test_an_equality_that_sees_changes() -> None:
    """The planted fault: a printer that loses a digit, an operand or the sharing would be noticed."""
    x = var("x", F)
    y = call("exp", x)
    module = main_of(call("add", y, call("multiply", y, constant(np.float32(1.5)))), x)
    text = identity(module)
    for old, new in (("1.5", "1.25"), ("R.add", "R.subtract"), ("R.exp(x)", "R.log(x)")):
        assert old in text
        assert first_difference(module, parse(text.replace(old, new))) is not None
    apart = main_of(call("add", call("exp", x), call("multiply", call("exp", x), constant(np.float32(1.5)))), x)
    assert first_difference(module, apart) is not None
    identity(apart)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nested", "chained", "shared"])
def test_many_calls(kind: str) -> None:
    x = var("x", V)
    expr: Expr = x
    if kind == "nested":
        for _ in range(DEEP):
            expr = call("negative", expr)
    elif kind == "shared":
        for _ in range(DEEP // 2):
            expr = call("add", expr, expr)
    else:
        names = [x, *(var("v", V) for _ in range(DEEP))]
        expr = names[-1]
        for a, b in reversed(list(zip(names, names[1:], strict=False))):
            expr = let(b, call("negative", a), expr)
    module = main_of(expr, x)
    text = show(module)
    back = parse(text)
    assert first_difference(module, back) is None


@pytest.mark.parametrize("kind", ["if", "let", "function", "match", "tuple"])
def test_what_nests_deeply_is_written_flat(kind: str) -> None:
    c = var("c", B)
    x = var("x", V)
    expr: Expr = x
    for i in range(400):
        match kind:
            case "if":
                expr = g.if_(c, expr, x)
            case "let":
                v = var(f"v{i}", V)
                expr = let(v, expr, call("negative", v))
            case "function":
                p = var("p", V)
                expr = call(function([p], call("add", expr, p)), x)
            case "match":
                v = var("v", V)
                expr = g.match(g.tuple_of(expr, x), (g.Fields((g.Bind(v), g.Wildcard())), call("negative", v)))
            case _:
                expr = g.get(g.tuple_of(expr, x), 0)
    identity(main_of(expr, c, x))
