"""What may be wrong inside TVM, as a list of small detectors (specs/verify.md, "Inside a backend").

Each looks at one compilation and tells what it finds, with the pass after which it is first so. They overlap on
purpose: a wrong plan is seen in the memory that it describes, in values, and in the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from assay.interp import vector
from assay.lower.frontends.tvm import read_tvm
from assay.lower.frontends.tvm.objects import Object, op_name, type_key
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import FuncType, TensorType, Type, flatten
from assay.semantics.walk import occurrences
from assay.verify.tvm.kernels import UNDEFINED, KernelReport, judge_calls
from assay.verify.tvm.meaning import observed, run_main
from assay.verify.tvm.passes import WRONG, Judge, JudgedPass, verdicts
from assay.verify.tvm.peer import Array, main_of
from assay.verify.tvm.watch import Compilation, WatchedPass, outputs, watch
from tests.verify.tvm import wraps
from tests.verify.tvm.walk import bindings, nodes

MEMORY = ("out of bounds", "unwritten read", "unwritten output", "outside lifetime")
"""Kinds of traps on memory."""
STORAGE = (*(f"tvm.P{n}" for n in (1, 2, 3, 4, 6, 7)), "tvm.C10")
"""What the storage model refuses: a plan whose live tensors overlap or do not fit, a use that its definition does not
dominate."""
COMPUTING = ("FoldConstant", "LegalizeOps", "DecomposeOps", "ToMixedPrecision", "LiftTransformParams", "BindParams")
"""Passes that may make constants that were not there, or do without some."""


@dataclass(frozen=True)
class DetectorFinding:
    """What a detector found: the pass after which it is first so, the function, and what is wrong."""

    detector: str
    stage: str
    function: str
    what: str

    def __str__(self) -> str:
        at = f" ({self.function})" if self.function else ""
        return f"{self.detector}: {self.stage}{at}: {self.what}"


@dataclass
class Subjects:
    """One compilation, and the arguments that it is run on."""

    trace: Compilation
    arguments: Sequence[Any]
    seed: int = 0

    @cached_property
    def stages(self) -> list[WatchedPass]:
        """The passes that TVM ran."""
        return list(self.trace.stages())

    @cached_property
    def verdicts(self) -> list[JudgedPass]:
        """The verdict on each pass."""
        return list(verdicts(self.trace, Judge(self.arguments)))

    @cached_property
    def calls(self) -> KernelReport:
        """The verdicts on the calls of kernels."""
        return judge_calls(self.trace, self.arguments)


Find = Callable[[Subjects], Iterator[DetectorFinding]]


@dataclass(frozen=True)
class Detector:
    """A detector with its letter, and the faults of TVM's past that it is for."""

    letter: str
    name: str
    find: Find
    past: tuple[int, ...] = field(default=())


def detect(mod: Object, arguments: Sequence[Any], pipeline: Any = "default", seed: int = 0) -> list[DetectorFinding]:
    """What all detectors find in one compilation. Invalid (backend.C2) where TVM refuses the module."""
    subjects = Subjects(watch(mod, pipeline, mutations=True), arguments, seed)
    return [f for d in DETECTORS for f in d.find(subjects)]


def values(of: Subjects) -> Iterator[DetectorFinding]:
    """(a) A pass, or the machine on poisoned memory, gives other results."""
    for v in of.verdicts:
        if v.how == "changed" and v.why not in (*MEMORY, *UNDEFINED):
            yield DetectorFinding("a", v.name, v.function, v.detail)
    for call in of.calls.verdicts:
        if call.how in ("wrong", "overwritten"):
            yield DetectorFinding("a", "the machine", call.name, str(call))


def storage(of: Subjects) -> Iterator[DetectorFinding]:
    """(b) A memory plan whose live tensors overlap or do not fit, or a use that is not dominated by its definition."""
    for v in of.verdicts:
        if v.how == "refused" and v.why in STORAGE:
            yield DetectorFinding("b", v.name, v.function, v.detail)
    for call in of.calls.verdicts:
        if call.how == "overwritten":
            yield DetectorFinding("b", "the machine", call.name, str(call))


def memory_faults(of: Subjects) -> Iterator[DetectorFinding]:
    """(c) A read of what was never written, or an access out of bounds, where there was none."""
    for v in of.verdicts:
        if v.how == "changed" and v.why in MEMORY:
            yield DetectorFinding("c", v.name, v.function, v.detail)


