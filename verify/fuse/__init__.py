"""Whether fused tensor functions do what their calls did (specs/verify.md, "fuse").

Two halves. The graph is the same: numbered, with every fused call taken for the calls of its group, it gives the same
results and does the same that can fail or act, in the same order. Each fused tensor function is its group: run on
random operands, with infinities and NaN among them, it gives the bits of the calls one after another; and it is shown
to be equal to them for every input, over terms, where that is not too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.alias import bindings, result
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import CallTIR, Function
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.module import GROUP, Module
from assay.semantics.scalar import Apply, Cast, Const, Var as Symbol, evaluate_dim, operation
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    For,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Store,
    program_order,
)
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.types import TensorType, Type, flatten, symbols
from assay.semantics.walk import post_order
from assay.verify.all_sizes.same import same_for_all_sizes
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.evidence import Context, Did, Evidence, checked, listed, plural, proved, refuted, tested
from assay.verify.fuse.group import at_sizes, for_any_size, written_out
from assay.verify.fuse.group_devices import misplaced_group
from assay.verify.kept import changed_beside, count_calls, interface, stored
from assay.verify.proof_texts import keeping, note_proof
from assay.verify.side_by_side import side_by_side
from assay.verify.trials.batch import stores
from assay.verify.trials.groups import apart, calls_of, try_group
from assay.verify.trials.kernels import KernelTrials
from assay.verify.trials.sizes import Sizes, sizes_to_try, told_sizes
from assay.verify.value_numbering import number_function
from assay.verify.value_numbering.nesting import UndecidedNumbering
from assay.verify.value_numbering.terms import Table

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int], None]

MOST = 100_000
"""Stores of one group, at all sizes that are tried, that are run over terms."""
MOST_OF_ALL = 400_000
"""Stores of all groups in one check that are."""
MANY = 6
"""So many groups are checked side by side."""
LONGEST = 40
"""Statements of a tensor function that is tried for all sizes."""
LARGE = 1 << 24
"""Stores from which on only one kind of data is run."""


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether calls were fused into groups that are them, and nothing else has changed."""
    old, new = before.definitions, after.definitions
    for name, d in old.items():
        open_ = isinstance(d, Function) and not {"primitive", "compiler"} & set(d.attrs)
        if name not in new or (not open_ and new[name] is not d and stored(new[name]) != stored(d)):
            return refuted("checked", f"definition {name} has changed")
        if isinstance(d, Function) and not (
            isinstance(kept := new[name], Function) and interface(d) == interface(kept)
        ):
            return refuted("checked", f"the parameters, results or attributes of {name} have changed")
    return check_fuse(before, after, context.seed, context.progress, context.thorough, context.proof_texts)


def describe(before: Module, after: Module) -> Did:
    """How many calls became how many."""
    old, new = count_calls(before), count_calls(after)
    return f"{old} to {plural(new, 'call')}", {"calls_before": old, "calls": new}


