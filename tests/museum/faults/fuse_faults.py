"""Wrong ways to fuse, each with a program that shows it.

A fault is a pass, or a change of what the right pass has made. The check of the stage must refuse each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from assay.lower.fuse import fuse, groups, kernels, nests
from assay.semantics.analyses.op_pattern import OpPattern, Patterns
from assay.semantics.graph import CallTIR, Expr, Function, Let, call, call_tir, let, var
from assay.semantics.module import GROUP, Module
from assay.semantics.scalar import Apply, Const, Expr as Scalar, Load, apply, const, select
from assay.semantics.tensor import Allocate, Assert, Buffer, Evaluate, For, PrimFunc, Seq, Stmt, Store, seq
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import post_order, rewrite
from assay.verify.app.stages import STAGES
from assay.verify.evidence import Context
from tests.lower.fuse import fusing
from tests.lower.fuse.fusing import Program, group_of, legalized, only_group, x
from tests.museum.judges import of_evidence
from tests.museum.planted import PlantedFault

(FUSE,) = (s for s in STAGES if s.name == "fuse")


def judge(source: Module, made: Module) -> str | None:
    """The check of the stage."""
    return of_evidence(FUSE.check(source, made, Context()))


def fault(name: str, note: str, wrong: Callable[[Module], Module], program: Program, said: str) -> PlantedFault:
    """A wrong pass, what is wrong about it, a program that shows it, and words of what the check says."""
    return PlantedFault(name, "fuse", (judge,), lambda: legalized(*program()), wrong, said=said, note=note)


# --- which calls ---------------------------------------------------------------------------------------------------


class OneUserIsEnough(groups._Chain):
    """Looks at the first user of a value only."""

    def dominate(self, i: int) -> None:
        node = self.nodes[i]
        if node.uses:
            node.parent, node.way = node.uses[0]

    def between(self, i: int, last: int) -> list[int] | None:
        return []


class NothingTraps(groups._Chain):
    """Takes calls that may trap for pure ones."""

    def fusible(self, value: Expr, module: Module) -> Patterns | None:
        found = super().fusible(value, module)
        if found is None and isinstance(value, CallTIR):
            return Patterns(OpPattern.ELEMENTWISE, (OpPattern.ELEMENTWISE,) * len(value.args))
        return found


def with_chain(chain: type[groups._Chain]) -> Callable[[Module], Module]:
    def run(module: Module) -> Module:
        with patch.object(groups, "_Chain", chain):
            return fuse(module)

    return run


# --- what the kernel does ------------------------------------------------------------------------------------------


def changed_kernel(change: Callable[[PrimFunc], PrimFunc]) -> Callable[[Module], Module]:
    """The right pass, and a change of its one tensor function."""

    def run(module: Module) -> Module:
        after = fuse(module)
        kernel = change(only_group(after))
        return after.with_(**{kernel.name: kernel})

    return run


def on_last_store(change: Callable[[Store], Store]) -> Callable[[Module], Module]:
    """The right pass, and a change of the last store of its tensor function: the epilogue."""

    def kernel(func: PrimFunc) -> PrimFunc:
        last = [s for s in post_order(func.body) if isinstance(s, Store)][-1]
        return replace(func, body=rewrite(func.body, lambda s: change(last) if s is last else s))

    return changed_kernel(kernel)


def loads_as(store: Store, change: Callable[[Load], Scalar]) -> Store:
    return replace(store, value=rewrite(store.value, lambda n: change(n) if isinstance(n, Load) else n))


def transposed_index(store: Store) -> Store:
    """The epilogue reads its matrix with the indices the wrong way round."""
    return loads_as(
        store,
        lambda n: replace(n, indices=n.indices[::-1]) if n.buffer is not store.buffer and len(n.indices) == 2 else n,
    )


def dropped_broadcast(store: Store) -> Store:
    """The bias is read at 0 for every element."""
    return loads_as(store, lambda n: replace(n, indices=(const(0),)) if len(n.indices) == 1 else n)


def reassociated(store: Store) -> Store:
    """(p + b) + c becomes p + (b + c)."""

    def change(n: Scalar) -> Scalar:
        match n:
            case Apply(op="add", args=(Apply(op="add", args=(p, b)), c)):
                return apply("add", p, apply("add", b, c))
            case _:
                return n

    return replace(store, value=rewrite(store.value, change))


def wider_constant(store: Store) -> Store:
    """A constant is off by a few bits."""

    def change(n: Scalar) -> Scalar:
        return (
            Const(n.dtype, n.dtype.numpy.type(float(n.value) * (1 + 2**-20)))
            if isinstance(n, Const) and n.dtype.is_float
            else n
        )

    return replace(store, value=rewrite(store.value, change))


def shorter_loop(func: PrimFunc) -> PrimFunc:
    """The innermost loop of the epilogue stops one short: an element of the result is not what it must be."""
    last = [s for s in post_order(func.body) if isinstance(s, For)]
    inner = next(f for f in reversed(last) if isinstance(f.body, Store) and isinstance(f.extent, Const))
    extent = const(int(inner.extent.value) - 1)  # type: ignore[attr-defined]
    return replace(func, body=rewrite(func.body, lambda s: replace(s, extent=extent) if s is inner else s))


def smaller_buffer(func: PrimFunc) -> PrimFunc:
    """A buffer between the calls has a row too few."""
    stmt = next(s for s in post_order(func.body) if isinstance(s, Allocate))
    old = stmt.buffer
    new = Buffer(old.name, tuple(d - 1 if isinstance(d, int) and d > 1 else d for d in old.shape), old.dtype)
    return replace(func, body=Mapper({}, {old: new}).run(func.body))


def trap_of_its_own(func: PrimFunc) -> PrimFunc:
    """It traps for one number among the operands."""
    (first, *_), at = func.inputs, const(0)
    condition = apply("ne", first[(at,) * len(first.shape)], const(1234.5, first.dtype))
    return replace(func, body=seq(Assert(condition, "never"), func.body))


def division_of_its_own(func: PrimFunc) -> PrimFunc:
    """It divides by zero for one number among the operands."""
    (first, *_), at = func.inputs, const(0)
    minute = apply("sub", first[(at,) * len(first.shape)], const(12_345, first.dtype))
    return replace(func, body=seq(Evaluate(apply("floordiv", minute, minute)), func.body))


def epilogue_first(func: PrimFunc) -> PrimFunc:
    """The epilogue runs before the sum is complete."""

    def change(s: Stmt) -> Stmt:
        return seq(*s.body[:-2], s.body[-1], s.body[-2]) if isinstance(s, Seq) and len(s.body) > 2 else s

    return replace(func, body=rewrite(func.body, change))


def unchecked_inline(statements: list[Stmt], buffer: Buffer) -> list[Stmt]:
    """Whatever is made is put where it is read, at the indices of who reads last, and not of who makes."""
    made = [s for s in statements if buffer in nests.touched(s)[1]]
    if not made or not isinstance(made[0], For):
        return statements
    (store,) = (s for s in post_order(made[0]) if isinstance(s, Store))
    names = [i for i in store.indices]
    by = {v: w for v, w in zip(names, reversed(names), strict=True)}

    def put(n: Scalar) -> Scalar:
        if isinstance(n, Load) and n.buffer is buffer:
            env = {v: n.indices[names.index(w)] for v, w in by.items()}
            return rewrite(store.value, lambda m: env.get(m, m))
        return n

    rest = [s for s in statements if s is not made[0]]
    return [nests._rewritten(s, put) for s in rest]


def wrong_inline(module: Module) -> Module:
    with patch.object(nests, "inline_buffer", unchecked_inline):
        return fuse(module)


def in_place_of_anything(module: Module) -> Module:
    """The result takes the memory of the first value, whoever still reads that."""

    def take(statements: list[Stmt], internal: Sequence[Buffer], results: set[Buffer]) -> list[Stmt]:
        (out,) = results
        like = [b for b in internal if b.shape == out.shape and b.dtype is out.dtype]
        return [Mapper({}, dict.fromkeys(like, out)).run(s) for s in statements]

    with patch.object(kernels, "merge_nests", take):
        return fuse(module)


# --- the graph around ------------------------------------------------------------------------------------------------


def group_with(change: Callable[[CallTIR, Module], CallTIR]) -> Callable[[Module], Module]:
    """The group's function is changed, and the tensor function does what that says: both agree, and are wrong."""

    def run(module: Module) -> Module:
        after = fuse(module)
        kernel = only_group(after)
        group = group_of(after, kernel)

        def new(n: Expr) -> Expr:
            return change(n, after) if isinstance(n, CallTIR) else n

        root: Expr = group
        made = rewrite(root, new)
        assert isinstance(made, Function)
        changed = after.with_(**{kernel.attrs[GROUP]: made})
        return changed.with_(**{kernel.name: kernels.merged(kernel.name, kernel.attrs[GROUP], made, changed)})

    return run


