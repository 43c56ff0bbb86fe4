"""Wrong ways to dispatch kernels for unknown sizes (specs/verify.md, "Kernels for unknown sizes"), each planted in the
dispatcher, with calls that show it.

They are those of a dispatcher that was written for Relay (apache/tvm#4129) and of one that pads to buckets
(apache/tvm#11199).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from assay.interp import graph, vector
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import AssayError
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.text.module_text import parse
from assay.verify import children
from assay.verify.app.kernels import run as kernel_run
from assay.verify.dispatch import dispatcher, program
from assay.verify.dispatch.cache import BoundedCache
from assay.verify.dispatch.choice import Choices, parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.key import ObjectKey, call_key
from assay.verify.dispatch.objects import KernelCompiler
from assay.verify.dispatch.store import KernelStore
from assay.verify.trials.kernels import different
from tests.lower.shapes.shape_programs import HEAD
from tests.museum.planted import Patch, PlantedFault

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A program, or a tensor function, with the inputs of a stream of calls, and the way that is chosen."""

    kernels: str
    calls: tuple[dict[str, Array], ...]
    text: str = ""
    func: Callable[[], PrimFunc] | None = None
    most: int = 64


@dataclass
class Ran:
    """What a stream gave, or what has ended it; how many kernels were held at the end."""

    results: list[dict[str, Any]]
    held: int
    said: str = ""
    counts: dict[str, int] | None = None


@cache
def compiler() -> KernelCompiler:
    """With a store, so that what several faults want is compiled once."""
    return KernelCompiler(KernelStore(children.new_folder() / "store"))


def run(case: Case) -> Ran:
    """The stream by the dispatcher."""
    choices = parse_choices(case.kernels)
    made = Dispatcher(choices, compiler(), case.most)
    done = Ran([], 0)
    try:
        if case.func is not None:
            func = case.func()
            for call in case.calls:
                out = made(func, list(call.values()))
                done.results.append({b.name: a for b, a in zip(func.outputs, out, strict=True)})
        else:
            runs = program.DispatchedProgram(lowered(case, choices), made)
            done.results = [runs.run(call) for call in case.calls]
    except AssayError as wrong:
        done.said = str(wrong)
    done.held = len(made.objects)
    return done


def lowered(case: Case, choices: Choices) -> Module:
    return kernel_run._lowered(parse(HEAD + case.text, "fault.py"), choices)


def wanted(case: Case) -> list[dict[str, Any]]:
    """What the interpreter gives, without any of this."""
    if case.func is not None:
        func = case.func()
        made = (vector.run(func, list(call.values())) for call in case.calls)
        return [{b.name: a for b, a in zip(func.outputs, out, strict=True)} for out in made]
    module = lowered(case, Choices())
    return [graph.run(module, call) for call in case.calls]


def first_use(case: Case, made: Ran) -> str | None:
    """The comparison that the dispatcher makes itself on the first use."""
    return made.said or None


def results(case: Case, made: Ran) -> str | None:
    """The results beside those of the interpreter."""
    if made.said:
        return made.said
    for right, got in zip(wanted(case), made.results, strict=True):
        for name, value in right.items():
            if isinstance(value, tuple) is not isinstance(got[name], tuple):
                return f"{name} is a tuple, or is none"
            for one, other in zip(program.tensors_in(value), program.tensors_in(got[name]), strict=True):
                if odd := different(one, other):
                    return odd
    return None


def bound(case: Case, made: Ran) -> str | None:
    """How many kernels are held."""
    return f"{made.held} kernels are held, {case.most} may be" if made.held > case.most else None


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- functions and programs ----------------------------------------------------------------------------------------


def transposed() -> PrimFunc:
    """A transpose, which is another one at other sizes of as many elements."""
    n, m = Var("n"), Var("m")
    x, y = Buffer("x", (n, m), FLOAT32), Buffer("y", (m, n), FLOAT32)
    return PrimFunc("transposed", (x, y), 1, loops("i j", (n, m), lambda i, j: store(y, (j, i), x[i, j])))


def added() -> PrimFunc:
    """Two operands of one size."""
    n = Var("n")
    x, w, y = (Buffer(name, (n,), FLOAT32) for name in "xwy")
    return PrimFunc("added", (x, w, y), 1, loops("i", (n,), lambda i: store(y, i, x[i] + w[i])))


