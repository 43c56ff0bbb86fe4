"""Memory scopes flow out of tensor functions and into them (rows V12, V13; specs/lower.md, "devices")."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp import graph, tensor, vector
from assay.lower.devices.scopes import infer_scopes, open_parameters, scope_instance, specialise, with_scopes
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor.calls import without_calls
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.verify.devices.scopes_check import check_scopes, differences
from tests.lower.devices.scope_programs import (
    DOUBLE,
    TAKES,
    TWICE,
    buffer,
    function,
    functions,
    main,
    placed,
    random_module,
)

NUMBERS = np.arange(4, dtype=np.float32)
COPY = "for i in range(4):\n    y[i] = x[i]"
VIEW = 'v = T.decl_buffer((4,), "float32", data=x.data, scope="{}")\n'


def values(module: Module, name: str) -> list[list[float]]:
    """What a function of two or three parameters writes, by the definition and by lanes."""
    func = module.kernel(name)
    given = [NUMBERS + k for k in range(len(func.inputs))]
    found = []
    for run in (tensor.run, vector.run):
        outputs = (
            run(func, given, functions=module.kernels)
            if run is tensor.run
            else run(without_calls(func, module.kernels), given)
        )
        found.append([float(x) for o in outputs for x in o])
    return found


@pytest.mark.row("V13")
def test_an_open_scope_is_not_the_main_memory() -> None:
    module = functions(DOUBLE, TWICE)
    check(module)
    text = show(module)
    assert structural_equal(module, parse(text)) and text.count('scope=""') == 5
    assert not structural_equal(module, parse(text.replace('scope=""', 'scope="global"')))
    assert not structural_equal(module, parse(text.replace(', scope=""', "")))
    mixed = functions(function("f", [buffer("x"), buffer("y", "A")], VIEW.format("global") + COPY))
    assert structural_equal(mixed, parse(show(mixed)))


@pytest.mark.peer
@pytest.mark.row("V13")
def test_tvm_has_no_open_scope() -> None:
    """What TVM reads and prints again says the main memory in the words that say nothing."""
    tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    source = show(functions(DOUBLE))
    source = source[source.index("@I.ir_module") :]
    assert 'scope=""' in source
    printed = tvm.script.from_source(source).script()
    assert "scope" not in printed
    assert {b.scope for b in parse(printed).kernel("double").params} == {"global"}


@pytest.mark.row("V12")
def test_scopes_flow_out() -> None:
    """Of views of views and of nested functions, however deep; in two places at once is an error."""
    viewed = function(
        "seen",
        [buffer("x"), buffer("y")],
        VIEW.format("") + 'w = T.decl_buffer((4,), "float32", data=v.data, scope="B")\n' + COPY,
    )
    handed = function("handed", [buffer("x"), buffer("y")], VIEW.format("") + "Module.takes(v.data, y.data)")
    module = functions(TAKES, viewed, handed, DOUBLE, TWICE)
    assert infer_scopes(module.kernels) == {
        "takes": ("A", ""), "seen": ("B", ""), "handed": ("A", ""), "double": ("", ""),
            "twice": ("", "global.texture", ""),
    }  # fmt: skip
    assert open_parameters(module.kernel("twice")) == (0, 2)
    both = function("both", [buffer("x"), buffer("y")], "Module.seen(x.data, y.data)\nModule.handed(x.data, y.data)")
    with pytest.raises(
        Invalid, match="x of both is handed to seen, which is in B, and is handed to handed, which is in A"
    ) as found:
        infer_scopes(functions(TAKES, viewed, handed, both).kernels)
    assert found.value.label == "scopes.C1" and found.value.where is not None and found.value.where.line == 23


def chain_of(count: int) -> Module:
    """Functions that each hand their parameters to the next one; the last says a scope."""
    texts = [function(f"f{k}", [buffer("x"), buffer("y")], f"Module.f{k + 1}(x.data, y.data)") for k in range(count)]
    return functions(*texts, function(f"f{count}", [buffer("x", "A"), buffer("y")], COPY))


@pytest.mark.row("V12", "V20")
def test_a_deep_chain_needs_no_stack() -> None:
    module = chain_of(1500)
    assert infer_scopes(module.kernels)["f0"] == ("A", "")
    name, made = scope_instance(module.kernels, "f0", {1: "B"})
    assert name == "f0_A_B" and len(made) == 2 * 1501
    assert [made[n].params[1].scope for n in ("f1500", "f1500_B")] == ["", "B"]


@pytest.mark.row("V13")
def test_scopes_flow_in() -> None:
    """Views of views, matches, regions, nested functions and an open allocation; nothing is left open."""
    module = functions(DOUBLE, TWICE)
    name, made = scope_instance(module.kernels, "twice", {0: "A", 2: "global"})
    after = replace(module, definitions=made)
    check(after)
    assert name == "twice_A_global" and sorted({*made} - {*module.definitions}) == ["double_A_global", name]
    assert after.kernel(name).attrs["instance_of"] == "twice"
    assert check_scopes(module, after).holds
    text = show(replace(module, definitions={name: made[name]}))
    assert 'scope=""' not in text and text.count('scope="A"') == 1  # the views have it from their source
    assert values(module, "twice") == values(after, name)
    assert scope_instance(made, "twice", {0: "A", 2: "global"})[1] == made  # the instances that are there serve


@pytest.mark.row("V13")
def test_an_open_allocation() -> None:
    """It is in the main memory, unless what it is handed to, or a view of it, says otherwise."""
    handed = function(
        "f",
        [buffer("x"), buffer("y")],
        't = T.alloc_buffer((4,), "float32", scope="")\nModule.double(x.data, t.data)\nModule.takes(t.data, y.data)',
    )
    module = functions(DOUBLE, TAKES, handed)
    name, made = scope_instance(module.kernels, "f", {0: "global", 1: "B"})
    assert [b.scope for b in made[name].allocations] == ["A"]
    assert {"double_global_A", "takes_B"} <= {*made}
    assert check_scopes(module, replace(module, definitions=made)).holds


@pytest.mark.row("V13")
def test_a_said_scope_can_move_with_all_that_names_the_memory() -> None:
    """Which is how a kernel gets the scopes of its operands."""
    body = (
        VIEW.format("global")
        + 'w = T.decl_buffer((2, 2), "float32", data=v.data)\n'
        + "for i in range(4):\n    y[i] = w[i // 2, i % 2]"
    )
    module = functions(function("f", [buffer("x", None), buffer("y", None)], body))
    made = with_scopes(module.kernel("f"), "g", {0: "global.texture"})
    assert "instance_of" not in made.attrs and made.name == "g"
    assert list(differences(module.kernel("f"), made, module, module, moves=True)) == []
    assert show(module.with_(g=made)).count("global.texture") == 1
    assert any("was in global" in d for d in differences(module.kernel("f"), made, module, module))
    nested = functions(
        function("g", [buffer("x", None), buffer("y", None)], COPY),
        function("f", [buffer("x", None), buffer("y", None)], "Module.g(x.data, y.data)"),
    )
    with pytest.raises(Invalid, match="no instance g_A") as found:
        with_scopes(nested.kernel("f"), "h", {0: "A"}, nested.kernels)
    assert found.value.label == "scopes.C5"
    name, all_ = scope_instance(nested.kernels, "f", {0: "A"})
    assert all_["g_A"].params[0].scope == "A" and nested.kernels["g"].params[0].scope == "global"
    assert structural_equal(
        with_scopes(nested.kernel("f"), name, {0: "A"}, all_), replace(all_[name], attrs=nested.kernel("f").attrs)
    )


@pytest.mark.row("V13")
def test_what_cannot_move_is_said() -> None:
    crossing = function("crossing", [buffer("x", None), buffer("y")], VIEW.format("A") + COPY)
    module = functions(TAKES, crossing, function("f", [buffer("x"), buffer("y")], "Module.takes(x.data, y.data)"))
    for name, scopes, label, words in (
        ("f", {0: "B"}, "scopes.C2", "x of f is in A by what is done with it"),
        ("crossing", {0: "B"}, "scopes.C2", "a view of it says another scope"),
        ("f", {5: "A"}, "scopes.C3", "no parameter number 5"),
        ("f", {1: "local"}, "scopes.C3", "does not outlast a call"),
    ):
        with pytest.raises(Invalid, match=words) as found:
            scope_instance(module.kernels, name, scopes)
        assert found.value.label == label
    pretender = function("f_A", [buffer("x", "A"), buffer("y", "A")], COPY).replace(
        '"num_outputs"', '"instance_of": "f", "num_outputs"'
    )
    with pytest.raises(Invalid, match="f_A says that it is an instance of f, and is not") as found:
        scope_instance(
            functions(
                TAKES, function("f", [buffer("x"), buffer("y")], "Module.takes(x.data, y.data)"), pretender
            ).kernels,
            "f",
            {1: "A"},
        )
    assert found.value.label == "scopes.C4"


@pytest.mark.row("V13")
def test_what_runs_with_open_scopes() -> None:
    """An open parameter takes what it is given. What crosses still traps, through an open name too."""
    module = functions(DOUBLE, TWICE)
    assert values(module, "twice")[0] == [1.0, 5.0, 9.0, 13.0] == values(module, "twice")[1]
    inner = function("inner", [buffer("x"), buffer("y")], VIEW.format("A") + COPY)
    outer = functions(inner, function("f", [buffer("x", "B"), buffer("y")], "Module.inner(x.data, y.data)"))
    values(outer, "inner")
    for run in (
        lambda: tensor.run(outer.kernel("f"), [NUMBERS], functions=outer.kernels),
        lambda: vector.run(without_calls(outer.kernel("f"), outer.kernels), [NUMBERS]),
    ):
        with pytest.raises(Trap) as found:
            run()
        assert found.value.kind == "wrong scope"


@pytest.mark.row("V12", "V13", "V16")
def test_calls_get_instances_by_signature() -> None:
    module = functions(DOUBLE, TWICE, main("u = twice(x, y)", "v = twice(u, y)", "w = double(v)", "z = double(w)", "z"))
    planned = placed(module, {"y": "global.texture", "w": "A", "z": "A"})
    after = specialise(planned)
    check(after)
    assert sorted({*after.kernels} - {*module.kernels}) == [
        "double_A",
        "double_global",
        "double_global_A",
        "twice_global",
    ]
    narrow = with_scopes(after.kernel("double_A"), "double_A", {})
    other = replace(narrow, params=(replace(narrow.params[0], shape=(5,)), narrow.params[1]))
    with pytest.raises(Invalid, match="double_A: x: Buffer"):  # a name has the type of the function that it names
        check(after.with_(double_A=other))
    evidence = check_scopes(planned, after)
    assert evidence.holds and "4 instances" in evidence.detail and "4 calls" in evidence.detail
    assert not check_scopes(planned, planned).holds
    assert specialise(after) is after and specialise(module) is module
    turned = replace(planned, definitions=dict(reversed(planned.definitions.items())))
    assert structural_equal(specialise(turned), after)
    given = {"x": NUMBERS, "y": NUMBERS + 1}
    assert [v.tolist() for v in graph.run(module, given).values()] == [
        v.tolist() for v in graph.run(after, given).values()
    ]


@pytest.mark.row("V12", "V13")
@pytest.mark.parametrize("seed", range(25))
def test_random_functions(seed: int) -> None:
    module = random_module(seed)
    try:
        told = infer_scopes(module.kernels)
    except Invalid as wrong:
        assert wrong.label == "scopes.C1"
        return
    rng = random.Random(seed)
    for name, scopes in told.items():
        given = {
            i: s or rng.choice(["global", "B"]) for i, s in enumerate(scopes) if not module.kernel(name).params[i].scope
        }
        made, all_ = scope_instance(module.kernels, name, given)
        after = module.with_(**all_)
        check(after)
        assert open_parameters(all_[made]) == ()
        evidence = check_scopes(module, after)
        assert evidence.holds, evidence.detail
        kernels = replace(after, definitions=after.kernels)
        assert structural_equal(kernels, parse(show(kernels)))
        assert outcome(module, name) == outcome(after, made)


def outcome(module: Module, name: str) -> object:
    try:
        return values(module, name)
    except Trap as trap:
        return trap.kind


@pytest.mark.row("V13")
def test_scopes_are_kept_in_a_store(tmp_path: Path) -> None:
    module = functions(DOUBLE, TWICE)
    path = tmp_path / "arrays"
    with path.open("wb") as file:
        text = encode(module, ArrayWriter(file))
    assert structural_equal(module, decode(text, ArrayReader(path)))
