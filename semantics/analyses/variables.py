"""What stands in a program: variables, called functions, symbols (rows R24 and R36; specs/semantics.md, "Analyses").

Every answer is a list in the order of first occurrence, operands before what uses them, and takes linear time. A
definition counts once however often it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assay.semantics.graph import free_variables as free_variables
from assay.semantics.graph.nodes import (
    Call,
    CallTIR,
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    Made,
    Match,
    ShapeExpr,
    Var,
    bound_by,
)
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.module import GROUP, Definition, Module, Program
from assay.semantics.scalar import Var as Symbol, variables
from assay.semantics.tensor import AllocateConst, Call as TensorCall, PrimFunc, program_order
from assay.semantics.types import DataDef, DataType, FuncType, ShapeType, TensorType, Type, dims
from assay.semantics.walk import post_order, reached

# --- variables ---------------------------------------------------------------------------------------------------


def bound_variables(expr: Expr) -> list[Var]:
    """The variables that lets, functions and patterns inside `expr` bind."""
    return list(dict.fromkeys(v for node in post_order(expr) for v in bound_by(node)))


def all_variables(expr: Expr) -> list[Var]:
    """The variables that are bound or used inside `expr`."""
    found: dict[Var, None] = {}
    for node in post_order(expr):
        found.update(dict.fromkeys(bound_by(node)))
        if isinstance(node, Var):
            found[node] = None
    return list(found)


# --- functions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Called:
    """The names that an expression refers to: `functions` and constants of the module, whether called or handed on,
    its tensor functions, its data types, and functions outside the language."""

    functions: tuple[str, ...]
    kernels: tuple[str, ...]
    data: tuple[str, ...]
    externs: tuple[str, ...]


def called(expr: Expr) -> Called:
    """What `expr` refers to. A function that is handed on as a value may be called by whoever gets it."""
    functions: dict[str, None] = {}
    kernels: dict[str, None] = {}
    data: dict[str, None] = {}
    externs: dict[str, None] = {}
    seen: set[int] = set()
    for node in post_order(expr):
        match node:
            case GlobalVar():
                functions[node.name] = None
            case CallTIR():
                kernels[node.func] = None
            case Constructor():
                data[node.data] = None
            case ExternFunc():
                externs[node.name] = None
            case Match():
                made = (p for c in node.clauses for p in post_order(c.pattern) if isinstance(p, Made))
                data.update(dict.fromkeys(p.constructor.data for p in made))
        types = [node.type, *(v.type for v in bound_by(node)), *(node.type_args if isinstance(node, Call) else ())]
        data.update(dict.fromkeys(_data_types(types, seen)))
    return Called(tuple(functions), tuple(kernels), tuple(data), tuple(externs))


def _data_types(types: Iterable[Type], seen: set[int]) -> Iterator[str]:
    """The names of the data types in types that are not in `seen`, which grows."""
    for t in types:
        if id(t) in seen:
            continue
        for part in post_order(t, lambda n: () if id(n) in seen else n.children):
            seen.add(id(part))
            if isinstance(part, DataType):
                yield part.name


def reachable(module: Module, entries: Sequence[str] = ("main",)) -> list[str]:
    """The names of definitions and constants that the entries need, in the order in which they are met."""

    def needed(name: str) -> Sequence[str]:
        return _mentioned(module.definitions[name]) if name in module.definitions else ()

    return [n for n in reached(entries, needed) if n in module.definitions or n in module.constants]


def _mentioned(definition: Definition) -> list[str]:
    match definition:
        case Function():
            names = called(definition)
            return [*names.functions, *names.kernels, *names.data]
        case Program():
            return [*definition.slots, *(s.kernel for s in definition.calls)]
        case DataDef():
            return list(_data_types((t for fields in definition.constructors.values() for t in fields), set()))
        case PrimFunc():
            group = [definition.attrs[GROUP]] if GROUP in definition.attrs else []
            statements = list(program_order(definition.body))
            group += [s.function for s in statements if isinstance(s, TensorCall) and not s.extern]
            return group + [s.index for s in statements if isinstance(s, AllocateConst) and s.index]
        case _:
            return []


# --- symbols -----------------------------------------------------------------------------------------------------


def symbols_bound(expr: Expr) -> list[Symbol]:
    """The symbols that get their value inside `expr` (S4), in the order in which they do.

    They are plain dims of parameters and patterns, and of match-casts, calls and whatever else has a dim that its
    operands do not have and that it does not use.
    """
    found: dict[Symbol, None] = {}
    known: set[Symbol] = set()
    seen: set[int] = set()
    for node in post_order(expr):
        for v in node.params if isinstance(node, Function) else bound_by(node) if isinstance(node, Match) else ():
            found.update(dict.fromkeys(_plain(v.type, set())))
        new = [s for s in _plain(node.type, seen) if s not in known]
        known.update(new)
        if new and not isinstance(node, Var):
            used = used_by(node, set()) if isinstance(node, (Call, CallTIR, ShapeExpr)) else ()
            found.update(dict.fromkeys(s for s in new if s not in used))
    return list(found)


def symbols_used(expr: Expr) -> list[Symbol]:
    """The symbols whose values the evaluation of `expr` needs: in attributes, shapes as values, scalars and results of
    tensor calls, and in dims that are not a symbol alone."""
    seen: set[int] = set()
    return list(dict.fromkeys(s for node in post_order(expr) for s in used_by(node, seen)))


def free_symbols(expr: Expr) -> list[Symbol]:
    """The symbols that `expr` uses and does not bind."""
    bound = set(symbols_bound(expr))
    return [s for s in symbols_used(expr) if s not in bound]


def used_by(node: Expr, seen: set[int]) -> list[Symbol]:
    """The symbols whose values a node itself needs, but for those of types in `seen`, which grows."""
    found: list[Symbol] = []
    match node:
        case Call():
            found += sizes_in(node.attrs.values())
        case CallTIR():
            found += sizes_in(node.scalars)
            found += [s for t in _parts(node.type, set()) for d in dims(t) for s in variables(d)]
        case ShapeExpr():
            found += sizes_in(node.dims)
    types = [v.type for v in bound_by(node)] if isinstance(node, (Function, Match)) else []
    if isinstance(node, Function):
        types.append(node.result_type)
    elif not isinstance(node, Var):
        types.append(node.type)
    for t in types:
        for part in _parts(t, seen):
            found += [s for d in dims(part) if not isinstance(d, Symbol) for s in variables(d)]
    return list(dict.fromkeys(found))


def _parts(of: Type, seen: set[int]) -> Iterator[Type]:
    """The parts of a type with symbolic dims of the value itself, each once; a function's are bound at its calls.

    Types in `seen`, which grows, are left out: so a type that is part of many is looked at once.
    """
    if (isinstance(of, TensorType) and of.is_static) or id(of) in seen:
        return
    for t in post_order(of, lambda t: () if isinstance(t, FuncType) or id(t) in seen else t.children):
        if id(t) not in seen:
            seen.add(id(t))
            if isinstance(t, (TensorType, ShapeType)):
                yield t


def _plain(of: Type, seen: set[int]) -> list[Symbol]:
    """The symbols that are a whole dim of a type."""
    return [d for t in _parts(of, seen) for d in dims(t) if isinstance(d, Symbol)]
