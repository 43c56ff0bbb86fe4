"""Tensor functions out of live TVM objects, in block form and in flat form (specs/lower.md, "tvm").

TVM's parameters are buffers and scalars in any order, and it does not say which are written. Here the buffers come
first, those that the caller takes as results last, then the scalars. A size that only a result's shape has is a scalar
too: the call says it. A buffer that is changed in place is two: what it was, and what it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.lower.frontends.tvm.accesses import pointer_declarations, stores_and_views, viewed
from assay.lower.frontends.tvm.invocations import MEMORY, calls_in, parameter_order, stored_through_calls as all_written
from assay.lower.frontends.tvm.objects import Object, attributes, handle, prim_dtype, type_key, unique_name
from assay.lower.frontends.tvm.scalars import Scalars, VariableTable, compact
from assay.lower.frontends.tvm.statements import Statements
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Dim, Var, apply, cast, const, provably_equal, variables
from assay.semantics.tensor import Alias, Assert, Buffer, PrimFunc, Seq, View, loops, store


@dataclass(frozen=True)
class KernelUse:
    """How a function is called: which of its parameters are results, and which of those have contents before."""

    outputs: tuple[int, ...]
    changed: tuple[int, ...] = ()
    inner: bool = False
    """Whether a tensor function calls it: its buffers then say all sizes."""


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
    symbols: VariableTable
    taken: set[str] = field(default_factory=set)
    made: dict[tuple[str, KernelUse], Kernel] = field(default_factory=dict)
    names: dict[tuple[str, KernelUse], str] = field(default_factory=dict)
    """What the functions are called, those still to be made included."""
    stores: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The places of the buffer parameters that each function stores to."""
    checks: dict[str, PrimFunc] = field(default_factory=dict)
    """Tensor functions that TVM does not have: they trap where sizes are larger than claimed."""

    def get(self, name: str, use: KernelUse) -> Kernel:
        """The function `name` for that use. It keeps its name in its first use."""
        found = self.made.get((name, use))
        if found is None:
            self.params(name)
            found = self.made[name, use] = kernel_of(self.module[name], name, self.name(name, use), use, self)
        return found

    def name(self, name: str, use: KernelUse) -> str:
        """What a function is called in that use."""
        if (name, use) not in self.names:
            again = any(made == name for made, _ in self.names)
            self.names[name, use] = unique_name(name, self.taken) if again else name
        return self.names[name, use]

    def callee(self, name: str) -> tuple[str, list[int]]:
        """What a function is called where a tensor function calls it, and the order in which it takes TVM's arguments.

        It is made later, so that calls may go any number of functions deep and round in circles.
        """
        if name not in self.module or type_key(self.module[name]) != "tirx.PrimFunc":
            raise Invalid(f"the module has no tensor function {name}", label="tvm.C12")
        outputs = self.written(name)
        return self.name(name, KernelUse(outputs, inner=True)), parameter_order(self.params(name), outputs)

    def params(self, name: str) -> list[Object]:
        """The parameters of a function; Unsupported where it takes handles."""
        found = list(self.module[name].params)
        for p in found:
            if is_buffer(p) and (
                type_key(p.ty) == "tirx.BufferType" or handle(p) in pointer_declarations(self.module[name].body)
            ):
                continue
            if type_key(p.ty) != "ir.PrimType" or "handle" in str(p.ty.dtype):
                message = f"{p.name} is a handle: it is lowered for its callers; give the module before MakePackedAPI"
                raise Unsupported(message, where=f"tensor function {name}", label="tvm.C18")
        return found

    def check_of(self, limits: Mapping[Var, int], of: str) -> str:
        """The name of a tensor function that takes those sizes and traps unless each is at most its number."""
        name = unique_name(f"{of}_sizes", self.taken)
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
        return kernel_of(self.module[name], name, name, KernelUse(self.written(name)), self).func

    def written(self, name: str) -> tuple[int, ...]:
        """The places of the buffer parameters that the function stores to, itself or by what it calls."""
        if not self.stores:
            tensor = {n: o for n, o in self.module.items() if type_key(o) == "tirx.PrimFunc"}
            self.stores = all_written(tensor, {n: stored_by(o) for n, o in tensor.items()})
        return self.stores[name]

    def rest(self) -> None:
        """Make the functions that only tensor functions call, and those never called, by what they store to."""
        self.pending()
        tensor = [name for name, o in self.module.items() if type_key(o) == "tirx.PrimFunc"]
        called = {callee for name in tensor for callee, _ in calls_in(self.module[name].body)}
        # those that nobody calls come first: what they call is made for that use
        for name in sorted(tensor, key=lambda n: n in called):
            if not any(made == name for made, _ in self.made):
                self.get(name, KernelUse(self.written(name)))
                self.pending()

    def pending(self) -> None:
        """Make the functions that have a name already."""
        while missing := [key for key in self.names if key not in self.made]:
            for key in missing:
                self.get(*key)


