"""Every rejection of the check of fused tensor functions, by a fault that gets it (specs/verify.md, "fuse")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.fuse import fuse
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, UINT8
from assay.semantics.graph import CallTIR, Expr, Function, Let, call, call_tir, function, let, var
from assay.semantics.module import GROUP, Module
from assay.semantics.scalar import Cast, Expr as Scalar, Var as Symbol, apply, const, select
from assay.semantics.tensor import Buffer, Evaluate, For, PrimFunc, Stmt, Store, loops, seq, store
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify import fuse as checking
from assay.verify.fuse import check_fuse, check_group
from assay.verify.fuse.group_devices import misplaced_group
from assay.verify.kept import changed_beside
from assay.verify.trials.kernels import different
from tests.lower.fuse import fusing
from tests.lower.fuse.fusing import fused, group_of, only_group, x

pytestmark = pytest.mark.row("R23")
GPU, CPU = VirtualDevice("cuda", 0, "cuda", "global"), VirtualDevice("cpu", 0, "c", "global")


def chain() -> tuple[list[fusing.Var], Expr]:
    a = x("a", 3, 4)
    return [a], call("nn.relu", call("negative", call("exp", a)))


def made() -> tuple[Module, PrimFunc, Function]:
    after = fused(chain)[1]
    return after, only_group(after), group_of(after, only_group(after))


# --- what a group is -------------------------------------------------------------------------------------------------


def other_group(change: Callable[[Function], Function]) -> tuple[Module, PrimFunc]:
    after, kernel, group = made()
    return after.with_(**{kernel.attrs[GROUP]: change(group)}), kernel


def computing(group: Function) -> Function:
    """It binds something that is no call of a tensor function."""
    v = var("v", group.result_type)
    return group.with_children([let(v, call("exp", group.params[0]), v)])


def reading(group: Function) -> Function:
    """A call reads what nobody in it has made."""
    v = var("v", group.result_type)
    return group.with_children([let(v, call_tir("exp", [var("other", group.result_type)], group.result_type), v)])


def giving_the_first(group: Function) -> Function:
    root: Expr = group
    first = group.body.var  # type: ignore[attr-defined]
    last = group.body.body.body.var  # type: ignore[attr-defined]
    found = rewrite(root, lambda n: first if n is last else n)
    assert isinstance(found, Function)
    return found


def empty(group: Function) -> Function:
    return group.with_children([group.params[0]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (computing, "v of its group is no call on what is known there"),
        (reading, "v of its group is no call on what is known there"),
        (giving_the_first, "gives something else than the result of its last call"),
        (empty, "gives something else than the result of its last call"),
    ],
)
def test_a_group_is_calls_one_after_another(change: Callable[[Function], Function], said: str) -> None:
    module, kernel = other_group(change)
    found = check_group(kernel, module, 0)
    assert not found.holds and said in found.detail, found.detail


def test_a_tensor_function_has_a_group() -> None:
    after, kernel, _ = made()
    assert "no group" in check_group(replace(kernel, attrs={}), after, 0).detail
    assert (
        "the module has no function nothing" in check_group(replace(kernel, attrs={GROUP: "nothing"}), after, 0).detail
    )


def test_a_member_is_no_group_and_traps_never() -> None:
    after, kernel, _ = made()
    found = check_group(kernel, after.with_(exp=replace(after.kernel("exp"), attrs={GROUP: kernel.attrs[GROUP]})), 0)
    assert "exp cannot be in a group: it is one" in found.detail
    p, out = Buffer("p", (3, 4), FLOAT32), Buffer("out", (3, 4), FLOAT32)
    outside = PrimFunc("exp", (p, out), 1, loops("i j", (3, 4), lambda i, j: store(out, (i, j), p[i + 1, j])))
    assert "exp cannot be in a group: it may trap" in check_group(kernel, after.with_(exp=outside), 0).detail


def test_it_takes_and_gives_what_its_group_does() -> None:
    after, kernel, _ = made()
    a, out = kernel.params
    wide = Buffer("a", (3, 5), FLOAT32)
    whole = Buffer("a", (3, 4), INT32)
    for changed in (
        replace(kernel, params=(wide, out)),
        replace(kernel, params=(whole, out)),
        replace(kernel, num_outputs=2),
    ):
        found = check_group(changed, after, 0)
        assert (
            not found.holds
            and "it takes Tensor((3, " in found.detail
            and "its group Tensor((3, 4), float32)" in found.detail
        )


def test_a_cast_that_may_trap_is_no_calls_of_it() -> None:
    """To an integer: infinity and NaN have none. Between floats it is none of that."""
    after, kernel, _ = made()
    first = kernel.params[0][const(0), const(0)]
    for to, said in ((INT32, "a cast from float to integer"), (FLOAT32, "a statement Evaluate")):
        own = replace(kernel, body=seq(Evaluate(Cast(to, first)), kernel.body))
        found = check_group(own, after, 0)
        assert f"it has {said}, which no call of its group has" in found.detail


# --- sizes -----------------------------------------------------------------------------------------------------------


def of_any_size() -> Module:
    """relu(-a), fused, of a matrix of any size."""
    from_, to = (
        lane("negative", lambda v: apply("neg", v)),
        lane("nn_relu", lambda v: apply("max", v, const(0, FLOAT32))),
    )
    n = Symbol("n")
    a = var("a", TensorType((n, 4), FLOAT32))
    v, w = var("v", a.type), var("w", a.type)
    body = let(v, call_tir("negative", [a], a.type), let(w, call_tir("nn_relu", [v], a.type), w))
    return Module({"main": function([a], body), "negative": from_, "nn_relu": to})


def lane(name: str, of: Callable[[Scalar], Scalar]) -> PrimFunc:
    m = Symbol("m")
    p, out = Buffer("p", (m, 4), FLOAT32), Buffer("out", (m, 4), FLOAT32)
    kind = {"operator": name.replace("_", ".", 1) if name.startswith("nn") else name, "attrs": {}}
    return PrimFunc(name, (p, out), 1, loops("i j", (m, 4), lambda i, j: store(out, (i, j), of(p[i, j]))), kind)


def test_symbols_are_tried_at_two_sizes() -> None:
    """What is right where n is 2 is not believed of all."""
    before = of_any_size()
    after = fuse(before)
    right = check_fuse(before, after)
    assert right.holds and right.how == "proved" and "1 of them for all sizes" in right.detail
    kernel = only_group(after)
    outermost = kernel.body
    assert isinstance(outermost, For)
    few = replace(kernel, body=replace(outermost, extent=const(2)))
    found = check_group(few, after, 0)
    assert not found.holds and "it does not run" in found.detail and "the first is out[2, 0]" in found.detail


def flags() -> tuple[list[fusing.Var], Expr]:
    a, b = x("a", 6, of="bool"), x("b", 6, of="bool")
    return [a, b], call("logical_not", call("logical_and", a, b))


def test_flags_are_tried_with_both_values() -> None:
    before, after = fused(flags)
    assert check_fuse(before, after).how == "proved"
    kernel = only_group(after)
    for value in (const(True, "bool"), const(False, "bool")):
        constant = replace(
            kernel, body=rewrite(kernel.body, lambda s, v=value: replace(s, value=v) if isinstance(s, Store) else s)
        )
        assert "must be" in check_group(constant, after, 0).detail


# --- how much is done ------------------------------------------------------------------------------------------------


def test_what_is_large_is_run_on_one_kind_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    after, kernel, _ = made()
    run: list[str] = []

    def counted(*args: object) -> None:
        run.append(str(args[-1]))

    monkeypatch.setattr(checking, "_run", counted)
    for large, wanted in ((12, ["reals", "specials"]), (11, ["reals"])):
        monkeypatch.setattr(checking, "LARGE", large)
        run.clear()
        assert check_group(kernel, after, 0).holds and run == wanted


def test_how_many_are_proved_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two takes the stores that are left for both."""
    a, b = x("a", 3, 4), x("b", 3, 4)
    twice = fusing.tuple_of(call("nn.relu", call("exp", a)), call("negative", call("sqrt", b)))
    before, after = fused(lambda: ([a, b], twice))
    steps: list[tuple[int, int]] = []
    found = check_fuse(before, after, progress=lambda i, n: steps.append((i, n)))
    assert steps == [(0, 2), (1, 2), (2, 2)]
    assert found.how == "proved" and "2 fused kernels" in found.detail and "2 of them for every input" in found.detail
    stores = 3 * 12  # two calls, and what is fused of them
    for most, proved in ((2 * stores, 2), (2 * stores - 1, 1), (stores - 1, 0)):
        monkeypatch.setattr(checking, "MOST_OF_ALL", most)
        found = check_fuse(before, after)
        assert (
            found.holds
            and found.data["groups_proved"] == proved
            and found.how == ("proved" if proved == 2 else "tested")
        )
        assert ("for every input" in found.detail) == (proved > 0)
        with monkeypatch.context() as patch:
            patch.setattr(checking, "MANY", 1)
            assert check_fuse(before, after) == found, "side by side"