def check_fuse(
    source: Module,
    target: Module,
    seed: int = 0,
    progress: Progress = lambda i, n: None,
    thorough: bool = False,
    texts: dict[str, str] | None = None,
) -> Evidence:
    """Both halves, for every graph function of the source and every tensor function that is new, or says of itself
    that it is a group: later proofs believe it. What z3 was asked goes to `texts`."""
    source, target = source.resolved(), target.resolved()
    fused = [k for n, k in target.kernels.items() if n not in source.definitions or GROUP in k.attrs]
    wrong = changed_beside(source, target) or _definitions(source, target, fused) or next(_graphs(source, target), None)
    wrong = wrong or next(misplaced_group(target, fused), None)
    if wrong:
        return refuted("proved", wrong)
    count, tried = 0, KernelTrials()
    left_over: dict[str, list[str]] = {}
    points: list[Sizes] = []
    most_points = wide = 0
    for kernel, (verdict, own, kept) in zip(
        fused, _each_group(fused, target, seed, progress, thorough, texts is not None), strict=False
    ):
        if not verdict.holds:
            return verdict
        tried.add(own)
        if texts is not None:
            texts.update(kept)
        count += verdict.how == "proved"
        if verdict.how != "proved":
            left_over.setdefault(verdict.detail, []).append(kernel.name)
        group = target.group(kernel)
        chosen = _sizes(group) if group is not None and symbols(group.type) else ()
        wide += bool(chosen) and verdict.how == "proved"
        points, most_points = [*points, *chosen], max(most_points, len(chosen))
    progress(len(fused), len(fused))
    said = f"same calls; {plural(len(fused), 'fused kernel')} bit for bit the calls one after another"
    said += f", {count} of them for every input" if count else ""
    said += f"; where sizes are unknown at {most_points} ({told_sizes(points)})" if points else ""
    said += f", {wide} of them for all sizes" if wide else ""
    said += f"; {tried}" if fused else ""
    if thorough:
        said += "".join(f"; not proved {listed(names)}: {why}" for why, names in left_over.items())
    data = {"not_proved": {n: why for why, names in left_over.items() for n in names}} if left_over else {}
    return (proved if count == len(fused) else tested)(said, groups=len(fused), groups_proved=count, **data)


GroupFound: TypeAlias = tuple[Evidence, KernelTrials, dict[str, str]]
"""The verdict on a group, what was tried of it, and the texts of its proof."""


def _each_group(
    fused: Sequence[PrimFunc], target: Module, seed: int, progress: Progress, thorough: bool, keeps: bool
) -> Iterator[GroupFound]:
    """What is found of each, up to the first that fails; side by side where there are many, or each is read."""
    shares = [MOST] * len(fused) if thorough else _shares(fused, target)

    def found(number: int) -> GroupFound:
        kernel, tried = fused[number], KernelTrials()
        texts: dict[str, str] = {}
        with keeping(texts if keeps else None, f"fuse-{kernel.name}") as subject:
            note_proof(f"the kernel {kernel.name} is the calls of its group, one after another")
            verdict = check_group(kernel, target, seed, shares[number], tried, thorough)
            subject.holds = verdict.how == "proved"
        return verdict, tried, texts

    if thorough or len(fused) >= MANY:
        yield from side_by_side(found, len(fused), progress)
        return
    for i in range(len(fused)):
        progress(i, len(fused))
        one = found(i)
        yield one
        if not one[0].holds:
            return


def _shares(fused: Sequence[PrimFunc], module: Module) -> list[int]:
    """How many stores of each may be run over terms: MOST, as long as all together stay within MOST_OF_ALL."""
    left = MOST_OF_ALL
    shares = []
    for kernel in fused:
        shares.append(min(left, MOST))
        try:
            group = module.group(kernel)
            odd = group is None or _interface(kernel, group, module)
        except Invalid:
            odd = True  # which is said when it is checked
        count = 0 if odd or group is None else _stores_over_terms(_pairs(kernel, group, module, _sizes(group)))
        left -= count if count <= shares[-1] else 0
    return shares


# --- the graph ---------------------------------------------------------------------------------------------------


def _definitions(source: Module, target: Module, fused: Sequence[PrimFunc]) -> str | None:
    """What is wrong about the definitions that are new, if anything."""
    names = {k.attrs.get(GROUP) for k in fused}
    for name, d in target.definitions.items():
        if name in source.definitions:
            continue
        if isinstance(d, PrimFunc):
            if GROUP not in d.attrs:
                return f"tensor function {name} does not say which group it computes"
        elif not isinstance(d, Function) or name not in names or "primitive" not in d.attrs:
            return f"definition {name} is new, and no group"
    return None


