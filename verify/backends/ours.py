"""Our own evaluators and C as backends (specs/verify.md, "Backends").

They are correct in several ways, so an oracle that refuses one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.lower.anf import function_to_anf
from assay.lower.c import emit
from assay.lower.instrument import run_passes
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.dtypes import FLOAT64
from assay.semantics.errors import AssayError, Crash
from assay.semantics.graph import Call, Expr, Function, call, get, let_chain, tuple_of
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.graph.limits import with_limits
from assay.semantics.graph.matching import Bound
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import FuncType, TensorType, TupleType, Type, symbols
from assay.semantics.walk import post_order
from assay.verify.app.passes import passes_for, with_passes
from assay.verify.app.stages import lowering_passes
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import FLAGS, STANDARD

LAST = -(2**63)
"""Where a backward slice ends that takes the first element too."""


def with_results(subject: Subject, wanted: Sequence[str]) -> Module:
    """The subject's module with the wanted tensors as results, by name. Unsupported (backend.C2) where the module does
    not compute one of them, or only in a branch."""
    main = subject.module.main
    outputs = list(main.attrs.get("outputs", ())) or subject.outputs
    if list(wanted) == outputs:
        return subject.module.with_(main=replace(main, attrs={**main.attrs, "outputs": tuple(wanted)}))
    others = [n for n in wanted if n not in outputs]
    for name in others:
        if name not in subject.tensors:
            raise cannot("of our own", f"it has no tensor {name!r}")
    there = {id(n) for n in post_order(main.body)}
    dead = [subject.tensors[n] for n in others if id(subject.tensors[n]) not in there]
    whole = _function(main, tuple_of(main.body, *dead)) if dead else main
    converted = function_to_anf(whole, subject.module)
    atoms = converted.atoms
    lets, _ = let_chain(converted.function.body)
    result = atoms.get(id(main.body), main.body)  # a parameter or a constant is its own
    multiple = isinstance(main.body.type, TupleType)
    results: list[Expr] = []
    for name in wanted:
        found: Expr | None
        if name in outputs:
            found = get(result, outputs.index(name)) if multiple else result
        else:
            found = atoms.get(id(subject.tensors[name]))
        if found is None:
            raise cannot("of our own", f"tensor {name!r} is only there in a branch")
        results.append(found)
    new: Expr = results[0] if len(results) == 1 and isinstance(results[0].type, TensorType) else tuple_of(*results)
    for let in reversed(lets):
        new = replace(let, type=new.type, body=new)
    return subject.module.with_(main=_function(converted.function, new, wanted))


def _function(main: Function, body: Expr, outputs: Sequence[str] = ()) -> Function:
    assert isinstance(main.type, FuncType)
    return replace(
        main, type=replace(main.type, result=body.type), body=body, attrs={**main.attrs, "outputs": tuple(outputs)}
    )


# --- NumPy --------------------------------------------------------------------------------------------------------


Change = Callable[[Expr], Expr]


def widened(node: Expr) -> Expr:
    """Floats computed in float64 and rounded once."""
    if not isinstance(node, Call) or not isinstance(node.op, Operator) or node.op.name in UNCHANGED:
        return node
    if not any(isinstance(a.type, TensorType) and _is_narrow(a.type) for a in node.args):
        return node
    args = [call("astype", a, dtype="float64") if _is_narrow(a.type) else a for a in node.args]
    return _rounded(call(node.op.name, *args, **node.attrs), node.type)


UNCHANGED = ("astype", "reinterpret", "full", "arange", "shape_of", "device_copy")


def _is_narrow(of: Type) -> bool:
    return isinstance(of, TensorType) and of.dtype.is_float and of.dtype is not FLOAT64


def _rounded(made: Expr, wanted: Type) -> Expr:
    if isinstance(wanted, TupleType):
        return tuple_of(*(_rounded(get(made, i), t) for i, t in enumerate(wanted.fields)))
    assert isinstance(wanted, TensorType) and isinstance(made.type, TensorType)
    return made if made.type.dtype is wanted.dtype else call("astype", made, dtype=wanted.dtype.name)


def reordered(node: Expr) -> Expr:
    """Sums taken from the back: the operands of reductions and products reversed along what is summed over."""
    if not isinstance(node, Call) or not isinstance(node.op, Operator):
        return node
    first = node.args[0].type if node.args else None
    if not isinstance(first, TensorType) or not first.dtype.is_float or not first.ndim:
        return node
    match node.op.name:
        case "sum" | "mean" | "prod":
            axes = node.attrs.get("axis")
            places = range(first.ndim) if axes is None else axes
            return call(node.op.name, _reversed(node.args[0], places), **node.attrs)
        case "matmul":
            a, b = node.args
            assert isinstance(b.type, TensorType)
            return call("matmul", _reversed(a, [first.ndim - 1]), _reversed(b, [max(0, b.type.ndim - 2)]))
        case "nn.conv1d" | "nn.conv2d" | "nn.conv3d" if node.attrs.get("groups", 1) == 1:
            return call(node.op.name, *(_reversed(x, [1]) for x in node.args[:2]), *node.args[2:], **node.attrs)
        case "nn.softmax" | "nn.log_softmax":
            axis = [node.attrs.get("axis", -1)]
            return _reversed(call(node.op.name, _reversed(node.args[0], axis), **node.attrs), axis)
        case _:
            return node


def _reversed(x: Expr, axes: Sequence[int]) -> Expr:
    if not axes:
        return x
    many = len(axes)
    return call("strided_slice", x, axes=tuple(axes), begin=(-1,) * many, end=(LAST,) * many, strides=(-1,) * many)


@dataclass(frozen=True)
class Numpy:
    """The graph interpreter, on the module as it is or on one whose operators were changed."""

    name: str
    change: Change | None = None

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Give a function that interprets the module, changed first if a change is wanted."""
        module = with_results(subject, wanted)
        if self.change is not None:
            try:
                changed = {n: rewrite_function(d, self.change) for n, d in module.graphs.items()}
            except AssayError as wrong:
                raise cannot(self.name, wrong) from None
            module = module.with_(**changed)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            return {n: np.asarray(v) for n, v in graph.run(module, inputs).items()}

        return run