TWO = tuple({"x": array(*shape)} for shape in ((2, 34), (23, 4)))
STREAM = tuple({"x": array(k, 2)} for k in range(1, 9))
SOFTMAX = """
    @R.function
    def main(x: R.Tensor((2, "n"), "float32")):
        return R.nn.softmax(x)
"""
SUM = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")):
        return R.add(x, y)
"""
ONE_OF_A_TUPLE = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = R.exp(x)
        return ((y,), x)
"""

# --- the faults ------------------------------------------------------------------------------------------------------


def run_together(callee: str, order: Sequence[Var], values: Any) -> ObjectKey:
    """The dims one after another, as a text."""
    return ObjectKey(callee, (("".join(str(values[v]) for v in order if v in values), 0),))


def without_callee(callee: str, order: Sequence[Var], values: Any) -> ObjectKey:
    """A key of sizes alone."""
    return replace(ObjectKey.of(callee, order, values), callee="")


def cut_to_int32(patch: Patch) -> None:
    """A dim is kept in 32 bits."""
    old = ObjectKey.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[ObjectKey], callee: str, order: Sequence[Var], values: Any) -> ObjectKey:
        found: ObjectKey = old(cls, callee, order, {v: n & 0xF for v, n in values.items()})
        return found

    patch.setattr(ObjectKey, "of", classmethod(of))


def keyed(make: Callable[..., ObjectKey]) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        def made(cls: type[ObjectKey], callee: str, order: Sequence[Var], values: Any) -> ObjectKey:
            return make(callee, order, values)

        patch.setattr(ObjectKey, "of", classmethod(made))

    return plant


def unbounded(patch: Patch) -> None:
    """Nothing ever goes."""

    def put(self: Any, key: Any, value: Any) -> None:
        self.entries[key] = value

    patch.setattr(BoundedCache, "put", put)


def unchecked_symbols(patch: Patch) -> None:
    """The first operand tells a size, and others are believed."""

    def bind(func: PrimFunc, inputs: Sequence[Array], scalars: Sequence[Any] = ()) -> dict[Var, int]:
        found: dict[Var, int] = {}
        for b, a in zip(func.inputs, inputs, strict=True):
            for d, n in zip(b.shape, a.shape, strict=True):
                if isinstance(d, Var):
                    found.setdefault(d, int(n))
        return found

    patch.setattr(dispatcher, "bind_dims", bind)


def first_input_only(patch: Patch) -> None:
    """What is not the first input stays as it is, and is read as if it were larger: zeros stand for what is there."""
    seen: list[int] = []

    def pad(a: Array, shape: Sequence[int]) -> Array:
        seen.append(1)
        whole = np.zeros(tuple(shape), a.dtype)
        if len(seen) % 2:
            whole[tuple(slice(n) for n in a.shape)] = a
        else:
            whole.reshape(-1)[: a.size] = a.reshape(-1)
        return whole

    patch.setattr(program, "padded", pad)


def collapsed(patch: Patch) -> None:
    """A tuple of one is its field."""
    old = program._cut

    def cut_back(value: Any, of: Any, sizes: Any) -> Any:
        made = old(value, of, sizes)
        return made[0] if isinstance(made, tuple) and len(made) == 1 else made

    patch.setattr(program, "_cut", cut_back)
    patch.setattr(program.DispatchedProgram, "compare", lambda self, inputs, results, sizes: True)


def proved_blindly(patch: Patch) -> None:
    """Everything is taken to be neutral."""
    patch.setattr(dispatcher, "why_not_neutral", lambda func, grown: "")


def unproved_and_uncompared(patch: Patch) -> None:
    """The same, and nothing compares."""
    proved_blindly(patch)
    patch.setattr(program.DispatchedProgram, "compare", lambda self, inputs, results, sizes: True)


def wrong_constant(patch: Patch) -> None:
    """A kernel is specialised for one size less."""
    old = dispatcher.with_numbers
    patch.setattr(
        dispatcher, "with_numbers", lambda func, values: old(func, {v: max(n - 1, 0) for v, n in values.items()})
    )