def test_what_is_run() -> None:
    """Small numbers; or numbers of all sizes, infinities and NaN among them. Sizes of symbols: two choices."""
    rng = np.random.default_rng(0)
    small, all_ = (checking._random((4000,), INT32, rng, data) for data in ("reals", "specials"))
    assert {*small.tolist()} == {*range(-9, 10)} and all_.min() < -(2**30) and all_.max() > 2**30
    assert {*checking._random((4000,), UINT8, rng, "reals").tolist()} == {*range(10)}
    assert (
        {*checking._random((99,), BOOL, rng, "reals").tolist()}
        == {*checking._random((99,), BOOL, rng, "specials").tolist()}
        == {True, False}
    )
    real, odd = (checking._random((4000,), FLOAT32, rng, data) for data in ("reals", "specials"))
    assert np.isfinite(real).all() and np.abs(real).max() > 20 and (np.abs(real) < 0.05).mean() > 0.02
    for there in (
        np.isnan(odd),
        np.isposinf(odd),
        np.isneginf(odd),
        np.signbit(odd) & (odd == 0),
        (odd == 0) & ~np.signbit(odd),
    ):
        assert 0.01 < there.mean() < 0.06
    n, m = Symbol("n"), Symbol("m")
    group = function([var("a", TensorType((n, m), FLOAT32)), x("b", 3)], x("b", 3))
    assert checking._sizes(group)[:3] == ({n: 2, m: 7}, {n: 7, m: 2}, {n: 0, m: 7})


