"""Runs each tensor function in the way that is chosen for it (specs/verify.md, "Kernels for unknown sizes").

    dispatch = Dispatcher(parse_choices("specialized"))
    graph.run(module, inputs, kernel=dispatch)
    dispatch.statistics.data()

It stands where `interp.vector.run` does, in every runner. All of it may be called from many threads.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from assay.interp import vector
from assay.interp.binding import bind_dims, check_shape, hidden_symbols, shape_at
from assay.lower.c.single import symbols_of_kernel
from assay.semantics.analyses.equality import structural_hash
from assay.semantics.errors import EnvironmentFailure, Trap, Unsupported
from assay.semantics.scalar import Var
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.verify.dispatch import library, reference
from assay.verify.dispatch.cache import BoundedCache
from assay.verify.dispatch.choice import Choice, Choices
from assay.verify.dispatch.guarded import GuardedOutput
from assay.verify.dispatch.key import CallKey, ObjectKey, call_key
from assay.verify.dispatch.neutral import PROVING, why_not_neutral
from assay.verify.dispatch.objects import KernelCompiler, KernelObject
from assay.verify.dispatch.padding import cut_back, padded, targets
from assay.verify.dispatch.recording import RecordedSizes
from assay.verify.dispatch.sized import with_numbers
from assay.verify.dispatch.statistics import FunctionStatistics, KernelStatistics
from assay.verify.dispatch.tiers import USUAL, Horizon, Kind, Results, Tier, Tiers

Array = np.ndarray[Any, Any]
Sizes = Mapping[Var, int]

MOST_OBJECTS = 256
"""Kernels that are loaded at once."""
MOST_CALLS = 1024
"""Sizes of one function that are remembered."""


@dataclass(eq=False)
class KnownCall:
    """A function at the sizes of one call."""

    sizes: dict[Var, int]
    outputs: tuple[tuple[int, ...], ...]
    tier: Tier
    target: dict[Var, int] | None = None
    """The sizes that it is padded to, once they are found; none where it is not."""
    compared: bool = False
    """Whether what padding, or the library, gives at these sizes was compared."""


@dataclass(eq=False)
class KnownFunction:
    """A tensor function, and what is known of it."""

    func: PrimFunc
    choice: Choice
    statistics: FunctionStatistics
    unfit: str = ""
    """Why it is interpreted, whatever was chosen."""
    digest: str = ""
    order: tuple[Var, ...] = ()
    tiers: Tiers = field(default_factory=Tiers)
    calls: BoundedCache[CallKey, KnownCall] = field(default_factory=lambda: BoundedCache(MOST_CALLS))
    has_no_c: dict[ObjectKey, str] = field(default_factory=dict)


@dataclass(eq=False)
class Dispatcher:
    """Runs tensor functions. `most` objects are held at once; `compiler` has the store."""

    choices: Choices
    compiler: KernelCompiler = field(default_factory=KernelCompiler)
    most: int = MOST_OBJECTS
    recording: RecordedSizes = field(default_factory=RecordedSizes)
    horizon: Horizon = field(default_factory=Horizon)
    statistics: KernelStatistics = field(default_factory=KernelStatistics)
    known: dict[tuple[int, int], KnownFunction] = field(default_factory=dict)
    by_digest: dict[str, KnownFunction] = field(default_factory=dict)
    neutral: dict[tuple[int, frozenset[Var]], str] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.objects: BoundedCache[ObjectKey, KernelObject] = BoundedCache(self.most, self.evicted)
        self.compiled = FunctionStatistics("all", "")

    def evicted(self, key: ObjectKey) -> None:
        """A kernel has gone to make room."""
        self.statistics.count(self.by_digest[key.callee].statistics, "evicted")

    def __call__(
        self,
        func: PrimFunc,
        inputs: Sequence[Array],
        *,
        outputs: Sequence[Array] | None = None,
        scratch: Sequence[Array] | None = None,
        scalars: Sequence[Any] = (),
        is_padded: bool = False,
        **more: Any,
    ) -> tuple[Array, ...]:
        """The outputs of `func`, as `interp.vector.run`. `is_padded`: the sizes are those that main is padded to.
        KernelDiffers: a kernel does something else."""
        known = self.function(func)
        started = time.perf_counter()
        try:
            if known.unfit:
                return self.interpreted(known, func, inputs, scalars, known.unfit, outputs, more)
            arrays = [np.asarray(a, order="C") for a in inputs]
            numbers = [int(x) for x in scalars]
            key = call_key(known.digest, arrays, numbers)
            call, _ = known.calls.get(key, partial(self.bound, known, arrays, numbers))
            if outputs is not None:
                for b, given in zip(known.func.outputs, outputs, strict=True):
                    check_shape(known.func, b, given, call.sizes)
            if is_padded and known.choice.pads:
                made = self.plain(known, call, arrays, numbers, call.sizes)
            else:
                made = self.run(known, call, arrays, numbers)
        finally:
            self.statistics.count(known.statistics, running=time.perf_counter() - started)
        if outputs is None:
            return made
        for given, result in zip(outputs, made, strict=True):
            np.copyto(given, result)
        return tuple(outputs)

    # --- what is known ---------------------------------------------------------------------------------------------

    def function(self, func: PrimFunc) -> KnownFunction:
        """What is known of a function. One that a run opens for sizes of results is the same each time: its body is."""
        key = id(func.body), len(func.scalars)
        with self.lock:
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = self.met(func)
                self.by_digest.setdefault(found.digest, found)
            return found

    def met(self, func: PrimFunc) -> KnownFunction:
        """A function that is seen for the first time."""
        choice = self.choices.of(func)
        claim = func.attrs.get("operator")
        counts = self.statistics.of(func.name, str(choice), claim if isinstance(claim, str) else "")
        made = KnownFunction(func, choice, counts)
        if choice.way == "interpreted":
            made.unfit = "as was asked for"
        elif calls_of(func):
            made.unfit = "it calls other functions"
        elif any(not s.dtype.is_integer for s in func.scalars):
            made.unfit = "it takes a number that is no size"
        made.digest = structural_hash(func)
        made.order = symbols_of_kernel(func)
        return made

    def bound(self, known: KnownFunction, arrays: Sequence[Array], numbers: Sequence[int]) -> KnownCall:
        """The sizes of a call, where they fit: a symbol that comes twice has one value. Invalid where they do not."""
        func = known.func
        sizes = bind_dims(func, arrays, numbers)
        return KnownCall(sizes, tuple(shape_at(b, sizes) for b in func.outputs), Tier())

    def target(self, known: KnownFunction, call: KnownCall) -> dict[Var, int] | None:
        """The sizes to pad to; None, with a note, where it cannot be."""
        if call.target is None:
            found, why = targets(known.choice, {v.name: n for v, n in call.sizes.items()})
            if found:
                reason = self.why_not_neutral(known.func, {v for v in call.sizes if v.name in found})
                why = f"not padded, {reason}: generic" if reason else ""
            if why:
                self.statistics.note(known.statistics, why)
            is_padded = found and not why
            call.target = {v: found.get(v.name, n) for v, n in call.sizes.items()} if is_padded else {}
        return call.target or None

    def why_not_neutral(self, func: PrimFunc, grown: Collection[Var]) -> str:
        """As `neutral.why_not_neutral`, asked once for each function."""
        key = id(func.body), frozenset(grown)
        with PROVING:
            if key not in self.neutral:
                self.neutral[key] = why_not_neutral(func, grown)
            return self.neutral[key]

    # --- the ways --------------------------------------------------------------------------------------------------

    def run(
        self, known: KnownFunction, call: KnownCall, arrays: Sequence[Array], numbers: Sequence[int]
    ) -> tuple[Array, ...]:
        """The results of a call in the way that is chosen."""
        again = partial(self.plain, known, call, arrays, numbers)
        match known.choice.way:
            case "specialized":
                return again(call.sizes)
            case "range":
                named = {v: n for v, n in call.sizes.items() if n in dict(known.choice.sizes).get(v.name, ())}
                wanted = {v for v in call.sizes if v.name in dict(known.choice.sizes)}
                return again(named if set(named) == wanted else {})
            case "padded" | "buckets" if (target := self.target(known, call)) is not None:
                return self.run_padded(known, call, arrays, numbers, target)
            case "library":
                why = library.why_not(known.func, arrays)
                if not why:
                    return self.run_library(known, call, arrays)
                self.statistics.note(known.statistics, f"not by the library, {why}: generic")
                return again({})
            case "recorded":
                return again(call.sizes if self.recording.seen(known.digest, known.order, call.sizes) else {})
            case "auto":
                by_kind = partial(self.by_kind, known, call, arrays, numbers)
                adopt = partial(self.adopt, known, call, arrays, numbers)
                return call.tier.run(known.tiers, self.horizon, self.cost(known), by_kind, adopt)
            case _:
                return again({})

    def by_kind(
        self, known: KnownFunction, call: KnownCall, arrays: Sequence[Array], numbers: Sequence[int], kind: Kind
    ) -> tuple[Array, ...]:
        """The results by the kernel that a call is worth."""
        if kind == "interpreted":
            return self.interpreted(known, known.func, arrays, numbers, "")
        return self.plain(known, call, arrays, numbers, call.sizes if kind == "special" else {})

    def adopt(
        self, known: KnownFunction, call: KnownCall, arrays: Sequence[Array], numbers: Sequence[int], made: Results
    ) -> None:
        """Have the kernel for all sizes made, and its first use compared with what the interpreter has given."""
        found, _ = self.kernel(known, {})
        if not isinstance(found, str) and found.takes(own_sizes(known, found, call.sizes)):
            self.called(known, found, call.sizes, arrays, numbers, made)

    def cost(self, known: KnownFunction) -> float:
        """What compiling a kernel of this function takes, as far as it is known: as its last one, or as others."""
        for counts in (known.statistics, self.compiled):
            if counts.counts["compiled"]:
                return counts.seconds / counts.counts["compiled"]
        return USUAL

    def plain(
        self,
        known: KnownFunction,
        call: KnownCall,
        arrays: Sequence[Array],
        numbers: Sequence[int],
        values: Sizes,
    ) -> tuple[Array, ...]:
        """The results by a kernel that has these values for its symbols."""
        found, outcome = self.kernel(known, values)
        if not isinstance(found, str) and not found.takes(own_sizes(known, found, call.sizes)):
            found = "its sizes are more than the C for all sizes takes"
        if isinstance(found, str):
            return self.interpreted(known, known.func, arrays, numbers, found)
        made = self.called(known, found, call.sizes, arrays, numbers)
        self.statistics.count(known.statistics, "calls", outcome)
        return made

    def kernel(self, known: KnownFunction, values: Sizes) -> tuple[KernelObject | str, str]:
        """A kernel, and whether it is a hit or a miss; or why there is none."""
        key = ObjectKey.of(known.digest, known.order, values)
        if key in known.has_no_c:
            return known.has_no_c[key], ""
        try:
            found, hit = self.objects.get(
                key, lambda: self.compiler.make(with_numbers(known.func, values), known.order)
            )
        except Unsupported as wrong:
            known.has_no_c[key] = f"it has no C: {wrong.message}"
            return known.has_no_c[key], ""
        except EnvironmentFailure as wrong:
            if wrong.label != "compiled.C1":
                raise
            self.statistics.note(None, f"interpreted where no kernel was stored: {wrong.message}")
            return "", ""
        if not hit:
            how = "stored" if found.stored else "compiled"
            self.statistics.count(known.statistics, how, seconds=found.seconds, nbytes=found.nbytes)
            self.statistics.count(self.compiled, how, seconds=found.seconds)
        return found, "hits" if hit else "misses"

    def called(
        self,
        known: KnownFunction,
        kernel: KernelObject,
        sizes: Sizes,
        arrays: Sequence[Array],
        numbers: Sequence[int],
        wanted: Results | None = None,
    ) -> tuple[Array, ...]:
        """The results of a kernel. The first use is compared, with `wanted` if that is known, while other threads that
        want it wait."""
        if not kernel.checked:
            with kernel.lock:
                if not kernel.checked:
                    made = self.first_use(known, kernel, sizes, arrays, numbers, wanted)
                    kernel.checked = True
                    return made
        func = known.func
        outputs = [np.empty(shape_at(b, sizes), b.dtype.numpy) for b in func.outputs]
        if self.enter(kernel, own_sizes(known, kernel, sizes), arrays, outputs):
            return self.trapped(known, arrays, numbers)
        return tuple(outputs)

    def enter(self, kernel: KernelObject, sizes: Sizes, arrays: Sequence[Array], outputs: Sequence[Array]) -> int:
        """Run a kernel, with memory for what it allocates; the status."""
        scratch = [np.empty(shape_at(b, sizes), b.dtype.numpy) for b in kernel.func.allocations]
        return kernel.call(arrays, outputs, scratch, sizes)

    def first_use(
        self,
        known: KnownFunction,
        kernel: KernelObject,
        sizes: Sizes,
        arrays: Sequence[Array],
        numbers: Sequence[int],
        wanted: Results | None,
    ) -> tuple[Array, ...]:
        """The results, compared with those of the function for all sizes; and the sizes that its shape function gives
        with what the kernel wrote."""
        func = known.func
        guarded = [GuardedOutput.make(shape_at(b, sizes), b.dtype) for b in func.outputs]
        status = self.enter(kernel, own_sizes(known, kernel, sizes), arrays, [g.array for g in guarded])
        if status:
            return self.trapped(known, arrays, numbers)
        told = ", ".join(f"{v.name} = {sizes[v]}" for v in known.order) or "no sizes"
        try:
            wanted = reference.by_definition(func, arrays, numbers) if wanted is None else wanted
        except Trap as trap:
            raise reference.KernelDiffers(f"{func.name} at {told} gives a value where it has to trap: {trap}") from None
        reference.compare_guarded(func, f"{func.name} at {told}", wanted, guarded)
        self.statistics.count(known.statistics, "checked")
        return tuple(np.array(g.array) for g in guarded)

    def trapped(self, known: KnownFunction, arrays: Sequence[Array], numbers: Sequence[int]) -> tuple[Array, ...]:
        """The trap of a call, as the definition has it."""
        reference.by_definition(known.func, arrays, numbers)
        raise reference.KernelDiffers(f"{known.func.name} traps in C where its function does not")

    def interpreted(
        self,
        known: KnownFunction,
        func: PrimFunc,
        inputs: Sequence[Array],
        scalars: Sequence[Any],
        why: str,
        outputs: Sequence[Array] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> tuple[Array, ...]:
        """The results by the interpreter."""
        self.statistics.count(known.statistics, "calls", "interpreted")
        if why:
            self.statistics.note(known.statistics, f"interpreted, {why}")
        with PROVING:
            return vector.run(func, inputs, outputs=outputs, scalars=scalars, **(more or {}))

    def run_padded(
        self,
        known: KnownFunction,
        call: KnownCall,
        arrays: Sequence[Array],
        numbers: Sequence[int],
        target: Mapping[Var, int],
    ) -> tuple[Array, ...]:
        """The results at larger sizes, cut back. Where padding makes it trap, the sizes stay as they are."""
        func = known.func
        large = [padded(a, shape_at(b, target)) for a, b in zip(arrays, func.inputs, strict=True)]
        scalars = [target[s] for s in func.scalars]
        found, outcome = self.kernel(known, target)
        if isinstance(found, str):
            return self.interpreted(known, func, arrays, numbers, found)
        try:
            made = self.called(known, found, target, large, scalars)
        except Trap:
            self.statistics.note(known.statistics, "it traps on padding: generic")
            return self.plain(known, call, arrays, numbers, {})
        results = tuple(cut_back(a, shape) for a, shape in zip(made, call.outputs, strict=True))
        if not call.compared:
            wanted = reference.by_definition(func, arrays, numbers)
            reference.require_equal(func, f"{func.name}, padded,", wanted, results)
            self.statistics.count(known.statistics, "checked")
            call.compared = True
        whole = sum(a.size for a in (*large, *made))
        wasted = whole - sum(a.size for a in (*arrays, *results))
        self.statistics.count(known.statistics, "calls", outcome, "padded", elements=whole, wasted=wasted)
        return results

    def run_library(self, known: KnownFunction, call: KnownCall, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The result of a library, which must lie within the bound of the operator."""
        made = library.run(known.func, arrays, call.outputs[0])
        if not call.compared:
            reference.require_within(known.func, arrays, made)
            self.statistics.note(known.statistics, "by NumPy's product: within the operator's bound, not bit for bit")
            self.statistics.count(known.statistics, "checked")
            call.compared = True
        self.statistics.count(known.statistics, "calls", "library")
        return (made,)

    # --- beforehand ------------------------------------------------------------------------------------------------

    def beforehand(self, functions: Mapping[str, PrimFunc]) -> None:
        """Make what is asked for before a run: the sizes of ranges, and those that were recorded. They are no more than
        may be loaded at once; the others are made when they are wanted."""
        left = self.most
        for func in functions.values():
            hidden = hidden_symbols(func)
            known = self.function(replace(func, scalars=(*func.scalars, *hidden)) if hidden else func)
            if known.unfit:
                continue
            count, wanted = self.wanted_beforehand(known)
            for values in islice(wanted, left):
                self.kernel(known, values)
            if count > left:
                made = f"{left} of its {count} kernels are made before the run: --kernel-cache {self.most} is full"
                self.statistics.note(known.statistics, made)
            left = max(left - count, 0)

    def wanted_beforehand(self, known: KnownFunction) -> tuple[int, Iterator[Sizes]]:
        """How many kernels of a function are asked for before a run, and at which sizes."""
        if known.choice.way == "recorded":
            recorded = self.recording.of(known.func.name, known.digest, known.order)
            return len(recorded), iter(recorded)
        if known.choice.way != "range":
            return 0, iter(())
        given = dict(known.choice.sizes)
        symbols = [v for v in known.order if v.name in given]
        if not symbols:
            self.statistics.note(known.statistics, "no size of it is in the range: generic")
            return 0, iter(())
        rows = product(*(given[v.name] for v in symbols))
        every = (dict(zip(symbols, numbers, strict=True)) for numbers in rows)
        return prod(len(given[v.name]) for v in symbols), every


def own_sizes(known: KnownFunction, kernel: KernelObject, sizes: Sizes) -> dict[Var, int]:
    """Sizes by the symbols that a kernel knows them by: it may be of a function that is this one up to names."""
    return {own: sizes[v] for own, v in zip(kernel.order, known.order, strict=True)}
