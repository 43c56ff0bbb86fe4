"""Each call of a kernel by TVM's virtual machine judged on its live arguments (specs/verify.md, "Inside a backend").

Arguments are copied before the call and compared after it; memory is filled with ones whenever a tensor is allocated,
so what is read unwritten, or was given away too early, shows. Two questions are asked of each call: did the kernel do
what its definition does with these operands, and are these operands still what their producer left? The second needs
the same program as values, which is the last stage that our import reads; its calls come in the same order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from assay.interp.values import same_bits
from assay.lower.frontends.tvm import read_tvm
from assay.lower.frontends.tvm.kernels import Kernel, Kernels, KernelUse
from assay.lower.frontends.tvm.objects import Object, type_key
from assay.lower.frontends.tvm.scalars import VariableTable
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.verify.legalize import why_outside
from assay.verify.tvm.intervals import known_bounds
from assay.verify.tvm.meaning import KernelCall, beyond, mismatched, observed, run_kernel
from assay.verify.tvm.peer import Array, as_tvm, call as call_main, is_tensor, relax
from assay.verify.tvm.results import declared_results
from assay.verify.tvm.watch import Compilation, WatchedPass, watch

How = Literal["right", "rounded", "undecided", "wrong", "overwritten", "undefined", "not judged"]
"""*right*: bit for bit what the definition gives. *rounded*: rounded otherwise, inside the bounds of the definition.
*undecided*: other numbers, and no bounds are known. *wrong*: another result, or memory out of
bounds or never written. *overwritten*: an operand is not what its producer left. *undefined*: the operation has no
meaning on these numbers (a shift by the width, a division by zero, a cast out of range), so nothing is compared."""

WRONG: tuple[How, ...] = ("wrong", "overwritten")
DEADLY = ("tvm.C10", "tvm.P2")
"""What makes TVM's machine read memory that was never allocated, or was given back: the process dies."""
UNDEFINED = ("division by zero", "shift", "cast")
"""Kinds of traps where TVM's code is undefined too."""


@dataclass(frozen=True)
class CallVerdict:
    """The verdict on one call: `index` counts the calls of kernels in the run."""

    index: int
    name: str
    how: How
    detail: str = ""

    def __str__(self) -> str:
        return f"call {self.index} of {self.name}: {self.how}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class KernelReport:
    """The verdicts on the calls in order. `flow` says whether operands could be followed to their producers."""

    pipeline: str
    verdicts: tuple[CallVerdict, ...]
    flow: str = ""

    @property
    def first(self) -> CallVerdict | None:
        """The first call that is wrong."""
        return next((v for v in self.verdicts if v.how in WRONG), None)

    @property
    def holds(self) -> bool:
        """Whether no call is wrong."""
        return self.first is None


@dataclass(frozen=True, eq=False)
class Live:
    """One call of a kernel in the machine: its arguments before and after, and where each lies in memory."""

    name: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]
    """The address and the bytes of each argument; (0, 0) for a scalar."""


@dataclass
class KernelRecording:
    """The calls of kernels in one run of the machine."""

    kernels: frozenset[str]
    poison: bool = True
    calls: list[Live] = field(default_factory=list)
    open: list[tuple[Any, ...]] = field(default_factory=list)

    def __call__(self, func: Any, name: Any, before: bool, result: Any, *args: Any) -> Any:
        """Keep a call's arguments before and after it; new memory is filled with garbage if wanted."""
        if not before and self.poison and str(name) == "vm.builtin.alloc_tensor" and is_tensor(result):
            fill(result)
        if str(name) in self.kernels:
            values = tuple(np.array(a.numpy()) if is_tensor(a) else a for a in args)
            if before:
                self.open.append(values)
            else:
                places = tuple(map(memory_place, args))
                self.calls.append(Live(str(name), self.open.pop(), values, places))
        return relax().VMInstrumentReturnKind.NO_OP


def memory_place(value: Any) -> tuple[int, int]:
    """The address and the bytes of a tensor; (0, 0) for a scalar."""
    if not is_tensor(value):
        return 0, 0
    return int(value.data_ptr()), int(np.prod(value.shape, dtype=np.int64)) * np.dtype(value.numpy().dtype).itemsize


def fill(value: Any) -> None:
    """Ones in every bit: NaN as floats, -1 as signed integers; no number as bool."""
    address, size = memory_place(value)
    if size:
        ctypes.memset(address, 0xFF, size)


def run_recorded(
    trace: Compilation, arguments: Sequence[Any], poison: bool = True
) -> tuple[KernelRecording, Any, list[Any]]:
    """One run of the compiled code: the calls of its kernels, its result, and the arguments that it was given."""
    names = {
        str(g.name_hint)
        for s in trace.stages()
        for g, f in s.module.functions.items()
        if type_key(f) == "tirx.PrimFunc"
    }
    recording = KernelRecording(frozenset(names), poison)
    if trace.failed is not None:
        raise trace.failed
    trace.machine.set_instrument(recording)
    given = [as_tvm(a) for a in arguments]
    return recording, call_main(trace.machine, given), given


