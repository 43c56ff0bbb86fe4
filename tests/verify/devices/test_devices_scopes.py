"""Scopes of tensor functions: what is derived of them, and every rejection of the check of instances (specs/verify.md,
"devices")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.module import Module
from assay.semantics.scalar import const
from assay.semantics.tensor import Alias, Buffer, Call as KernelCall, PrimFunc, Stmt, View, loops, program_order, store
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import rewrite
from assay.verify.devices.demands import scopes_inside
from assay.verify.devices.scopes_check import _call, _calls, check_scopes, differences
from tests.museum.faults import scope_faults


def buffers(*names_: str, scope: str = "") -> list[Buffer]:
    return [Buffer(n, (4,), FLOAT32, scope) for n in names_]


def test_scopes_are_those_of_views_and_of_what_is_called() -> None:
    """What a parameter leaves open, a view of it says, or a function to which it is handed, or one that that calls."""
    a, out = buffers("a", "out")
    (inside,) = buffers("inside", scope="A")
    view = View(inside, a, const(0), (const(1),))
    by_view = PrimFunc("by_view", (a, out), 1, Alias(view, loops("i", (4,), lambda i: store(out, i, inside[i]))))
    (c,), (result,) = buffers("c", scope="B"), buffers("result", scope="C")
    said_ = PrimFunc("said", (c, result), 1, loops("i", (4,), lambda i: store(result, i, c[i])))
    p, q = buffers("p", "q")
    handing = PrimFunc("handing", (p, q), 1, KernelCall("said", (p, q)))
    r, s = buffers("r", "s")
    above = PrimFunc("above", (r, s), 1, KernelCall("handing", (r, s)))
    t, u = buffers("t", "u")
    outside = PrimFunc("outside", (t, u), 1, KernelCall("unknown", (t, u), extern=True))
    kernels = {k.name: k for k in (above, handing, said_, by_view, outside)}
    assert scopes_inside(kernels) == {
        "above": ["B", "C"], "handing": ["B", "C"], "said": ["B", "C"], "by_view": ["A", ""], "outside": ["", ""],
    }  # fmt: skip


def scoped() -> tuple[Module, Module]:
    source = scope_faults.program()
    return source, scope_faults.right(source)


def test_a_tensor_function_of_the_source_stays() -> None:
    source, right = scoped()
    wrong = check_scopes(source, right.with_(twice=replace(right.kernel("twice"), num_outputs=2)))
    assert "the tensor function twice is not what it was" in wrong.detail
    for damage in (
        lambda m: {n: d for n, d in m.definitions.items() if n != "double"},
        lambda m: {**m.definitions, "double": m.main},
    ):
        assert (
            "the tensor function double is not what it was"
            in check_scopes(source, replace(right, definitions=damage(right))).detail
        )
    assert check_scopes(source, right.with_(twice=replace(right.kernel("twice")))).holds, "an equal one is the same"


def test_a_new_tensor_function_is_an_instance_of_an_old_one() -> None:
    source, right = scoped()
    for attrs in ({}, {"instance_of": "nothing"}):
        more = replace(right.kernel("double"), name="more", attrs=attrs)
        assert (
            "more is new, and no instance of a tensor function that was there"
            in check_scopes(source, right.with_(more=more)).detail
        )


def instance(module: Module, change: Callable[[PrimFunc], PrimFunc], of: str = "double_global") -> Module:
    return module.with_(**{of: change(module.kernel(of))})


def test_a_scope_that_was_said_stays() -> None:
    """The second parameter of twice is said to be in the texture."""
    source, right = scoped()
    (name,) = [n for n in right.kernels if n == "twice_global_B"]
    old = right.kernel(name)
    moved = Mapper(buffers={b: replace(b, scope="C") for b in old.params if b.scope == "global.texture"})
    wrong = check_scopes(
        source,
        instance(right, lambda f: replace(f, params=tuple(map(moved.buffer, f.params)), body=moved.run(f.body)), name),
    )
    assert not wrong.holds and "b was in global.texture and is in C" in wrong.detail


def test_an_instance_differs_in_scopes_alone() -> None:
    source, right = scoped()
    kernel = right.kernel("double_global")
    a, *_, out = kernel.params
    dropped = replace(kernel, params=kernel.params[:-1])
    for change, what in (
        (lambda f: dropped, "other parts"),
        (lambda f: replace(f, params=(*f.params[:-1], a)), "have become"),
        (lambda f: replace(f, attrs={**f.attrs, "more": 1}), "other parts"),
        (lambda f: replace(f, body=f.body.body), "has become For"),  # type: ignore[attr-defined]
        (lambda f: replace(f, num_outputs=7), "1 has become 7"),
    ):
        wrong = check_scopes(source, instance(right, change))
        assert not wrong.holds and "double_global, an instance of double" in wrong.detail and what in wrong.detail, (
            wrong.detail
        )


def test_what_is_called_is_an_instance_of_what_was_called() -> None:
    source, right = scoped()

    def other(s: Stmt) -> Stmt:
        return replace(s, function="twice_A_global") if isinstance(s, KernelCall) else s

    wrong = check_scopes(source, instance(right, lambda f: replace(f, body=rewrite(f.body, other)), "twice_A_global"))
    assert not wrong.holds and "it calls twice_A_global, not an instance of double" in wrong.detail

    def gone(s: Stmt) -> Stmt:
        return replace(s, function="nothing") if isinstance(s, KernelCall) else s

    wrong = check_scopes(source, instance(right, lambda f: replace(f, body=rewrite(f.body, gone)), "twice_A_global"))
    assert not wrong.holds and "it calls nothing" in wrong.detail


def test_a_function_that_is_no_tensor_function_is_no_instance() -> None:
    source, right = scoped()
    assert next(differences(right.kernel("double"), right.main, source, right)) == "it is no tensor function"


def test_what_is_called_is_there() -> None:
    source, right = scoped()
    wrong = replace(right, definitions={n: d for n, d in right.definitions.items() if n != "double_A_global"})
    found = list(differences(source.kernel("twice"), wrong.kernel("twice_A_global"), source, wrong))
    assert "there is no tensor function double_A_global" in found


def test_a_device_copy_takes_any_scope() -> None:
    """It is there to bring a value from one scope into another; nothing else is."""
    source, right = scoped()
    name = "twice_A_global"
    other = right.with_(main=in_global(right.main))
    assert "what it is given in global" in check_scopes(source, other).detail
    copying = other.with_(
        **{name: replace(right.kernel(name), attrs={**right.kernel(name).attrs, "operator": "device_copy"})}
    )
    assert "what it is given in global" not in check_scopes(source, copying).detail


def in_global(main: Function) -> Function:
    """All operands of the first call are in the main memory."""
    root: Expr = main
    found = rewrite(
        root,
        lambda n: (
            replace(n, args=tuple(replace(a, device=replace(a.device, scope="global")) for a in n.args))
            if isinstance(n, CallTIR) and n.func == "twice_A_global"
            else n
        ),
    )
    assert isinstance(found, Function)
    return found


def test_an_open_scope_inside_is_found_however_deep() -> None:
    """main calls twice_A_global, which calls a function with a buffer in an open scope."""
    source, right = scoped()
    old = right.kernel("double_A_global")
    flat = next(s.view.buffer for s in program_order(old.body) if isinstance(s, Alias))
    made = replace(old, body=Mapper(buffers={flat: replace(flat, scope="")}).run(old.body))
    assert next(_call(next(_calls(right))[1], right), None) is None
    said = list(_call(next(_calls(right))[1], right.with_(double_A_global=made)))
    assert said == ["flat of double_A_global is in an open scope"]