def undefined(of: Subjects) -> Iterator[DetectorFinding]:
    """(d) An operation that has no meaning on its numbers, where there was none: a shift, a division by zero, a cast
    out of range, or whole numbers that wrap."""
    for v in of.verdicts:
        if v.how == "changed" and v.why in UNDEFINED:
            yield DetectorFinding("d", v.name, v.function, v.detail)
    before = False
    for stage in of.stages:
        if not stage.graph:
            return
        found = wrapping(stage, of.arguments)
        if found is not None and not before:
            yield DetectorFinding("d", stage.name, str(found.where or ""), str(found))
        before = found is not None


def wrapping(stage: WatchedPass, arguments: Sequence[Any]) -> Trap | None:
    """Where whole numbers wrap in the tensor functions of a stage, if they do and it is read."""

    def run(func: Any, inputs: Any, *, scalars: Sequence[Any] = (), **more: Any) -> Any:
        return vector.run(wraps.trapping(func), inputs, scalars=scalars, **more)

    try:
        run_main(read_tvm(stage.module).module, arguments, run)
    except Trap as trap:
        return trap if trap.kind == wraps.KIND else None
    except Invalid:
        return None
    return None


def size_faults(of: Subjects) -> Iterator[DetectorFinding]:
    """(e) A size that is used and has no value, or a check of sizes that is lost: sizes that must be equal, and are
    not."""
    for v in of.verdicts:
        if v.how == "refused" and v.why not in STORAGE and v.why != DECLARED:
            yield DetectorFinding("e", v.name, v.function, v.detail)
    for what, arguments in other_sizes(of):
        judge = Judge(arguments)
        for stage in of.stages:
            v = judge.stage(stage)
            if v.how in WRONG:
                yield DetectorFinding("e", v.name, v.function, f"with {what}: {v.detail}")
                break


def other_sizes(of: Subjects) -> Iterator[tuple[str, list[Any]]]:
    """The arguments with one place of a symbolic size larger by two, for each place; and with all of a size."""
    try:
        params = read_tvm(of.trace.source).module.main.params
    except Invalid:
        return
    random = np.random.default_rng(of.seed)
    places = [
        (i, k, d)
        for i, p in enumerate(params)
        if isinstance(p.type, TensorType)
        for k, d in enumerate(p.type.shape)
        if isinstance(d, Symbol)
    ]
    for i, k, d in places:
        yield f"{params[i].name}.shape[{k}] larger", _grown(of.arguments, {(i, k)}, random)
        together = {(j, m) for j, m, other in places if other is d}
        if len(together) > 1:
            yield f"{d.name} larger", _grown(of.arguments, together, random)


def _grown(arguments: Sequence[Any], places: set[tuple[int, int]], random: np.random.Generator) -> list[Any]:
    made = list(arguments)
    for i in {i for i, _ in places}:
        shape = tuple(n + 2 * ((i, k) in places) for k, n in enumerate(made[i].shape))
        of = made[i].dtype
        made[i] = (random.standard_normal(shape) if dtype(of).is_float else random.integers(0, 2, shape)).astype(of)
    return made


def constants(of: Subjects) -> Iterator[DetectorFinding]:
    """(f) A constant is lost and no other one came: two that differ were taken for one, or its contents were
    changed."""
    graphs = [s for s in of.stages if s.graph]
    for before, after in pairwise(graphs):
        if after.name.partition(" #")[0] in COMPUTING:
            continue
        was, now = fingerprints(before.module, live=True), fingerprints(after.module, live=False)
        for key, (shape, of_type) in was.items():
            if key not in now:
                yield DetectorFinding(
                    "f",
                    after.name,
                    "",
                    f"a constant Tensor({shape}, {of_type}) with the digest {key[:8]} is no longer there",
                )
        made = now.keys() - fingerprints(before.module, live=False).keys()
        for key in made:
            shape, of_type = now[key]
            yield DetectorFinding(
                "f",
                after.name,
                "",
                f"a constant Tensor({shape}, {of_type}) with the digest {key[:8]} has come from nowhere",
            )