@dataclass
class StageKernels:
    """The tensor functions of one stage, made when they are wanted."""

    functions: Mapping[str, Object]
    kernels: Kernels = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = Kernels(self.functions, VariableTable(), set(self.functions))

    def get(self, name: str, use: KernelUse) -> tuple[Kernel, Module]:
        """The kernel of this name for a use, and a module with all that were made."""
        made = self.kernels.get(name, use)
        self.kernels.pending()
        return made, Module({k.func.name: k.func for k in self.kernels.made.values()})


def judge_call(live: Live, kernel: Kernel, module: Module) -> tuple[How, str]:
    """What a call did, against the definition of its kernel on copies of what it was given."""
    func = kernel.func
    inputs = [shaped(live.before[i], b.shape) for i, b in zip(kernel.inputs, func.inputs, strict=True)]
    wanted = [live.after[i] for i in kernel.outputs]
    scalars = [*(live.before[i] for i in kernel.scalars), *result_sizes(kernel, wanted)]
    try:
        results = run_kernel(func, inputs, scalars=scalars, functions=module.kernels)
    except Trap as trap:
        return ("undefined" if trap.kind in UNDEFINED else "wrong"), f"by its definition it traps: {trap}"
    if all(same_bits(r.reshape(w.shape) if r.size == w.size else r, w) for r, w in zip(results, wanted, strict=True)):
        return "right", ""
    results = tuple(r.reshape(w.shape) if r.size == w.size else r for r, w in zip(results, wanted, strict=True))
    if (wrong := mismatched(results, wanted)) is not None:
        return "wrong", wrong
    allowed, why = known_bounds(func, inputs, scalars, module.kernels)
    if allowed is None:
        return "undecided", f"{beyond(results, wanted)}; no bounds are known: {why}"
    wrong = beyond([a.reshape(w.shape) for a, w in zip(allowed, wanted, strict=True)], wanted)
    return ("wrong", wrong) if wrong else ("rounded", "")


def shaped(value: Array, shape: Sequence[Any]) -> Array:
    """An argument as its parameter has it: a kernel in flat form may take a dense tensor in one dimension."""
    return value.reshape(-1) if len(shape) == 1 != value.ndim else value


def result_sizes(kernel: Kernel, results: Sequence[Array]) -> list[int]:
    """The sizes that only results tell."""
    found: dict[Any, int] = {}
    for b, r in zip(kernel.func.outputs, results, strict=True):
        for d, n in zip(b.shape, r.shape, strict=False):
            found.setdefault(d, int(n))
    missing = [v.name for v in kernel.sizes if v not in found]
    if missing:
        raise Unsupported(f"the size {missing[0]}, which no dim of a result is", label="tvm.C13")
    return [found[v] for v in kernel.sizes]


def judge_kernels(
    mod: Object, arguments: Sequence[Any], pipeline: Any = "default", flat: bool = False, poison: bool = True
) -> KernelReport:
    """Compile a `tvm.IRModule`, run it on `arguments`, and judge every call of a kernel.

    The definition of a kernel is its tensor function as the graph calls it, or with `flat` as it is just before it
    becomes a function of handles. Invalid (backend.C2) where TVM does not compile the module or the run fails.
    """
    trace = watch(mod, pipeline)
    return judge_calls(trace, arguments, flat, poison, pipeline if isinstance(pipeline, str) else "given")


def judge_calls(
    trace: Compilation, arguments: Sequence[Any], flat: bool = False, poison: bool = True, name: str = "given"
) -> KernelReport:
    """As `judge_kernels`, of what was compiled."""
    stages = list(trace.stages())
    graphs = [s for s in stages if s.graph]
    chosen = stages[-1] if flat else graphs[-1]
    functions = {str(g.name_hint): f for g, f in chosen.module.functions.items() if type_key(f) == "tirx.PrimFunc"}
    forms = StageKernels(functions)
    expected, known_uses, flow = followed(graphs, arguments)
    recording, result, _ = run_recorded(trace, arguments, poison)
    names = {of for of, _, _ in expected}
    mine = [k for k, c in enumerate(recording.calls) if c.name in names]
    if [recording.calls[k].name for k in mine] != [of for of, _, _ in expected]:
        flow, mine = "operands are not followed: the machine calls other kernels than the last stage that is read", []
    known = dict(zip(mine, expected, strict=True)) if mine else {}
    results = declared_results(s.module for s in graphs)
    verdicts: list[CallVerdict] = []
    for k, live in enumerate(recording.calls):
        if odd := changed_operand(live, results.get(live.name)):
            verdicts.append(CallVerdict(k, live.name, "wrong", odd))
            continue
        if k in known and (odd := overwritten(k, recording.calls, known, arguments)):
            verdicts.append(CallVerdict(k, live.name, "overwritten", odd))
            continue
        try:
            uses = (
                [known[k][1]]
                if k in known
                else known_uses.get(live.name) or either_way(forms.kernels.written(live.name))
            )
            how, detail = judge_call(live, *forms.get(live.name, uses[0]))
            for use in uses[1:] if how == "wrong" else ():
                how, detail = judge_call(live, *forms.get(live.name, use))
                if how != "wrong":
                    break
            verdicts.append(CallVerdict(k, live.name, how, detail))
        except Invalid as left:
            verdicts.append(CallVerdict(k, live.name, "not judged", str(left)))
    return KernelReport(name, tuple(verdicts), flow)


