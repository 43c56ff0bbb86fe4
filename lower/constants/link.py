"""Constants of calls inside the tensor functions that are called (rows C4, C15; specs/lower.md, "constants").

Linking gives a tensor function its constant arguments as constants of its own: the parameters vanish from its
signature, the arguments from the calls. What calls with other constants get is another function. The attribute `linked`
of a linked function names the one that it was, and which of its parameters are the constants around its body, outermost
first: unlinking reads that and takes them out again.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.lower.constants.extract import refuse_programs
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.bits import digest, frozen
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Constant, Expr, Function, GlobalVar, Let, Var
from assay.semantics.graph.functions import as_function, rewrite_function
from assay.semantics.linked import LINKED, Linked, linked, unlinked
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.scalar import Const, Expr as Scalar, Var as Symbol, const
from assay.semantics.tensor import Alias, AllocateConst, Block, Buffer, Call, PrimFunc, Store, program_order
from assay.semantics.tensor.calls import calls_of
from assay.semantics.tensor.copying import claims_copy
from assay.semantics.tensor.mapping import Mapper, bound_buffers
from assay.semantics.types import TensorType
from assay.semantics.walk import fold, post_order, reached


def link_params(module: Module, only: Container[str] | None = None) -> Module:
    """The module with constant arguments of calls of tensor functions as constants inside these; `only` names the
    tensor functions that are to be linked.

    A tensor function that only these calls name is replaced where all give it the same constants; else each set of
    constants gets a function of its own. Invalid where a parameter that would become a constant is written, through a
    view or by a function that it is handed to (`link.C1`); Unsupported for planned programs (`constants.C1`).
    """
    refuse_programs(module)
    module = module.resolved()
    graphs = module.graphs
    sites = {n: _sites(d, module, only) for n, d in graphs.items()}
    made = _Linking(module, sites)
    definitions: dict[str, Definition] = dict(module.definitions)
    for name, d in graphs.items():
        definitions[name] = _without_unused(_changed(d, made.calls), d)
    definitions |= made.functions
    still = {c.function for d in definitions.values() if isinstance(d, PrimFunc) for c in calls_of(d)}
    still |= {
        n.func for d in definitions.values() if isinstance(d, Function) for n in post_order(d) if isinstance(n, CallTIR)
    }
    gone = {n for n in made.replaced if n not in still and n not in made.functions}
    return replace(module, definitions={n: d for n, d in definitions.items() if n not in gone})


@dataclass(frozen=True, eq=False)
class _Site:
    """A call, and which of its arguments are constant: the leaf that names or holds each."""

    call: CallTIR
    constants: Mapping[int, Constant | GlobalVar]


def _sites(function: Function, module: Module, only: Container[str] | None) -> list[_Site]:
    """The calls in a function that have constant arguments."""
    leaves: dict[Var, Constant | GlobalVar] = {}
    nodes = list(post_order(function))
    for n in nodes:
        if isinstance(n, Let):
            value: Expr = n.value
            if isinstance(value, (Constant, GlobalVar)):
                leaves[n.var] = value
    found = []
    for n in nodes:
        if (
            not isinstance(n, CallTIR)
            or (only is not None and n.func not in only)
            or claims_copy(module.kernel(n.func))
        ):
            continue  # a copy to another device takes its operand from there
        constants: dict[int, Constant | GlobalVar] = {}
        for i, a in enumerate(n.args):
            leaf = leaves.get(a) if isinstance(a, Var) else a
            if isinstance(leaf, (Constant, GlobalVar)):
                constants[i] = leaf
        flat = all(isinstance(a.type, TensorType) for a in n.args)  # so no argument names a function
        if constants and flat:
            found.append(_Site(n, constants))
    return found


class _Linking:
    """Linked functions, one for each tensor function and set of constants, and the calls that become theirs."""

    def __init__(self, module: Module, sites: Mapping[str, Sequence[_Site]]) -> None:
        self.module = module
        self.functions: dict[str, PrimFunc] = {}
        self.calls: dict[int, CallTIR] = {}
        self.replaced: set[str] = set()
        self.digests: dict[int, str] = {}
        self.written = _written(module)
        groups: dict[tuple[str, tuple[tuple[int, str], ...]], list[_Site]] = {}
        for some in sites.values():
            for site in some:
                key = tuple((i, self.key(leaf)) for i, leaf in site.constants.items())
                groups.setdefault((site.call.func, key), []).append(site)
        others = {c.function for d in module.kernels.values() for c in calls_of(d)}
        linked_calls = {id(s.call) for some in sites.values() for s in some}
        for d in module.graphs.values():
            for n in post_order(d):
                if isinstance(n, CallTIR) and id(n) not in linked_calls:
                    others.add(n.func)
        count: dict[str, int] = {}
        for func, _ in groups:
            count[func] = count.get(func, 0) + 1
        for (func, _), some in groups.items():
            self.link(func, some, alone=count[func] == 1 and func not in others)

    def key(self, leaf: Constant | GlobalVar) -> str:
        """What tells one constant from another: the name of the table's, or the bits, and where it lives."""
        if isinstance(leaf, GlobalVar):
            return f"{leaf.name} {leaf.device}"
        if id(leaf.data) not in self.digests:
            self.digests[id(leaf.data)] = digest(leaf.data)
        return f"{self.digests[id(leaf.data)]} {leaf.device}"

    def link(self, func: str, sites: Sequence[_Site], *, alone: bool) -> None:
        old, first = self.module.kernel(func), sites[0]
        for i in first.constants:
            if (func, i) in self.written:
                b = old.inputs[i]
                what = f"{func} writes its parameter {b.name}, which gets a constant here: a constant is read-only"
                raise Invalid(what, where=first.call.span, label="link.C1")
        name = func if alone else unused(f"{func}_linked", self.module.definitions, self.functions)
        self.functions[name] = linked_function(old, name, {i: self.contents(c) for i, c in first.constants.items()})
        if not alone:
            self.replaced.add(func)
        for site in sites:
            args = tuple(a for i, a in enumerate(site.call.args) if i not in site.constants)
            self.calls[id(site.call)] = replace(site.call, func=name, args=args)

    def contents(self, leaf: Constant | GlobalVar) -> tuple[str, Constant]:
        """The name in the table, and the constant itself."""
        if isinstance(leaf, Constant):
            return "", leaf
        data = self.module.constants[leaf.name]
        return leaf.name, Constant(TensorType(data.shape, dtype(data.dtype)), data)