def other_operand(node: CallTIR, module: Module) -> CallTIR:
    return replace(node, args=node.args[::-1]) if node.func == "matmul" else node


def before_its_operand(module: Module) -> Module:
    """Two groups each of which needs the other: the first one's call stands before what it reads."""
    after = fuse(module)
    main = after.main
    lets: list[Let] = []
    body = main.body
    while isinstance(body, Let):
        lets.append(body)
        body = body.body
    for n in reversed([lets[-1], *lets[:-1]]):
        body = let(n.var, n.value, body)
    return after.with_(main=main.with_children([body]))


def without_a_group(module: Module) -> Module:
    """A tensor function that says nothing about itself."""
    after = fuse(module)
    kernel = only_group(after)
    silent = after.with_(**{kernel.name: replace(kernel, attrs={})})
    return replace(silent, definitions={n: d for n, d in silent.definitions.items() if n != kernel.attrs[GROUP]})


def another_kernel(module: Module) -> Module:
    """A tensor function that the group calls is changed with the fused one: both do the same, and it is wrong."""
    after = fuse(module)
    relu, kernel = after.kernel("nn_relu"), only_group(after)
    body = rewrite(relu.body, lambda s: replace(s, value=apply("neg", s.value)) if isinstance(s, Store) else s)
    changed = after.with_(nn_relu=replace(relu, body=body))
    made = kernels.merged(kernel.name, kernel.attrs[GROUP], group_of(changed, kernel), changed)
    return changed.with_(**{kernel.name: made})