def changed_operand(live: Live, results: frozenset[int] | None) -> str | None:
    """Which operand a call has changed that is no result of it, nor lies where one does; None where it has changed
    none, or nothing says what its results are."""
    if results is None:
        return None
    memory = [live.places[i] for i in results if i < len(live.places)]
    for i, (was, now) in enumerate(zip(live.before, live.after, strict=True)):
        if i in results or not isinstance(was, np.ndarray) or same_bits(was, now):
            continue
        if not any(meet(live.places[i], place) for place in memory):
            return f"it changes its operand {i} in place, which is no result of the call: {why_outside(was, now)}"
    return None


def either_way(outputs: tuple[int, ...]) -> list[KernelUse]:
    """How a kernel may be used that the graph does not call: it fills memory, or changes it in place."""
    return [KernelUse(outputs), KernelUse(outputs, outputs)]


Expected = tuple[str, KernelUse, KernelCall]


def followed(
    graphs: Sequence[WatchedPass], arguments: Sequence[Any]
) -> tuple[list[Expected], dict[str, list[KernelUse]], str]:
    """The calls of kernels of the last stage that our import reads, as values, in order, or why there are none; and how
    that stage uses each kernel that it calls."""
    why = ""
    for stage in reversed(graphs):
        try:
            reading = read_tvm(stage.module)
            outcome = observed(reading.module, arguments)
        except Invalid as left:
            if left.label in DEADLY:
                raise Invalid(f"the compiled code is not run: after {stage.name}, {left}", label="backend.C2") from None
            why = why or f"operands are not followed: {left}"
            continue
        uses: dict[str, list[KernelUse]] = {}
        for name in outcome.begun:
            of, use = reading.uses[name]
            uses.setdefault(of, []).append(use)
        if outcome.trap is not None:
            return [], uses, f"operands are not followed: {outcome.trap}"
        return [(*reading.uses[c.name], c) for c in outcome.calls], uses, ""
    return [], {}, why


def overwritten(k: int, calls: Sequence[Live], known: Mapping[int, Expected], arguments: Sequence[Any]) -> str | None:
    """Which operand of call `k` is no longer what its producer left, and what wrote there since."""
    live, (_, use, call) = calls[k], known[k]
    places = [i for i, p in enumerate(live.places) if p != (0, 0) or isinstance(live.before[i], np.ndarray)]
    reads = [i for i in places if i not in use.outputs or i in use.changed]
    for i, x in zip(reads, call.inputs, strict=False):
        made = producer(k, x, known)
        if made is None:
            given = next((a for a in arguments if isinstance(a, np.ndarray) and _same_memory(a, x)), None)
            if given is not None and not same_bits(given.reshape(live.before[i].shape), live.before[i]):
                return f"operand {i}, an argument of main, is not what was given{_writer(live.places[i], calls[:k])}"
            continue
        at, result = made
        source = calls[at].after[sorted(known[at][1].outputs)[result]]
        if source.size != live.before[i].size or same_bits(source.reshape(live.before[i].shape), live.before[i]):
            continue
        wrong = why_outside(source.reshape(live.before[i].shape), live.before[i])
        by = _writer(live.places[i], calls[at + 1 : k], at + 1)
        return f"operand {i} is not what call {at} of {calls[at].name} left there{by}: {wrong}"
    return None


def producer(k: int, x: Array, known: Mapping[int, Expected]) -> tuple[int, int] | None:
    """Which call before `k`, and which result of it, an operand is."""
    for at in sorted((n for n in known if n < k), reverse=True):
        for result, r in enumerate(known[at][2].results):
            if _same_memory(r, x):
                return at, result
    return None


def _same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays are one, or one reshaped."""
    return a.size == b.size > 0 and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two places in memory have a byte in common."""
    return min(one[1], other[1]) > 0 and one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def _writer(place: tuple[int, int], calls: Sequence[Live], first: int = 0) -> str:
    """The first of some calls that wrote to that memory."""
    for k, c in enumerate(calls):
        for i, (address, size) in enumerate(c.places):
            if (
                meet((address, size), place)
                and isinstance(c.after[i], np.ndarray)
                and c.before[i].tobytes() != c.after[i].tobytes()
            ):
                return f"; call {first + k} of {c.name} wrote there"
    return "; its memory was allocated anew"