def _written(module: Module) -> Collection[tuple[str, int]]:
    """The parameters that tensor functions write, by number: themselves, through views, or by handing them over."""
    found: list[tuple[str, int]] = []
    handed: dict[tuple[str, int], list[tuple[str, int]]] = {}
    """Of a parameter those inputs of other functions that are handed over as it."""
    for name, func in module.kernels.items():
        number = {b: i for i, b in enumerate(func.inputs)}
        source: dict[Buffer, Buffer] = {}
        stored: list[Buffer] = []
        for s in program_order(func.body):
            match s:
                case Alias() | Block():
                    for v in (s.view,) if isinstance(s, Alias) else s.views:
                        source[v.buffer] = source.get(v.source, v.source)
                case Store():
                    stored.append(s.buffer)
                case Call():
                    stored += [s.result.buffer] if s.result is not None else []
                    for k, b in enumerate(s.buffers if not s.extern else ()):
                        if (i := number.get(source.get(b, b))) is not None:
                            handed.setdefault((s.function, k), []).append((name, i))
                case _:
                    pass
        found += ((name, number[b]) for b in (source.get(b, b) for b in stored) if b in number)
    outputs = (at for at in handed if at[1] >= len(module.kernel(at[0]).inputs))
    return reached([*found, *outputs], lambda at: handed.get(at, ()))


