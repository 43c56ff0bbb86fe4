"""Whether tensor functions do what the operators did (specs/verify.md, "legalize").

Two halves. The graph is the same but for calls, and each tensor function claims the operator it replaces: with every
tensor function taken for what it claims to be, both are structurally equal. Each tensor function keeps its claim: run
by the scalar rules on random operands of its very shapes, or at each of some sizes where it has symbols, its results
lie within the operator's bounds, and on integer-valued operands of a contraction or reduction, where every order of
additions is exact, they are equal bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp import tensor, vector
from assay.interp.values import Event
from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics.analyses.equality import first_difference
from assay.semantics.bounds import Bounded, contains
from assay.semantics.budget import claim, named
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call, CallTIR, Expr, Function, call, show_head, var
from assay.semantics.linked import unlinked
from assay.semantics.module import GROUP, Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import evaluate_dim, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.semantics.types import TensorType, flatten, same_type
from assay.semantics.walk import post_order, rewrite
from assay.verify.evidence import Context, Did, Evidence, checked, plural, proved, refuted, tested
from assay.verify.kept import changed_beside, count_calls
from assay.verify.legalize.proofs import KernelProofs
from assay.verify.legalize.shown import UsesShown
from assay.verify.legalize.uses import KernelUse, SizesTried, hands_claimed_sizes, instance_at
from assay.verify.trials.kernels import KernelTrials, compare, lift, try_kernel
from assay.verify.trials.sizes import Sizes, claimed_attributes, declared_bounds, told_point

Array = np.ndarray[Any, Any]
LONGEST = 100_000
"""Statements of a function that are run one after another; a longer one is run in lanes."""
Progress = Callable[[int, int], None]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether each tensor function does what its operator did; what main does not reach is not lowered."""
    source = remove_unreachable(before)
    return check_legalize(source, after, context.seed, context.progress, context.thorough, context.proof_texts)


def describe(before: Module, after: Module) -> Did:
    """How many calls of how many tensor functions there are."""
    count, kernels = count_calls(after), len(after.kernels)
    return f"{plural(count, 'call')} of {plural(kernels, 'kernel')}", {"calls": count, "kernels": kernels}


def check_legalize(
    source: Module,
    target: Module,
    seed: int = 0,
    progress: Progress = lambda i, n: None,
    thorough: bool = False,
    texts: dict[str, str] | None = None,
) -> Evidence:
    """Both halves, for every graph function of the module; what z3 was asked goes to `texts`."""
    source, target = source.resolved(), target.resolved()
    calling = [
        n for n, d in source.kernels.items() if _calls(d) and n in target.kernels and not _calls(target.kernel(n))
    ]
    changed = changed_beside(source.with_(**{n: target.kernel(n) for n in calling}), target)
    if changed:
        return refuted("checked", changed)
    for name in calling:
        wrong = _written_out(source.kernel(name), target.kernel(name), source, seed)
        if wrong:
            return refuted("tested", f"{name} without its calls {wrong}")
    samples: dict[str, KernelUse] = {}
    for name, before in source.definitions.items():
        after = target.definitions[name]
        if isinstance(before, Function) and isinstance(after, Function):
            wrong = _raised(before, after, source, target, samples)
            if wrong:
                return refuted("checked", f"in {name}: {wrong}")
    for name, d in target.definitions.items():
        if name in source.definitions:
            continue
        if not isinstance(d, PrimFunc) or GROUP in d.attrs:
            return refuted("checked", f"definition {name} is new, and no tensor function for an operator")
        if name not in samples:
            return refuted("checked", f"tensor function {name} is never called")
    tried, sizes, proofs = KernelTrials(), SizesTried(), KernelProofs(thorough, texts)
    shown = UsesShown({n: (target.kernel(n), use) for n, use in samples.items()}, check_use, seed, proofs)
    for name, verdict in shown.each(tried, sizes, progress):
        if not verdict.holds:
            return refuted("tested", f"{name} at {samples[name].call.span}: {verdict.detail}")
    exact = sum(verdict.data["exact"] for verdict in shown.verdicts.values())
    for name, kernel in target.kernels.items():  # what the source brought along is believed by later proofs, too
        if name in source.definitions and "operator" in kernel.attrs:
            verdict = check_claim(kernel, seed)
            if not verdict.holds:
                return verdict
    progress(len(samples), len(samples))
    said = f"{len(samples)} kernels within their operator's bounds, {exact} of them bit for bit"
    if sizes.kernels:
        said += f"; {'all' if sizes.kernels == len(samples) else f'{sizes.kernels} of them'} {sizes}"
    if not samples:
        return tested(said)
    alone = not calling and not any("operator" in k.attrs for n, k in target.kernels.items() if n in source.definitions)
    how = proved if proofs.holds and alone else tested
    return how(f"{said}; {proofs}; {tried}", **sizes.data, **proofs.data)