def group_in_a_group(module: Module) -> Module:
    """A group calls the tensor function that is it."""
    after = fuse(module)
    kernel = only_group(after)
    group = group_of(after, kernel)
    v = var("v", group.result_type)
    made = group.with_children([let(v, call_tir(kernel.name, group.params, group.result_type), v)])
    return after.with_(**{kernel.attrs[GROUP]: made})


def turned() -> tuple[Sequence[Any], Expr]:
    a = x("a", 4, 4)
    return (a,), call("permute_dims", call("exp", a))


def halves() -> tuple[Sequence[Any], Expr]:
    """Whole numbers, and a value that is used twice: the tensor function names it."""
    a, b = x("a", 3, of="int32"), x("b", 3, of="int32")
    e = call("add", a, b)
    return (a, b), call("multiply", e, call("negative", e))


def rare(store: Store) -> Store:
    """Another value for one number among the operands."""
    return replace(
        store, value=select(apply("eq", store.value, const(12_345, "int32")), const(0, "int32"), store.value)
    )


def divided() -> tuple[Sequence[Any], Expr]:
    a, b = x("a", 3, of="int32"), x("b", 3, of="int32")
    return (a, b), call("negative", call("floor_divide", call("abs", a), b))


FAULTS: Sequence[PlantedFault] = (
    fault(
        "one user is enough",
        "a value with a second user is in a group",
        with_chain(OneUserIsEnough),
        fusing.second_user,
        "not bound",
    ),
    fault("nothing traps", "a division is moved into a group", with_chain(NothingTraps), divided, "may trap"),
    fault(
        "transposed index",
        "the epilogue reads another element",
        on_last_store(transposed_index),
        fusing.squares,
        "must be",
    ),
    fault(
        "dropped broadcast",
        "the bias of element 0 is everybody's",
        on_last_store(dropped_broadcast),
        fusing.squares,
        "must be",
    ),
    fault("reassociated", "the additions are in another order", on_last_store(reassociated), fusing.squares, "must be"),
    fault(
        "wider constant",
        "a constant is off by a few bits",
        on_last_store(wider_constant),
        fusing.conv_norm_clip,
        "fused_",
    ),
    fault("shorter loop", "an element is left out", changed_kernel(shorter_loop), fusing.squares, "must be"),
    fault(
        "smaller buffer",
        "what is between the calls does not fit",
        changed_kernel(smaller_buffer),
        fusing.conv_add_relu,
        "does not run",
    ),
    fault(
        "trap of its own",
        "it asserts what its calls do not",
        changed_kernel(trap_of_its_own),
        fusing.squares,
        "no call of its group has",
    ),
    fault(
        "division of its own",
        "it divides, its calls do not",
        changed_kernel(division_of_its_own),
        halves,
        "no call of its group has",
    ),
    fault("rare", "one number in 2**32 gets another value", on_last_store(rare), halves, "was "),
    fault(
        "epilogue first",
        "what follows the sum runs before it",
        changed_kernel(epilogue_first),
        fusing.squares,
        "must be",
    ),
    fault("wrong inline", "a value is computed at the indices of another", wrong_inline, turned, "must be"),
    fault(
        "in place of anything",
        "a value is overwritten while it is needed",
        in_place_of_anything,
        fusing.diamond,
        "must be",
    ),
    fault(
        "other operand",
        "the group has its operands the wrong way round",
        group_with(other_operand),
        fusing.squares,
        "another value",
    ),
    fault("before its operand", "two groups need one another", before_its_operand, fusing.residual, "not bound"),
    fault("without a group", "nothing says what is fused", without_a_group, fusing.squares, "does not say which group"),
    fault(
        "another kernel", "a call of the group is not what it was", another_kernel, fusing.conv_add_relu, "has changed"
    ),
    fault(
        "group in a group", "a group is explained by itself", group_in_a_group, fusing.squares, "group inside a group"
    ),
)
"""Every fault, by name."""