def _graphs(source: Module, target: Module) -> Iterator[str]:
    """What the graph functions do otherwise than before."""
    for name, before in source.definitions.items():
        after = target.definitions[name]
        if not isinstance(before, Function) or before is after:
            continue
        assert isinstance(after, Function)
        table = Table()
        try:
            one, two = number_function(before, source, table), number_function(after, target, table)
        except UndecidedNumbering as why:
            yield f"in {name}: not decided: {why}"
            return
        except Invalid as why:
            yield f"in {name}: {why.message}"
            return
        if one.result != two.result:
            yield f"in {name}: the result has another value than in the source"
        if one.events != two.events:
            yield f"in {name}: a call that may trap, or an action, is dropped, added or moved"


# --- a group -----------------------------------------------------------------------------------------------------


def check_group(
    kernel: PrimFunc,
    module: Module,
    seed: int,
    most: int = MOST,
    tried: KernelTrials | None = None,
    thorough: bool = False,
) -> Evidence:
    """Whether a fused tensor function computes, bit for bit, what the calls of its group do. What stores more than
    `most` elements is run on numbers only, or, if `thorough`, read for all of them. What the trials were is added to
    `tried`."""
    try:
        group = module.group(kernel)
        wrong = "no group" if group is None else _interface(kernel, group, module)
    except Invalid as why:
        group, wrong = None, why.message
    if wrong or group is None:
        return refuted("checked", f"{kernel.name}: {wrong}")
    chosen = _sizes(group)
    for sizes in chosen:
        size = stores(kernel, sizes)
        for data in ("reals", "specials") if size <= LARGE else ("reals",):
            wrong = _run(kernel, group, module, sizes, np.random.default_rng([seed, data == "reals"]), data)
            if wrong:
                return refuted("tested", f"{kernel.name} on {data}: {wrong}")
        wrong = try_group(
            kernel, list(calls_of(group, module, sizes)), group, sizes, seed, size, tried or KernelTrials()
        )
        if wrong:
            return refuted("tested", f"{kernel.name} {wrong}")
    plain = _pairs(kernel, group, module, chosen)
    if _stores_over_terms(plain) > most:
        if not thorough:
            return checked("more stores than are run over terms; --prove reads the loops")
        other = _other_at_any_size(kernel, group, module)
        return checked(other) if other else proved("")
    other = _other_at_any_size(kernel, group, module) if symbols(group.type) else ""
    for calls, fused in plain:
        try:
            verdict = equivalent(calls, fused, weakest=BIT_EXACT, method="terms", seed=seed)
        except Unsupported:  # too many elements
            other = other or "it has too many elements for terms"
            continue
        if verdict.undecided:
            other = other or verdict.reason or "it is not decided over terms"
        elif not verdict.holds():
            return refuted("proved", f"{kernel.name}: {verdict}")
    return (checked if other else proved)(other)


def _pairs(
    kernel: PrimFunc, group: Function, module: Module, chosen: Sequence[Sizes]
) -> list[tuple[PrimFunc, PrimFunc]]:
    """At each choice of sizes, the calls of a group written out, and its kernel."""
    return [(written_out(group, module, sizes), at_sizes(kernel, group, sizes)) for sizes in chosen]


def _stores_over_terms(pairs: Sequence[tuple[PrimFunc, PrimFunc]]) -> int:
    return sum(stores(f, {}) for pair in pairs for f in pair)


def _other_at_any_size(kernel: PrimFunc, group: Function, module: Module) -> str:
    """Why a fused tensor function is not shown to be its calls as both are read; "" where it is, whatever its
    symbols are."""
    if sum(1 for _ in program_order(kernel.body)) > LONGEST:
        return f"it has more than {LONGEST} statements"
    return same_for_all_sizes(*for_any_size(kernel, group, module)).reason