# --- C ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnC:
    """The whole lowering, compiled with flags of its own. Symbolic sizes get those of the inputs, once for each; those
    that only a run tells get the room that the inputs' own run wants."""

    name: str
    flags: tuple[str, ...] = FLAGS

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Lower and compile the module, at once if its sizes are static, else at the first run of each set of sizes."""
        module = with_results(subject, wanted)
        planned: dict[object, tuple[Module, Module]] = {}
        known: dict[object, Compiled] = {}
        static = not any(symbols(p.type) for p in module.main.params)
        if static:
            lowered = self._lowered(module)
            planned[()] = module, lowered
            if not lowered.program.limits:
                known[(), None] = self._compiled(lowered)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            shapes = () if static else tuple(np.shape(inputs[p.name]) for p in module.main.params)
            if shapes not in planned:
                bound: Bound = {s: n for s, n in graph.check_inputs(module.main, inputs).items()}
                sized = module.with_(main=with_sizes(module.main, bound))
                planned[shapes] = sized, self._lowered(sized)
            sized, lowered = planned[shapes]
            told = [v.name for v, _, _ in lowered.program.limits]
            room = _room(sized, inputs) if told else None
            if (shapes, room) not in known:
                if told:
                    rooms = {name: (None, room) for name in told}
                    lowered = self._lowered(sized.with_(main=with_limits(sized.main, rooms)))
                known[shapes, room] = self._compiled(lowered)
            names = dict(zip(lowered.program.outputs, module.main.attrs["outputs"], strict=True))
            return {names[slot]: value for slot, value in known[shapes, room].run(inputs).items()}

        return run

    def _lowered(self, module: Module) -> Module:
        with _refusing(self.name):
            return run_passes(module, lowering_passes(stages=with_passes(passes_for(module, ""))))

    def _compiled(self, lowered: Module) -> Compiled:
        with _refusing(self.name):
            return compile_c(emit(lowered, "model"), reproducible=False, flags=self.flags)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """What our lowering does not take is what this backend cannot run; a fault of it stays one."""
    try:
        yield
    except Crash:
        raise
    except AssayError as wrong:
        raise cannot(name, wrong) from None


def _room(module: Module, inputs: Mapping[str, Array]) -> int:
    """A power of two that no size of a run on these inputs is above: few are, and each is compiled for."""
    most = 1

    def observe(_: Expr, value: Value) -> None:
        nonlocal most
        for part in value if isinstance(value, tuple) else (value,):
            most = max((most, *getattr(part, "shape", ())))

    graph.run(module, inputs, observe=observe)
    return 1 << (most - 1).bit_length()


NUMPY = (Numpy("numpy"), Numpy("numpy:wide", widened), Numpy("numpy:reversed", reordered))
CONTRACTED = ("-std=c99", "-O3", "-march=native", "-ffp-contract=fast", "-fno-strict-aliasing")
C = (OwnC("c"), OwnC("c:O0", (*STANDARD, "-O0")), OwnC("c:contract", CONTRACTED))