def test_stores_are_counted() -> None:
    n = Symbol("n")
    out = Buffer("out", (n, 4), FLOAT32)
    one = loops("i j", (n, 4), lambda i, j: store(out, (i, j), 1.0))
    kernel = PrimFunc("f", (out,), 1, seq(one, loops("i", (n - 3,), lambda i: store(out, (i, 0), 1.0))))
    assert [checking.stores(kernel, {n: k}) for k in (5, 3, 2)] == [22, 12, 8] and checking.stores(kernel, {}) == 5


def test_what_not_a_number_shows_is_found() -> None:
    """A NaN becomes 1; all numbers are right."""
    after, kernel, _ = made()
    wrong = replace(kernel, body=rewrite(kernel.body, no_nan))
    assert check_group(wrong, after, 0).detail.startswith(f"{kernel.name} on specials: result 0: element")


def no_nan(s: Stmt) -> Stmt:
    return (
        replace(s, value=select(apply("eq", s.value, s.value), s.value, const(1.0, FLOAT32)))
        if isinstance(s, Store)
        else s
    )


@pytest.mark.parametrize(("turned", "right"), [(False, True), (True, False)])
def test_a_division_by_a_constant_traps_never(turned: bool, right: bool) -> None:
    y = x("y", 3, of="int32")
    _, after = fused(lambda: ([y], call("negative", call("abs", y))))
    kernel = only_group(after)

    def more(s: Stmt) -> Stmt:
        if not isinstance(s, Store):
            return s
        args = (const(7, INT32), s.value) if turned else (s.value, const(7, INT32))
        return replace(s, value=apply("add", s.value, apply("mul", apply("floordiv", *args), const(0, INT32))))

    found = check_group(replace(kernel, body=rewrite(kernel.body, more)), after, 0)
    assert ("it has the operation floordiv, which no call of its group has" in found.detail) == (not right)


# --- what is beside --------------------------------------------------------------------------------------------------


def test_what_is_new_is_a_group() -> None:
    before, after = fused(chain)
    _, kernel, group = made()
    y = var("y", TensorType((3,), FLOAT32))
    assert "definition more is new, and no group" in check_fuse(before, after.with_(more=function([y], y))).detail
    open_ = replace(group, attrs={k: v for k, v in group.attrs.items() if k != "primitive"})
    name = kernel.attrs[GROUP]
    assert f"definition {name} is new, and no group" in check_fuse(before, after.with_(**{name: open_})).detail


def test_a_call_that_may_trap_stays() -> None:
    y, z, dead = x("y", 3, of="int32"), x("z", 3, of="int32"), x("dead", 3, of="int32")
    before, after = fused(lambda: ([y, z], let(dead, call("floor_divide", y, z), call("negative", call("abs", y)))))
    assert check_fuse(before, after).holds
    root: Expr = after.main
    lost = rewrite(
        root,
        lambda n: n.body if isinstance(n, Let) and isinstance(n.value, CallTIR) and "divide" in n.value.func else n,
    )
    assert isinstance(lost, Function) and lost is not root
    wrong = check_fuse(before, after.with_(main=lost))
    assert not wrong.holds and wrong.detail == "in main: a call that may trap, or an action, is dropped, added or moved"