def linked_function(func: PrimFunc, name: str, constants: Mapping[int, tuple[str, Constant]]) -> PrimFunc:
    """A tensor function with some of its inputs, by number, as constants: (name in the table, contents)."""
    sizes: dict[Symbol, Scalar] = {}
    for i, (_, leaf) in constants.items():
        for d, n in zip(func.inputs[i].shape, leaf.data.shape, strict=True):
            if isinstance(d, Symbol):
                sizes[d] = const(n, d.dtype)
    if sizes:
        func = _sized(func, sizes)
    body = func.body
    for i, (index, leaf) in reversed(list(constants.items())):
        b = func.inputs[i]
        body = AllocateConst(
            replace(b, shape=leaf.data.shape) if b.shape != leaf.data.shape else b, frozen(leaf.data), body, index
        )
    params = tuple(b for i, b in enumerate(func.params) if i not in constants)
    before = linked(func)
    places = tuple(constants)
    if before is not None:  # numbers of the function that it was in the first place
        left = [i for i in range(len(func.inputs) + len(before.places)) if i not in before.places]
        places = (*(left[i] for i in places), *before.places)
    of = func.name if before is None else before.function
    return replace(
        func, name=name, params=params, body=body, attrs={**func.attrs, LINKED: {"function": of, "places": places}}
    )


def _sized(func: PrimFunc, sizes: Mapping[Symbol, Scalar]) -> PrimFunc:
    """A tensor function with numbers for some of the symbols of its shapes."""
    mapper = Mapper(vars=dict(sizes))
    for b in (*func.params, *bound_buffers(func.body)):
        numbers = tuple(int(d.value) if isinstance(d, Const) else d for d in map(mapper.dim, b.shape))
        if numbers != b.shape:
            mapper.buffers[b] = replace(b, shape=numbers)
    params = tuple(map(mapper.buffer, func.params))
    return replace(func, params=params, body=mapper.run(func.body))


def _changed(function: Function, calls: Mapping[int, CallTIR]) -> Function:
    """A function with some of its calls replaced: by identity, for what is shared stays shared."""

    def parts(node: Expr) -> Sequence[Expr]:
        return calls[id(node)].args if id(node) in calls else node.children

    root: Expr = function
    return as_function(fold(root, lambda node, new: calls.get(id(node), node).with_children(new), parts))


def _without_unused(function: Function, before: Function) -> Function:
    """The function without names of constants that nothing uses any more."""
    old = {n for n in post_order(before) if isinstance(n, Var)}
    used = {n for n in post_order(function) if isinstance(n, Var)}
    gone = old - used

    def change(node: Expr) -> Expr:
        if isinstance(node, Let) and node.var in gone and isinstance(node.value, (Constant, GlobalVar)):
            return node.body
        return node

    return rewrite_function(function, change)


# --- out again ---------------------------------------------------------------------------------------------------


def unlink_params(module: Module) -> Module:
    """The module without linked constants: what `link_params` made of parameters are parameters again, and arguments of
    the calls. A function is the one that it was, by name, where the module has an equal one or none of that name.

    Unsupported for planned programs (`constants.C1`).
    """
    refuse_programs(module)
    module = module.resolved()
    definitions: dict[str, Definition] = dict(module.definitions)
    done: dict[str, tuple[str, Linked]] = {}
    """What linked functions are again: name and constants."""
    for name, d in module.kernels.items():
        found = linked(d)
        if found is None:
            continue
        plain = unlinked(d)
        del definitions[name]
        there = definitions.get(found.function)
        if isinstance(there, PrimFunc) and structural_equal(there, plain):
            own = found.function
        else:
            own = unused(found.function, definitions)
            definitions[own] = replace(plain, name=own)
        done[name] = own, found
    for name, graph in list(definitions.items()):
        if isinstance(graph, Function):
            definitions[name] = _unlinked_calls(graph, done, module)
    return replace(module, definitions=definitions)


def _unlinked_calls(function: Function, done: Mapping[str, tuple[str, Linked]], module: Module) -> Function:
    def change(node: Expr) -> Expr:
        if not isinstance(node, CallTIR) or node.func not in done:
            return node
        name, found = done[node.func]
        args = list(node.args)
        for place, stmt in found.in_order:
            of = TensorType(stmt.contents.shape, stmt.buffer.dtype)
            if stmt.index in module.constants:
                args.insert(place, GlobalVar(of, stmt.index, device=module.info(stmt.index).device))
            else:
                args.insert(place, Constant(of, stmt.contents))
        return replace(node, func=name, args=tuple(args))

    return rewrite_function(function, change)
