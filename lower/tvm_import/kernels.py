"""Tensor functions out of live TVM objects, in block form and in flat form (specs/lower.md, "tvm").

TVM's parameters are buffers and scalars in any order, and it does not say which are written. Here the buffers come
first, those that the caller takes as results last, then the scalars. A size that only a result's shape has is a scalar
too: the call says it. A buffer that is changed in place is two: what it was, and what it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.lower.tvm_import.objects import Object, attributes, dtype_of, handle, type_key, unique
from assay.lower.tvm_import.scalars import Scalars, Symbols, compact
from assay.lower.tvm_import.statements import Statements, accesses
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Dim, Expr, Var, apply, cast, const, provably_equal, variables
from assay.semantics.tensor import Assert, Buffer, PrimFunc, Seq, loops, store


@dataclass(frozen=True)
class Use:
    """How a function is called: which of its parameters are results, and which of those have contents before."""

    outputs: tuple[int, ...]
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A tensor function made for one use. Each tuple has places of TVM's parameters."""

    func: PrimFunc
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scalars: tuple[int, ...]
    sizes: tuple[Var, ...] = ()
    """Symbols that are scalars besides: no input says them."""


@dataclass
class Kernels:
    """The tensor functions of a module, one for each function and use."""

    module: Mapping[str, Object]
    symbols: Symbols
    taken: set[str] = field(default_factory=set)
    made: dict[tuple[str, Use], Kernel] = field(default_factory=dict)
    checks: dict[str, PrimFunc] = field(default_factory=dict)
    """Tensor functions that TVM does not have: they trap where sizes are larger than claimed."""

    def get(self, name: str, use: Use) -> Kernel:
        """The function `name` for that use. It keeps its name in its first use."""
        found = self.made.get((name, use))
        if found is None:
            self.params(name)
            again = any(made == name for made, _ in self.made)
            fresh = unique(name, self.taken) if again else name
            found = self.made[name, use] = build(self.module[name], name, fresh, use, self.symbols)
        return found

    def params(self, name: str) -> list[Object]:
        """The parameters of a function; Unsupported where it takes handles."""
        found = list(self.module[name].params)
        for p in found:
            if type_key(p.ty) not in ("tirx.BufferType", "ir.PrimType") or "handle" in str(p.ty.dtype):
                message = f"{p.name} is a handle: it is lowered for its callers; give the module before MakePackedAPI"
                raise Unsupported(message, where=f"tensor function {name}", label="tvm.C18")
        return found

    def check_of(self, limits: Mapping[Var, int], of: str) -> str:
        """The name of a tensor function that takes those sizes and traps unless each is at most its number."""
        name = unique(f"{of}_sizes", self.taken)
        done = Buffer("done", (), BOOL)
        scalars = [Var(v.name) for v in limits]
        asserts = [
            Assert(apply("le", v, most), f"the size {v.name} is more than {most}, which the function claims of it")
            for v, most in zip(scalars, limits.values(), strict=True)
        ]
        body = Seq((*asserts, store(done, (), const(True, BOOL))))
        self.checks[name] = PrimFunc(name, (done,), 1, body, scalars=tuple(scalars))
        return name

    def plain(self, name: str) -> PrimFunc:
        """The function as it stands, to be looked at."""
        return build(self.module[name], name, name, Use(self.written(name)), self.symbols).func

    def written(self, name: str) -> tuple[int, ...]:
        """The places of the buffer parameters that the function stores to."""
        return written(self.module[name])

    def rest(self) -> None:
        """Make the functions that nobody calls, by what they store to."""
        used = {name for name, _ in self.made}
        for name, o in self.module.items():
            if name not in used and type_key(o) == "tirx.PrimFunc":
                self.params(name)
                self.get(name, Use(written(o)))


def is_buffer(o: Object) -> bool:
    """Whether a parameter is a buffer."""
    return type_key(o.ty) == "tirx.BufferType"


def written(o: Object) -> tuple[int, ...]:
    """The places of the buffer parameters that a function stores to, itself or through a view."""
    stored, _, source = accesses(o.body)
    found: set[int] = set()
    for at in stored:
        while at in source:
            at = source[at]
        found.add(at)
    return tuple(i for i, p in enumerate(o.params) if handle(p) in found)