def _calls(func: PrimFunc) -> bool:
    """Whether a function calls a tensor function; calls of externs stay."""
    return any(not c.extern for c in calls_of(func))


def _turned(*args: Any) -> int:
    """Stands in for an extern: what it may change becomes the same in the opposite order."""
    for a in args:
        if isinstance(a, np.ndarray) and a.flags.writeable:
            a[...] = a.reshape(-1)[::-1].reshape(a.shape).copy()
    return 1


def _written_out(before: PrimFunc, after: PrimFunc, module: Module, seed: int) -> str | None:
    """Why a tensor function differs from itself with calls, if it does: both are run on random operands.

    Each extern is some function here; both must call the same ones on the same values in the same order.
    """
    if [repr(b) for b in before.params] != [repr(b) for b in after.params] or len(before.outputs) != len(after.outputs):
        return "takes other buffers"
    rng = np.random.default_rng(seed)
    dims = {v: int(rng.integers(1, 6)) for b in before.inputs for d in b.shape for v in variables(d)}
    operands = [(4 * rng.random([evaluate_dim(d, dims) for d in b.shape])).astype(b.dtype.numpy) for b in before.inputs]
    scalars = [v.dtype.numpy.type(dims.get(v, int(rng.integers(1, 6)))) for v in before.scalars]

    externs = {c.function: _turned for f in (*module.kernels.values(), after) for c in calls_of(f) if c.extern}

    def outcome(func: PrimFunc) -> Any:
        trace: list[Event] = []
        known: dict[str, Any] = {"scalars": scalars, "functions": module.kernels, "externs": externs, "trace": trace}
        try:
            made = tensor.run(func, operands, limit=LONGEST, **known)
        except Trap as trap:
            return trap.kind
        except tensor.Unfinished:
            trace.clear()
            made = vector.run(func, operands, **known)
        events = [(e.name, [v if isinstance(v, str) else np.asarray(v).tobytes() for v in e.values]) for e in trace]
        return [a.tobytes() for a in made], events

    return None if outcome(before) == outcome(after) else "gives something else"


def _raised(
    before: Function, after: Function, source: Module, target: Module, samples: dict[str, KernelUse]
) -> str | None:
    """Why the graphs differ in more than calls, if they do: every new tensor function is taken for the operator that it
    claims to be. A call for each goes into `samples`."""
    wrong: list[str] = []
    bounds = declared_bounds(before)

    def raised(node: Expr) -> Expr:
        if not isinstance(node, CallTIR) or node.func in source.definitions:
            return node
        kernel = target.kernel(node.func)
        claim = kernel.attrs
        at = show_head(node) + (f" at {node.span}" if node.span else "")
        try:
            made = call(claim.get("operator", ""), *node.args, **claim.get("attrs", {}))
        except Invalid as refused:
            wrong.append(f"{at} claims to be {claim.get('operator')} {claim.get('attrs')}: {refused.message}")
            return node
        if not same_type(made.type, node.type):
            wrong.append(f"{at} claims to be {show_head(made)}")
        made = replace(made, device=node.device, span=node.span)
        for buffer, device in zip(kernel.params, _memories(node), strict=False):
            if device.scope not in ("", buffer.scope):
                wrong.append(f"{at} has {buffer.name} in scope {buffer.scope}, the graph has it in {device.scope}")
        use = KernelUse(made, node.scalars, bounds)
        first = samples.setdefault(node.func, use)
        if first.agreed and not hands_claimed_sizes(kernel, use):
            samples[node.func] = replace(first, agreed=False)
        return made

    root: Expr = after
    back = rewrite(root, raised)
    if wrong:
        return wrong[0]
    difference = first_difference(before, back)
    return None if difference is None else f"{_place(before, back)}{difference.split(': ', 1)[-1]}"


def _memories(node: CallTIR) -> list[VirtualDevice]:
    """Where each operand of a call is, and each result."""
    return [a.device for a in node.args for _ in flatten(a.type)] + [node.device for _ in flatten(node.type)]