def test_what_was_there_stays() -> None:
    before, after = fused(chain)
    lost = replace(after, definitions={n: d for n, d in after.definitions.items() if n != "exp"})
    assert "definition exp is gone" in check_fuse(before, lost).detail
    function_instead = after.with_(exp=after.main)
    assert changed_beside(before, function_instead) == "definition exp has changed"
    assert changed_beside(before, replace(after, offsets={"c": 0})) == "the table of constants has changed"


def test_what_is_not_decided_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    y, z = x("y", 3, of="int32"), x("z", 3, of="int32")
    before, after = fused(lambda: ([y, z], call("negative", call("abs", call("floor_divide", y, z)))))
    assert check_fuse(before, after).holds
    monkeypatch.setattr("assay.verify.value_numbering.STEPS", -1_000)
    found = check_fuse(before, after)
    assert not found.holds and found.detail.startswith("in main: not decided: too many paths")


# --- devices ---------------------------------------------------------------------------------------------------------


def on(module: Module, kernel: PrimFunc, device: VirtualDevice, main: VirtualDevice | None = None) -> Module:
    """The calls of the group on a device, and the call of the fused function on `main`."""

    def there(f: Expr, where: VirtualDevice) -> Function:
        found = rewrite(f, lambda n: replace(n, device=where) if isinstance(n, CallTIR) else n)
        assert isinstance(found, Function)
        return found

    name = kernel.attrs[GROUP]
    return module.with_(**{name: there(group_of(module, kernel), device), "main": there(module.main, main or device)})


def said(module: Module) -> list[str]:
    return list(misplaced_group(module, [k for k in module.kernels.values() if GROUP in k.attrs]))


def test_one_device_is_right() -> None:
    after, kernel, _ = made()
    assert not said(after) and not said(on(after, kernel, GPU))


def test_a_group_on_two_devices() -> None:
    after, kernel, group = made()
    root: Expr = group
    mixed = rewrite(root, lambda n: replace(n, device=GPU if n.func == "exp" else CPU) if isinstance(n, CallTIR) else n)
    (wrong,) = [s for s in said(after.with_(**{kernel.attrs[GROUP]: mixed})) if "one device" in s]  # type: ignore[dict-item]
    assert wrong == f"{kernel.name} is on {CPU} and on {GPU}: a call runs on one device"


def test_a_call_elsewhere_than_its_calls() -> None:
    after, kernel, _ = made()
    assert said(on(after, kernel, GPU, CPU)) == [f"in main: {kernel.name} is called on {CPU}, its calls were on {GPU}"]


def test_a_copy_in_a_group() -> None:
    after, kernel, _ = made()
    copying = after.with_(exp=replace(after.kernel("exp"), attrs={"operator": "device_copy"}))
    assert said(copying) == [f"{kernel.name} does what exp does, a device_copy: only that may read on another device"]


def scoped(kernel: PrimFunc, **scopes: str) -> PrimFunc:
    """A tensor function whose parameters are in scopes."""
    params = [replace(b, scope=scopes.get(("first", "last")[i], b.scope)) for i, b in enumerate(kernel.params)]
    return replace(kernel, params=tuple(params))


def test_memory_scopes_are_those_of_the_calls() -> None:
    after, kernel, _ = made()
    texture = "global.texture"
    taking = after.with_(exp=scoped(after.kernel("exp"), first=texture))
    was = kernel.params[0].scope
    assert said(taking) == [f"{kernel.name} takes in scope {was} what exp takes in scope {texture}"]
    assert not said(taking.with_(**{kernel.name: scoped(kernel, first=texture)}))
    giving = after.with_(nn_relu=scoped(after.kernel("nn_relu"), last=texture))
    assert said(giving) == [f"{kernel.name} makes its result in another scope than nn_relu"]
    assert not said(giving.with_(**{kernel.name: scoped(kernel, last=texture)}))


def test_the_check_of_the_stage_asks_where_calls_are() -> None:
    before, after = fused(chain)
    kernel = only_group(after)
    elsewhere = on(after, kernel, GPU, CPU)
    assert "its calls were on cuda:0" in check_fuse(before, elsewhere).detail


def test_a_number_off_is_found_among_numbers() -> None:
    """Elements differ in shape, in bits, and in nothing where both are not a number."""
    nan = np.array([np.nan, 0.0], np.float32)
    other = nan.copy()
    other.view(np.uint32)[0] ^= 1
    assert different(nan, other) is None
    assert "element (1,) is -0.0, must be 0.0 (1 of 2 differ)" == different(nan, np.array([np.nan, -0.0], np.float32))