def too_much(patch: Patch) -> None:
    """A kernel is specialised for one size more: it writes behind what its shape function gives."""
    old = dispatcher.with_numbers
    patch.setattr(dispatcher, "with_numbers", lambda func, values: old(func, {v: n + 1 for v, n in values.items()}))


def named_by_rank(patch: Patch) -> None:
    """Calls are told apart by their dims in one row, whichever argument has them."""

    def key(callee: str, arguments: Any, scalars: Any = (), device: str = "cpu") -> Any:
        found = call_key(callee, arguments, scalars, device)
        dims = tuple(d for a in found.arguments for d in a.dims)
        return replace(found, arguments=(replace(found.arguments[0], dims=tuple(sorted(dims))),))

    patch.setattr(dispatcher, "call_key", key)


def fault(
    name: str,
    layer: str,
    plant: Callable[[Patch], None],
    case: Case,
    judge: Callable[[Case, Ran], str | None] = first_use,
    said: str = "",
    **more: Any,
) -> PlantedFault:
    return PlantedFault(
        name, f"dispatch: {layer}", (judge,), lambda: case, run, run, said, plant, size=_size_of_case, **more
    )


def _size_of_case(case: Case, made: Any) -> str:
    return f"{len(case.calls)} call" + ("" if len(case.calls) == 1 else "s")


PADDED = "buckets:n=4,8"
FAULTS = (
    fault("a key is the dims run together", "first use", keyed(run_together), Case("specialized", TWO, func=transposed),
          results, known="near: #4129", note="(2, 34) and (23, 4) are one key"),
    fault("a dim is cut in a key", "results", cut_to_int32,
          Case("specialized", ({"x": array(1, 3)}, {"x": array(17, 3)}), func=transposed), results,
          known="read: #4129"),
    fault("calls are told apart by all dims in one row", "results", named_by_rank,
          Case("specialized", ({"x": array(2, 3)}, {"x": array(3, 2)}), func=transposed), results),
    fault("kernels are never given up", "bound", unbounded, Case("specialized", STREAM, func=transposed, most=4), bound,
          known="read: #4129"),
    fault("a size that comes twice is not compared", "symbols", unchecked_symbols,
          Case("interpreted", ({"x": array(3), "w": array(3)},), func=added), lambda case, made: _accepts_disagreeing(),
          known="read: #4129"),
    fault("only the first input is padded", "first use", first_input_only,
          Case("buckets:m=4", ({"x": array(2, 3), "y": array(2, 3, seed=1)},), SUM), first_use, "padded",
          known="read: #11199"),
    fault("a tuple of one is its field", "results", collapsed,
          Case(PADDED, ({"x": array(3)},), ONE_OF_A_TUPLE), results,
          known="read: #11199"),
    fault("padding leaks into a sum", "first use", proved_blindly, Case(PADDED, ({"x": array(2, 3)},), SOFTMAX),
          first_use, "padded", known="read: #11199"),
    fault("padding leaks where nothing compares", "results", unproved_and_uncompared,
          Case(PADDED, ({"x": array(2, 3)},), SOFTMAX), results),
    fault("a kernel is made for a size too small", "first use", wrong_constant,
          Case("specialized", ({"x": array(3, 4)},), func=transposed), first_use, "differs", known="read: #4129"),
    fault("a kernel is made for a size too large", "first use", too_much,
          Case("specialized", ({"x": array(3)},), func=lambda: one_dim()), first_use, "outside", known="read: #4129",
          note="the sizes of the shape function and those that are written are not the same"),
)  # fmt: skip


def one_dim() -> PrimFunc:
    """A function that writes numbers of its own."""
    n = Var("n")
    x, y = Buffer("x", (n,), FLOAT32), Buffer("y", (n,), FLOAT32)
    return PrimFunc("filled", (x, y), 1, loops("i", (n,), lambda i: store(y, i, 1.0)))


def _accepts_disagreeing() -> str | None:
    """What comes of operands of two sizes where one is declared: they have to be refused."""
    made = Dispatcher(parse_choices("generic"), compiler())
    func = added()
    made(func, [array(3), array(3)])
    try:
        made(func, [array(3), array(2)])
    except AssayError:
        return None
    return "operands of 3 and 2 elements are taken, where both are n"