def _place(before: Expr, back: Expr) -> str:
    """The first node, operands first, that has no counterpart: by its head, and where it is from."""
    pair: dict[int, int] = {}
    for a, b in zip(post_order(before), post_order(back), strict=False):
        if type(a) is not type(b) or [pair.get(id(c)) for c in a.children] != [id(c) for c in b.children]:
            return show_head(a) + (f" at {a.span}: " if a.span else ": ")
        pair[id(a)] = id(b)
    return ""


def check_use(
    kernel: PrimFunc,
    use: KernelUse,
    seed: int,
    tried: KernelTrials,
    sizes: SizesTried,
    proofs: KernelProofs | None = None,
) -> Evidence:
    """Whether the tensor function gives what the operator's definition allows, at each of some sizes where it has
    symbols: all numbers of small types at the first. What was tried is added to `tried` and `sizes`."""
    chosen = use.sizes_to_try(kernel)
    if not chosen.points:
        return refuted(
            "tested", f"no sizes are found at which {show_head(use.call)} has a value: {chosen.excluded[0][1]}"
        )
    exact, first = True, KernelTrials()
    for i, point in enumerate(chosen.points):
        try:
            fixed, call_ = instance_at(kernel, use, point)
        except Invalid as wrong:
            return refuted("tested", f"{_where(point)}{wrong.message}")
        verdict = check_operator_kernel(fixed, call_, seed, first if i == 0 else KernelTrials(whole=False))
        if not verdict.holds:
            return refuted("tested", f"{_where(point)}{verdict.detail}")
        exact &= verdict.data["exact"]
        if proofs is not None:
            proofs.add(fixed, call_, point)
    tried.add(first)
    sizes.add(kernel.name, chosen)
    return checked("", exact=exact)


def _where(point: Sizes) -> str:
    return f"for {told_point(point)}: " if point else ""


def check_operator_kernel(kernel: PrimFunc, use: Call, seed: int, tried: KernelTrials | None = None) -> Evidence:
    """Whether the tensor function, whose sizes are numbers, gives, on random operands and on those of its trials, what
    the operator's definition allows. What the trials were is added to `tried` (rule M10.5)."""
    op = use.op
    assert isinstance(op, Operator)
    types = [a.type for a in use.args if isinstance(a.type, TensorType)]
    exact = False
    for data in ("integers", "reals"):
        whole = data == "integers"
        if whole != (op.family in ("contraction", "reduction", "stepwise")) and _cost(types) > LARGE:
            continue
        rng = np.random.default_rng([seed, len(kernel.name), whole])
        tensors = [t for t in (*types, use.type) if isinstance(t, TensorType)]
        middles = 8 * sum(math.prod(t.static_shape) for t in tensors)  # an interval has a float64 in its middle
        for size in (*(t.nbytes for t in tensors), sum(t.nbytes for t in tensors) + middles):
            claim(size, f"the check of {show_head(use)}", use.span)
        operands = [_random(t, rng, whole, op, i, types, use.attrs) for i, t in enumerate(types)]
        with named(show_head(use), use.span):
            allowed = _outcome(lambda x: op.value(use.attrs, *[lift(v) for v in x]), operands)
            got = _outcome(lambda x: tuple(vector.run(kernel, x)), operands)
        if isinstance(allowed, Trap) or isinstance(got, Trap):
            if wrong := compare(allowed, got):
                return refuted("tested", wrong)
            continue
        wanted = allowed if isinstance(allowed, tuple) else (allowed,)
        for i, (w, g) in enumerate(zip(wanted, got, strict=True)):
            wrong = why_outside(w, g)
            if wrong:
                return refuted("tested", f"result {i} on {data}: {wrong}")
        if all(not isinstance(w, Bounded) or w.is_exact for w in wanted):
            exact = True
        elif whole and op.family in ("contraction", "reduction", "stepwise"):
            plain = _same_in_every_order(op, use, operands)
            if plain is not None and not np.array_equal(plain, got[0]):
                return refuted("tested", f"on integers, where every order is exact: {_first(plain, got[0])}")
            exact = plain is not None

    def tame() -> list[Array]:
        rng = np.random.default_rng([seed, len(kernel.name)])
        return [_random(t, rng, True, op, i, types, use.attrs) for i, t in enumerate(types)]

    wrong = try_kernel(kernel, op, use.attrs, seed, tame, KernelTrials() if tried is None else tried)
    return refuted("tested", wrong) if wrong else checked("", exact=exact)