def _interface(kernel: PrimFunc, group: Function, module: Module) -> str | None:
    """Why a kernel and its group are not one and the same function from outside, or the group is none."""
    known = set(group.params)
    last = None
    for var, value in bindings(group):
        if not isinstance(value, CallTIR) or not set(value.args) <= known:
            return f"{var.name} of its group is no call on what is known there"
        member = module.kernel(value.func)
        if GROUP in member.attrs or kernel_can_trap(member):
            return f"{value.func} cannot be in a group: it " + ("is one" if GROUP in member.attrs else "may trap")
        known.add(var)
        last = var
    if last is None or result(group) is not last:
        return "its group gives something else than the result of its last call"
    wanted = [str(t) for p in group.params for t in flatten(p.type)] + [str(t) for t in flatten(group.result_type)]
    given = [str(TensorType(b.shape, b.dtype)) for b in kernel.params]
    if wanted != given or len(flatten(group.result_type)) != kernel.num_outputs:
        return f"it takes {', '.join(given)}; its group {', '.join(wanted)}"
    return _own(kernel, group, module)


def _own(kernel: PrimFunc, group: Function, module: Module) -> str | None:
    """What a kernel does that may trap or act, and no call of its group does."""
    members = {v.func for _, v in bindings(group) if isinstance(v, CallTIR)}
    own = _actions(kernel) - {d for m in members for d in _actions(module.kernel(m))}
    return f"it has {min(own)}, which no call of its group has" if own else None


def _actions(kernel: PrimFunc) -> set[str]:
    found: set[str] = set()
    for stmt in program_order(without_blocks(kernel).body):
        if not isinstance(stmt, (Seq, For, If, LetStmt, Allocate, AllocateConst, Store)):
            found.add(f"a statement {type(stmt).__name__}")
        for root in stmt.expressions:
            for n in post_order(root):
                match n:
                    case Apply() if operation(n.op).fails and not isinstance(n.args[-1], Const):
                        found.add(f"the operation {n.op}")
                    case Cast() if n.arg.dtype.is_float and n.dtype.is_integer:
                        found.add("a cast from float to integer")
                    case _:
                        pass
    return found


def _sizes(group: Function) -> Sequence[Sizes]:
    """Numbers for the symbols of a group; none at which one of its tensors would have a negative size."""
    types = [t for of in (*(p.type for p in group.params), *(v.type for v, _ in bindings(group))) for t in flatten(of)]

    def excluded(sizes: Sizes) -> str | None:
        negative = (t for t in types if any(evaluate_dim(d, sizes) < 0 for d in t.shape))
        return next((f"{t} has a negative size" for t in negative), None)

    return sizes_to_try((s for p in group.params for s in symbols(p.type)), excluded=excluded).points


def _run(
    kernel: PrimFunc, group: Function, module: Module, sizes: Mapping[Symbol, int], rng: np.random.Generator, data: str
) -> str | None:
    """Where the kernel differs from its calls on one set of operands, if it does."""
    shapes = [(_shape(p.type, sizes), t.dtype) for p in group.params for t in flatten(p.type)]
    operands = [_random(shape, of, rng, data) for shape, of in shapes]
    return apart(kernel, [sizes[s] for s in kernel.scalars], calls_of(group, module, sizes), group, operands)


def _shape(of: Type, sizes: Mapping[Symbol, int]) -> tuple[int, ...]:
    assert isinstance(of, TensorType)
    return tuple(evaluate_dim(d, sizes) for d in of.shape)


def _random(shape: Sequence[int], of: DType, rng: np.random.Generator, data: str) -> Array:
    """Random elements: numbers of many sizes, so that another order of additions shows; or special ones among them."""
    if not of.is_float:
        low, high = (max(int(of.min), -9), min(int(of.max), 9)) if data == "reals" else (int(of.min), int(of.max))
        return np.asarray(
            rng.integers(low, high, shape, dtype=np.int64 if low < 0 else np.uint64, endpoint=True)
        ).astype(of.numpy)
    with np.errstate(all="ignore"):
        sizes = rng.integers(-3, 4, shape, dtype=np.int8)
        found = np.ldexp(rng.standard_normal(shape, dtype=np.float32), sizes).astype(of.numpy)
        if data == "specials":
            known = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1.0]).astype(of.numpy)
            found = np.where(rng.random(shape) < 0.2, known[rng.integers(0, len(known), shape)], found)
    return np.asarray(found)
