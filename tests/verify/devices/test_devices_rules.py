"""Each rule of planned modules by a fault that breaks just it: what is said, of what, and where (specs/verify.md,
"devices")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assay.lower.devices import plan_devices
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import (
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    Let,
    Var,
    call,
    device_copy,
    function,
    on_device,
    var,
)
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.devices import broken_plans, names_devices
from assay.verify.devices.erase import original_of
from assay.verify.devices.places import misplaced_values
from tests.museum.faults import device_faults as programs
from tests.museum.faults.device_faults import CONFIG, ON_CPU, ON_GPU, T, program

FACTS = {
    "print": program("x: T", "R.print(x)", "return x", actions=True),
    "match_cast": program("x: T", f"y = R.match_cast(R.exp(x), {T})", "return y"),
    "nothing given": program("x: T", "R.print(x)", "return ()", actions=True),
    "function in a tuple": program(
        "x: T", "@R.function", f"def f(k: {T}) -> {T}:", "    return R.exp(k)", "t = (f, x)", "return t[0](x)"
    ),
    "match": program(
        "x: T",
        "l = L.item(R.exp(x))",
        "match l:",
        "    case L.item(z):",
        "        return z",
        "    case L.none():",
        "        return x",
        before=f"    @A.data\n    class L:\n        none = ()\n        item = ({T},)\n",
    ),
    "assert": program('c: R.Tensor((), "bool"), x: T', "R.assert_op(c, x)", "return R.exp(x)", actions=True),
    **{
        n: text for n, text in vars(programs).items() if n.isupper() and isinstance(text, str) and "I.ir_module" in text
    },
}


def elsewhere(module: Module) -> Iterator[tuple[Expr, Module]]:
    """Each node and variable of a planned module, with the module in which it alone is on the other device."""
    for name, d in module.definitions.items():
        if not isinstance(d, Function):
            continue
        whole: Expr = d
        nodes = list(post_order(whole, lambda n: () if is_opaque(n) else n.children))
        variables = list(dict.fromkeys(v for n in nodes for v in bound_by(n)))
        for moved in [*variables, *(n for n in nodes if not isinstance(n, (Var, GlobalVar, Constructor, ExternFunc)))]:
            to = ON_CPU if moved.device.place == ON_GPU.place else ON_GPU
            yield moved, module.with_(**{name: with_device(d, moved, to)})


def with_device(of: Function, moved: Expr, to: VirtualDevice) -> Function:
    """A function with one node or variable elsewhere."""
    new: dict[int, Expr] = {}
    here = replace(moved, device=to) if isinstance(moved, Var) else None

    def variable(v: Var) -> Var:
        return here if v is moved and here is not None else v

    for n in post_order(of):
        made = n.with_children([new[id(c)] for c in n.children])
        match made:
            case Var():
                made = variable(made)
            case Let():
                made = replace(made, var=variable(made.var))
            case Function():
                made = replace(made, params=tuple(map(variable, made.params)))
        new[id(n)] = replace(made, device=to) if n is moved and not isinstance(n, Var) else made
    found = new[id(of)]
    assert isinstance(found, Function)
    return found


@pytest.mark.row("V9", "V11")
@pytest.mark.parametrize("name", FACTS)
def test_nothing_is_elsewhere_alone(name: str) -> None:
    """Every value and every variable of a plan has a neighbour that tells where it must be."""
    source = parse(FACTS[name], "m.py")
    planned = plan_devices(source, CONFIG)
    assert broken_plans(source, planned, CONFIG) == []
    for moved, wrong in elsewhere(planned):
        assert [b for b in misplaced_values(wrong, CONFIG)], f"{moved!r} alone is elsewhere, and no rule is broken"


def count(module: Module) -> dict[str, int]:
    """How often each rule is broken, all single moves of a module together: by its name, and by which neighbours it is
    about."""
    found: dict[str, int] = {}
    for _, wrong in elsewhere(module):
        for b in misplaced_values(wrong, CONFIG):
            about = re.sub(r".*: (.*?): \w+:0.*and \w+:0.*", r"\1", b.detail)
            about = re.sub(r".*((operand|argument) \d|looks at|to where it is|primitive function).*", r"\1", about)
            found[f"{b.verdict}: {about}"] = found.get(f"{b.verdict}: {about}", 0) + 1
    return found


ENDS: dict[str, dict[str, int]] = {
    "print": {"let: variable _ and its value": 2, "host: looks at": 1},
    "match_cast": {"let: variable y and its value": 2, "match_cast: it and its operand": 2},
    "function in a tuple": {
        "let: variable f and its value": 4,
        "projection: the field and the tuple": 2,
        "let: variable t and its value": 2,
        "tuple: it and its field 0": 2,
        "tuple: it and its field 1": 2,
        "call: argument 0": 2,
        "call: the function's result and the call": 2,
    },
    "match": {
        "branch: it and a clause": 4,
        "match: z and what is matched": 1,
        "let: variable l and its value": 2,
        "tuple: it and its field 0": 2,
    },
    "assert": {"let: variable _ and its value": 2, "host: looks at": 2},
    "BRANCH": {
        "let: variable z and its value": 2,
        "host: looks at": 1,
        "branch: it and its first branch": 2,
        "branch: it and its second branch": 2,
    },
    "TUPLE": {
        "projection: the field and the tuple": 2,
        "let: variable t and its value": 2,
        "tuple: it and its field 0": 2,
        "tuple: it and its field 1": 2,
    },
    "CALL": {"call: argument 0": 2, "call: the function's result and the call": 2},
    "CLOSURE": {"let: variable f and its value": 4, "call: the function's result and the call": 2},
    "CELL": {
        "let: variable u and its value": 2,
        "reference: it and what is written": 2,
        "reference: what is read and the reference": 2,
        "let: variable r and its value": 2,
        "reference: it and its content": 2,
    },
    "DATA": {"let: variable l and its value": 2, "tuple: it and its field 0": 2},
    "PRIMITIVE": {
        "function: primitive function": 4,
        "call: argument 0": 2,
        "call: argument 1": 2,
        "call: the function's result and the call": 2,
    },
    "KERNEL": {},
}
"""Of each rule, how often a single move in a program breaks it: once by each of its two ends, where both can be
moved."""


@pytest.mark.row("V9")
@pytest.mark.parametrize("name", ENDS)
def test_each_rule_is_broken_from_both_ends(name: str) -> None:
    found = count(plan_devices(parse(FACTS[name], "m.py"), CONFIG))
    assert {k: found.get(k, 0) for k in ENDS[name]} == ENDS[name]


def test_operands_and_results() -> None:
    source = parse(programs.BRANCH, "m.py")
    found = count(plan_devices(source, CONFIG))
    assert found["operand: operand 0"] == 6 and found["idle copy: to where it is"] == 2
    assert found["function: what it is and its parts"] == 2 and found["let: it and its body"] == 2


# --- what the source says --------------------------------------------------------------------------------------------


def planned(text: str) -> tuple[Module, Module]:
    source = parse(text, "m.py")
    return source, plan_devices(source, CONFIG)


def said(source: Module, wrong: Module) -> list[str]:
    return [str(b) for b in broken_plans(source, wrong, CONFIG)]


def test_a_variable_stays_where_it_is_said_to_be() -> None:
    source, other = (parse(program(f'x: A.on(T, "{d}")', "return R.exp(x)"), "m.py") for d in ("cpu", "cuda"))
    wrong, *_ = said(source, plan_devices(other, CONFIG))
    assert wrong.startswith("annotation: variable x is said to be on cpu, but is on cuda:0")


def test_a_value_that_is_said_to_be_in_two_places_is_neither() -> None:
    """Two annotations of one value, of which neither says that there is a copy."""
    source = parse(
        program(
            "x: T",
            'return A.on_device(A.on_device(R.exp(x), "cpu"), "cuda", constrain_body=False, constrain_result=True)',
        ),
        "m.py",
    )
    right = plan_devices(source, CONFIG)
    assert said(source, right) == []
    both = parse(program("x: T", 'return A.on_device(A.on(R.exp(x), "cuda"), "cpu")'), "m.py")
    assert any("annotation: " in b and "is said to be on cuda and on cpu" in b for b in said(both, right))


def test_how_constants_are_stored_stays() -> None:
    source, right = planned(programs.BORDER)
    infos = {"w": ConstantInfo(128)}
    assert any("how constants are stored has changed" in b for b in said(source, replace(right, infos=infos)))


def test_an_instance_is_of_something() -> None:
    source, right = planned(programs.INSTANCES)
    name, of = next(
        (n, d) for n, d in right.definitions.items() if isinstance(d, Function) and "instance_of" in d.attrs
    )
    assert isinstance(of, Function)
    wrong = said(source, right.with_(**{name: replace(of, attrs={**of.attrs, "instance_of": "nothing"})}))
    assert any(b.startswith(("instance", "erasure")) for b in wrong)


def test_a_ring_of_instances_ends() -> None:
    source, right = planned(programs.INSTANCES)
    one, two = (n for n, d in right.definitions.items() if isinstance(d, Function) and "instance_of" in d.attrs)
    ring = {
        n: replace(d, attrs={**d.attrs, "instance_of": two if n == one else one})
        for n, d in right.definitions.items() if n in (one, two) and isinstance(d, Function)
    }  # fmt: skip
    wrong = right.with_(**ring)
    assert {original_of(wrong, one), original_of(wrong, two)} <= {one, two} and said(source, wrong)


def test_devices_are_named_by_annotations_copies_fields_and_tables() -> None:
    plain = parse(program("x: T", "return R.exp(x)"), "m.py")
    assert not names_devices(plain)
    x = var("x", TensorType((2,), FLOAT32))
    there = replace(x, device=ON_CPU)
    for body in (on_device(x, ON_CPU), device_copy(x), replace(call("exp", x), device=ON_CPU)):
        assert names_devices(Module({"main": function([x], body)}))
    assert names_devices(Module({"main": function([there], there)}))
    assert names_devices(replace(plain, infos={"w": ConstantInfo(device=ON_CPU)}))
    assert not names_devices(replace(plain, infos={"w": ConstantInfo(128)}))


def test_the_source_contradicts_itself() -> None:
    """A shape lives on the host, and is said to be elsewhere: no plan keeps that."""
    source = parse(program("x: T", 'return A.on_device(R.shape_of(x), "cuda")'), "m.py")
    plain = plan_devices(parse(programs.SHAPE.replace("R.exp(x)", "x"), "m.py"), CONFIG)
    assert any(
        b.startswith("contradiction: ondevice") and "is on cpu:0" in b and "on cuda" in b for b in said(source, plain)
    )