def check_claim(kernel: PrimFunc, seed: int) -> Evidence:
    """Whether a tensor function computes the operator that its attributes name: for all contents of linked
    constants."""
    kernel = unlinked(kernel)
    if "operator" not in kernel.attrs:
        return refuted("tested", f"tensor function {kernel.name} does not say which operator it computes")
    operands = [var(b.name, TensorType(b.shape, b.dtype)) for b in kernel.inputs]
    try:
        made = call(kernel.attrs["operator"], *operands, **claimed_attributes(kernel))
    except Invalid as wrong:
        return refuted(
            "checked", f"tensor function {kernel.name} claims to be {kernel.attrs['operator']}: {wrong.message}"
        )
    wanted = [str(t) for t in flatten(made.type)]
    given = [str(TensorType(b.shape, b.dtype)) for b in kernel.outputs]
    if wanted != given:
        return refuted("checked", f"tensor function {kernel.name} gives {given}, its operator {wanted}")
    assert isinstance(made, Call)
    verdict = check_use(kernel, KernelUse(made, kernel.scalars), seed, KernelTrials(), SizesTried())
    return verdict if verdict.holds else refuted("tested", f"{kernel.name}: {verdict.detail}")


LARGE = 1 << 24
"""Elements of operands from which on only the more telling of the two kinds of data is run."""


def _cost(types: Sequence[TensorType]) -> int:
    return sum(int(np.prod(t.static_shape)) for t in types)


def _random(
    t: TensorType, rng: np.random.Generator, whole: bool, op: Operator, index: int, types: Sequence[TensorType],
    attrs: Mapping[str, Any],
) -> Array:  # fmt: skip
    """Random operand of a type: small whole numbers, or reals of both signs; indices mostly in range."""
    shape = t.static_shape
    if t.dtype.is_float:
        if whole:
            return rng.integers(-4, 5, shape, dtype=np.int8).astype(t.dtype.numpy)
        return rng.standard_normal(shape, dtype=np.float32).astype(t.dtype.numpy)
    if t.dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if op.name == "take" and index == 1:
        size = types[0].static_shape[attrs["axis"]]
        return rng.integers(-size, size, shape).astype(t.dtype.numpy) if size else np.zeros(shape, t.dtype.numpy)
    low = 1 if whole else max(int(t.dtype.min), -7)
    return rng.integers(low, 7, shape).astype(t.dtype.numpy)


def _outcome(run: Callable[[list[Array]], Any], operands: list[Array]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return run(operands)
    except Trap as trap:
        return trap


def why_outside(allowed: Any, got: Array) -> str | None:
    """Where `got` is not what is allowed, if anywhere: the worst element, its interval and its value."""
    if allowed.shape != got.shape or allowed.dtype != got.dtype:
        return f"Tensor({got.shape}, {got.dtype}) instead of Tensor({allowed.shape}, {allowed.dtype})"
    if not isinstance(allowed, Bounded) or allowed.is_exact:
        want = np.asarray(allowed.raw if isinstance(allowed, Bounded) else allowed)
        different = want != got
        if dtype(want.dtype).is_float:
            different &= ~(np.isnan(want) & np.isnan(got))
        return _first(want, got) if bool(np.any(different)) else None
    inside = contains(allowed, got)
    if bool(np.all(inside)):
        return None
    distance = np.where(inside, -1.0, np.abs(got.astype(np.float64) - allowed.value) - allowed.radius)
    distance = np.where(np.isnan(distance), np.inf, distance)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), got.shape))
    low, high = allowed.interval()
    count = int(np.size(inside) - np.count_nonzero(inside))
    among = f" among numbers of {allowed.narrow}" if allowed.narrow is not None else ""
    return (
        f"element {at} is {float(got[at])!r}, allowed is [{float(low[at])!r}, {float(high[at])!r}]{among}"
        f" ({count} of {got.size} outside)"
    )


def _same_in_every_order(op: Operator, use: Call, operands: Sequence[Array]) -> Array | None:
    """The result on whole numbers of at most 4, if no partial sum, in any order, can be too large to be exact."""
    of = dtype(operands[0].dtype)
    match op.name:
        case "matmul":
            most = 16 * operands[0].shape[-1]
        case "sum":
            most = 4 * operands[0].size
        case "max" | "min":
            most = 4
        case name if name.startswith("nn.conv"):
            most = 16 * operands[1][0].size + 4
        case _:
            return None
    if not of.is_float or most >= 1 / of.unit_roundoff:
        return None
    wide = [x.astype(np.float64) for x in operands]
    return np.asarray(op.value(use.attrs, *wide)).astype(of.numpy)


def _first(wanted: Array, got: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wanted != got)[0])
    return f"element {at} is {got[at]}, must be {wanted[at]}"