def build(o: Object, name: str, fresh: str, use: Use, symbols: Symbols) -> Kernel:
    """The tensor function of a TVM function for one use; `fresh` is its name here."""
    where = f"tensor function {name}"
    builder = Statements(symbols, where)
    scalars = builder.scalars
    places = [i for i, p in enumerate(o.params) if is_buffer(p)]
    outputs = tuple(i for i in places if i in use.outputs)
    plain_scalars = tuple(i for i in range(len(o.params)) if i not in places)
    stray = set(written(o)) - set(outputs)
    if stray:
        names = ", ".join(str(o.params[i].name) for i in sorted(stray))
        raise Unsupported(f"{names} is stored to, but is no result of the call", where=where, label="tvm.C5")
    for i in plain_scalars:
        # a size may be handed over as a scalar; then it is that scalar
        symbols.var(o.params[i], where)
    by_place = {i: parameter(o.params[i], builder, scalars, where) for i in places}
    before: dict[int, Buffer] = {}
    for i in use.changed:
        b = by_place[i]
        before[i] = Buffer(unique(f"{b.name}_before", builder.names), b.shape, b.dtype, b.scope)
    inputs = tuple(i for i in places if i not in outputs or i in before)
    params = [before.get(i, by_place[i]) for i in inputs] + [by_place[i] for i in outputs]
    body = builder.body(o.body)
    copies = [copy(before[i], by_place[i]) for i in sorted(before)]
    given = [symbols.var(o.params[i], where) for i in plain_scalars]
    sizes = unbound(params, len(outputs), given)
    func = PrimFunc(
        fresh,
        tuple(params),
        len(outputs),
        Seq((*copies, body)) if copies else body,
        attrs={k: v for k, v in attributes(o.attrs).items() if isinstance(v, (str, int, float, bool))},
        scalars=(*given, *sizes),
    )
    return Kernel(func, inputs, outputs, plain_scalars, tuple(sizes))


def parameter(o: Object, builder: Statements, scalars: Scalars, where: str) -> Buffer:
    """A parameter's buffer. Unknown strides and an unknown offset are those of a dense tensor."""
    of = o.ty
    shape = tuple(scalars.dim(d) for d in of.shape)
    for stride, wanted in zip(of.strides, compact(shape), strict=len(of.strides) > 0):
        if type_key(stride) == "ir.Var" and handle(stride) not in scalars.symbols.known:
            scalars.given[handle(stride)] = sized(wanted, stride, where)
        elif not provably_equal(scalars.dim(stride), wanted):
            raise Unsupported(f"{o.name} has strides that are not dense", where=where, label="tvm.C6")
    offset = of.elem_offset
    if offset is not None:
        if type_key(offset) == "ir.Var":
            scalars.given[handle(offset)] = const(0, dtype_of(offset.ty, where))
        elif scalars.dim(offset) != 0:
            raise Unsupported(f"{o.name} begins at an offset", where=where, label="tvm.C6")
    return builder.buffer_of(o, shape)


def sized(dim: Dim, like: Object, where: str) -> Expr:
    of = dtype_of(like.ty, where)
    return const(dim, of) if isinstance(dim, int) else cast(dim, of)


def copy(source: Buffer, target: Buffer) -> Any:
    """The loops that copy a buffer."""
    names = " ".join(f"i{k}" for k in range(len(source.shape)))

    def body(*index: Var) -> Any:
        return store(target, index, source[index])

    return loops(names, source.shape, body)


def unbound(params: Sequence[Buffer], outputs: int, scalars: Sequence[Var]) -> list[Var]:
    """The symbols of the shapes that neither an input's dim nor a scalar says."""
    inputs = params[: len(params) - outputs]
    known = {d for b in inputs for d in b.shape if isinstance(d, Var)} | set(scalars)
    missing: dict[Var, None] = {}
    for b in params:
        for d in b.shape:
            missing.update((v, None) for v in variables(d) if v not in known)
    if any(v.dtype is not INT64 for v in missing):
        raise Unsupported("a size that is not int64", label="tvm.C3")
    return list(missing)