def is_buffer(o: Object) -> bool:
    """Whether a parameter is a buffer, or a pointer to the elements of one."""
    return type_key(o.ty) in MEMORY


def stored_by(o: Object) -> tuple[int, ...]:
    """The places of the buffer parameters that a function stores to, itself or through a view."""
    stored, source = stores_and_views(o.body)
    found = {viewed(at, source) for at in stored}
    return tuple(i for i, p in enumerate(o.params) if handle(p) in found)


def kernel_of(o: Object, name: str, fresh: str, use: KernelUse, kernels: Kernels) -> Kernel:
    """The tensor function of a TVM function for one use; `fresh` is its name here."""
    where = f"tensor function {name}"
    symbols = kernels.symbols
    builder = Statements(symbols, where, kernels.callee)
    scalars = builder.scalars
    places = [i for i, p in enumerate(o.params) if is_buffer(p)]
    outputs = tuple(i for i in places if i in use.outputs)
    plain_scalars = tuple(i for i in range(len(o.params)) if i not in places)
    stray = set(kernels.written(name)) - set(outputs)
    if stray:
        names = ", ".join(str(o.params[i].name) for i in sorted(stray))
        raise Unsupported(f"{names} is stored to, but is no result of the call", where=where, label="tvm.C5")
    for i in plain_scalars:
        # a size may be handed over as a scalar; then it is that scalar
        symbols.var(o.params[i], where)
    first = pointer_declarations(o.body)
    by_place = {}
    for i in places:
        declared = first.get(handle(o.params[i]))
        by_place[i] = parameter(o.params[i] if declared is None else declared.buffer, builder, scalars, where)
        if declared is not None:
            builder.given[handle(declared)] = by_place[i]
            builder.buffers[handle(o.params[i])] = by_place[i]
    before: dict[int, Buffer] = {}
    for i in use.changed:
        b = by_place[i]
        before[i] = Buffer(unique_name(f"{b.name}_before", builder.names), b.shape, b.dtype, b.scope)
    inputs = tuple(i for i in places if i not in outputs or i in before)
    params = [before.get(i, by_place[i]) for i in inputs] + [by_place[i] for i in outputs]
    body = builder.body(o.body)
    for window in reversed(builder.windows):
        body = Alias(window, body)
    copies = [copy(before[i], by_place[i]) for i in sorted(before)]
    given = [symbols.var(o.params[i], where) for i in plain_scalars]
    sizes = [] if use.inner else unbound(params, len(outputs), given)
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
    if (window := spread(o, builder, shape)) is not None:
        return window
    for stride, wanted in zip(of.strides, compact(shape), strict=len(of.strides) > 0):
        if type_key(stride) == "ir.Var" and handle(stride) not in scalars.symbols.known:
            to = prim_dtype(stride.ty, where)
            scalars.given[handle(stride)] = const(wanted, to) if isinstance(wanted, int) else cast(wanted, to)
        elif not provably_equal(scalars.dim(stride), wanted):
            raise Unsupported(f"{o.name} has strides that are not dense", where=where, label="tvm.C6")
    offset = of.elem_offset
    if offset is not None:
        if type_key(offset) == "ir.Var":
            scalars.given[handle(offset)] = const(0, prim_dtype(offset.ty, where))
        elif scalars.dim(offset) != 0:
            raise Unsupported(f"{o.name} begins at an offset", where=where, label="tvm.C6")
    return builder.buffer_of(o, shape)


def spread(o: Object, builder: Statements, shape: tuple[Dim, ...]) -> Buffer | None:
    """The flat memory of a parameter whose strides or offset are constants and not those of dense rows: it is a
    view."""
    of = o.ty
    places = [*of.strides, *([] if of.elem_offset is None else [of.elem_offset])]
    if not places or any(type_key(p) != "ir.IntImm" for p in places):
        return None
    sizes = [d for d in shape if isinstance(d, int)]
    dense = [d for d in compact(shape) if isinstance(d, int)]
    steps = [int(s.value) for s in of.strides] or dense
    first = 0 if of.elem_offset is None else int(of.elem_offset.value)
    if len(sizes) != len(shape) or 0 in sizes or min([first, *steps]) < 0 or (steps == dense and first == 0):
        return None
    made = builder.buffer_of(o, shape)
    if made in builder.scalars.packed:
        raise Unsupported(f"{o.name}, which holds vectors, has strides that are not dense", label="tvm.C6")
    length = first + 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
    memory = Buffer(unique_name(f"{made.name}_memory", builder.names), (length,), made.dtype, made.scope)
    builder.roots[handle(o)] = memory, const(0)
    builder.windows.append(View(made, memory, const(first), tuple(map(const, steps))))
    return memory


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