def fingerprints(mod: Object, live: bool) -> dict[str, tuple[tuple[int, ...], str]]:
    """The contents of the tensor constants of a module, those of one element apart: they may become literals. With
    `live` only those that a result depends on."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for _, f in mod.functions.items():
        if type_key(f) != "relax.expr.Function":
            continue
        for o in nodes(f, live):
            if type_key(o) == "ir.GenericConst" and hasattr(o.value, "numpy"):
                data = np.ascontiguousarray(o.value.numpy())
                if data.size > 1:
                    head = f"{data.dtype}{data.shape}".encode()
                    found[blake2b(head + data.tobytes(), digest_size=16).hexdigest()] = data.shape, str(data.dtype)
    return found


def devices(of: Subjects) -> Iterator[DetectorFinding]:
    """(g) A pass changes the module that it was given; or a value is used on a device where it is not."""
    for p in of.trace.passed:
        if p.mutated:
            yield DetectorFinding("g", p.name, "", "the module that the pass was given is another one after it")
    before: Counter[str] | None = None
    results: list[str] = []
    for stage in (s for s in of.stages if s.graph):
        crossing = Counter(crossings(stage.module))
        if before is not None and (new := crossing - before):
            yield DetectorFinding("g", stage.name, "main", "; ".join(new))
        now = [scope_of_type(t) for t in _tensors(main_of(stage.module).ret_ty)]
        if any(w and n and n != w for w, n in zip(results, now, strict=False)):
            yield DetectorFinding(
                "g", stage.name, "main", f"the result lives on {', '.join(now)}, was {', '.join(results)}"
            )
        before, results = crossing, now


def scope_of_type(of: Object) -> str:
    """Where a tensor type says that its values live, "" if it does not."""
    v = of.vdevice
    return "" if v is None else f"{v.target.kind.name}:{int(v.vdevice_id)}:{v.memory_scope}"


MOVES = ("relax.to_vdevice", "relax.hint_on_device")


def crossings(mod: Object) -> Iterator[str]:
    """The calls whose operands and result are said to be on several devices, and that move nothing."""
    for name, f in mod.functions.items():
        for var, value in bindings(f) if type_key(f) == "relax.expr.Function" else ():
            if type_key(value) != "ir.Call" or op_name(value.op) in MOVES:
                continue
            types = [t for a in [*value.args, var] if hasattr(a, "ty") for t in _tensors(a.ty)]
            types += [t for a in value.args if type_key(a) == "ir.Tuple" for x in a.fields for t in _tensors(x.ty)]
            places = sorted({scope_of_type(t) for t in types} - {""})
            if len(places) > 1:
                yield f"{name.name_hint}: {var.name} is made of values on {' and '.join(places)}"


def _tensors(of: Object) -> Iterator[Object]:
    inside = occurrences(of, lambda t: list(t.fields) if type_key(t) == "ir.TupleType" else ())
    return (t for t in inside if type_key(t) == "relax.TensorType")


DECLARED = "tvm.C11"
"""A variable is declared to be of another type than its value."""


def declared_types(of: Subjects) -> Iterator[DetectorFinding]:
    """(h) A result has another dtype or shape than its function declares."""
    for v in of.verdicts:
        if v.how == "refused" and v.why == DECLARED:
            yield DetectorFinding("h", v.name, v.function, v.detail)
    try:
        main = read_tvm(of.trace.source).module.main
    except Invalid:
        return
    assert isinstance(main.type, FuncType)
    declared = main.type.result
    for stage in (s for s in of.stages if s.graph):
        try:
            outcome = observed(read_tvm(stage.module).module, of.arguments)
        except Invalid:
            continue
        if outcome.trap is None and (wrong := mistyped(declared, outcome.values)):
            yield DetectorFinding("h", stage.name, "main", wrong)
            return
    try:
        wrong = mistyped(declared, outputs(of.trace, list(of.arguments)))
    except Invalid:
        return
    if wrong:
        yield DetectorFinding("h", "the machine", "main", wrong)


def mistyped(declared: Type, results: Sequence[Array]) -> str | None:
    """Which result is not of the type that is declared, if one is not."""
    wanted = [t for t in flatten(declared)]
    if len(wanted) != len(results):
        return f"{len(results)} results instead of {len(wanted)}"
    for k, (t, r) in enumerate(zip(wanted, results, strict=True)):
        fixed = all(not isinstance(d, int) or d == n for d, n in zip(t.shape, r.shape, strict=False))
        if dtype(r.dtype) is not t.dtype or len(t.shape) != r.ndim or not fixed:
            return f"result {k} is Tensor({r.shape}, {r.dtype}), declared is {t}"
    return None


DETECTORS: tuple[Detector, ...] = (
    Detector("a", "values", values, (20190, 20207, 16852, 17799, 15911, 16296)),
    Detector("b", "storage", storage, (20190, 20207, 20134, 20191, 17348, 18663, 14357, 19577)),
    Detector("c", "memory", memory_faults, (20262, 20307, 19578, 13976)),
    Detector("d", "undefined", undefined, (12383, 18694, 20268, 19542)),
    Detector("e", "sizes", size_faults, (20195, 20262, 20260, 18663)),
    Detector("f", "constants", constants, (19801, 20007, 17231)),
    Detector("g", "devices", devices, (17205, 17213, 16959)),
    Detector("h", "types", declared_types, (20282, 20281)),
)
"""The detectors, each with faults of TVM's past that it is for (numbers of issues and changes of apache/tvm)."""
