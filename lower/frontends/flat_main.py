"""A `main` that takes and gives tensors where it took and gave tuples (specs/lower.md, "Import").

What is lowered, exported, kept in a file or handed to a backend has tensors at its border. So the parts of a tuple
become parameters and results of their own, called `x.0`, `x.1.0` (`assay.semantics.leaves`); inside, nothing changes.
And what is lowered begins at `main` and never comes back to it: one that calls itself has a `main` around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assay.lower.anf.copying import fresh_copy
from assay.semantics.analyses.variables import called
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Var, get, let, match_cast, tuple_of
from assay.semantics.leaves import input_leaves, output_leaves
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.types import FuncType, TupleType, Type, same_type
from assay.semantics.walk import fold_scoped, occurrences, reached, rewrite


def with_flat_main(module: Module) -> Module:
    """The module itself where no parameter is a tuple and no result is one inside a tuple, and `main` does not call
    itself, through others too. Invalid (parts.C1): two parts would have one name."""
    main = module.definitions.get("main")
    if isinstance(main, Function) and _comes_back(module):
        module = _with_main_around(module)
        main = module.main
    if not isinstance(main, Function) or not _nests(main):
        return module
    leaves = iter(input_leaves(main))
    params: list[Var] = []
    body: Expr = main.body
    bound: list[tuple[Var, Expr]] = []
    for p in main.params:
        if not isinstance(p.type, TupleType):
            next(leaves)
            params.append(p)
            continue
        made: list[Var] = []
        bound.append((p, _built(p, leaves, made)))
        params += made
    names = [name for name, _ in output_leaves(main)]
    whole = Var(main.result_type, "result")
    if not same_type(whole.type, body.type):  # what the border of `main` compares
        body = match_cast(body, whole.type, main.span)
    body = let(whole, body, tuple_of(*_parts_of(whole)))
    for p, value in reversed(bound):
        body = let(p, value, body)
    assert isinstance(main.type, FuncType)
    of = replace(main.type, params=tuple(p.type for p in params), result=body.type)
    flat = replace(main, type=of, params=tuple(params), body=body, attrs={**main.attrs, "outputs": tuple(names)})
    return with_main(module, flat)


def with_main(module: Module, main: Function) -> Module:
    """The module with another `main`. If its type is another one, what calls `main`, as saved calls and a `main` that
    calls itself do, calls the one that was there, by a name of its own."""
    if main.type is module.main.type:
        return module.with_(main=main)
    return _called_as_written(module, {**_others(module), "main": main})


def _with_main_around(module: Module) -> Module:
    """The module with a `main` that calls the one that was there, and so does what called that."""
    main = module.main
    params = tuple(replace(p) for p in main.params)
    body: Expr = Call(main.result_type, GlobalVar(main.type, "main"), params, span=main.span, device=main.body.device)
    around = replace(main, params=params, body=body)
    return _called_as_written(module, {**_others(module), "main": around})


def _called_as_written(module: Module, functions: Mapping[str, Function]) -> Module:
    """The module with other functions, each of which calls the `main` of the module, by a name of its own, where it
    called `main`."""
    callers: dict[str, Expr] = {n: d for n, d in functions.items() if "main" in called(d).functions}
    if not callers:
        return module.with_(**functions)
    name = unused("main_as_written", module.definitions, module.constants)

    def renamed(node: Expr) -> Expr:
        return replace(node, name=name) if isinstance(node, GlobalVar) and node.name == "main" else node

    callers[name] = fresh_copy(module.main, {})
    made: dict[str, Expr] = {**functions, **{n: rewrite(d, renamed) for n, d in callers.items()}}
    return module.with_(**{n: d for n, d in made.items() if isinstance(d, Function)})


def _others(module: Module) -> dict[str, Function]:
    return {n: d for n, d in module.graphs.items() if n != "main"}


def _comes_back(module: Module) -> bool:
    """Whether `main` may call itself, through others too."""
    graphs = module.graphs
    return "main" in reached(
        called(graphs["main"]).functions, lambda n: called(graphs[n]).functions if n in graphs else ()
    )


def _nests(main: Function) -> bool:
    result = main.result_type
    inside: Sequence[Type] = result.fields if isinstance(result, TupleType) else ()
    return any(isinstance(t, TupleType) for t in (*(p.type for p in main.params), *inside))


def _built(param: Var, leaves: Iterator[tuple[str, Type]], made: list[Var]) -> Expr:
    """The tuple of a parameter, of new parameters for its parts, which are added to `made`."""

    def build(of: Type, fields: list[Expr]) -> Expr:
        if isinstance(of, TupleType):
            return tuple_of(*fields)
        name, of = next(leaves)
        made.append(Var(of, name, span=param.span, device=param.device))
        return made[-1]

    return fold_scoped(param.type, lambda t: t.fields if isinstance(t, TupleType) else (), build)


def _parts_of(value: Expr) -> list[Expr]:
    """The parts of a value, left to right, taken out of it."""

    def inside(value: Expr) -> list[Expr]:
        return [get(value, i) for i in range(len(value.type.fields))] if isinstance(value.type, TupleType) else []

    return [v for v in occurrences(value, inside) if not isinstance(v.type, TupleType)]
