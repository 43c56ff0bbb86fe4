"""From Relay's tree to the graph language (specs/lower.md, "Relay").

Every node of the tree becomes an expression, parts first; a graph binding is one expression however often it is used.
Where a text uses references, calls of functions may act; a graph binding that acts becomes a let in the order of the
text, which is the order in which Relay printed them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from assay.lower.frontends.places import Places
from assay.lower.frontends.relay import syntax
from assay.lower.frontends.relay.infer import TypeInference
from assay.lower.frontends.relay.operators import from_relay, named
from assay.lower.frontends.relay.parser import syntax_tree
from assay.lower.frontends.relay.prelude import MORE
from assay.lower.frontends.relay.syntax import Binder, Fn, RelayNode, RelayPattern, RelayProgram
from assay.lower.frontends.relay.typing import Typing, has_holes
from assay.semantics import graph
from assay.semantics.builder.prelude import prelude, with_prelude
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Expr, Function, GlobalVar, Var
from assay.semantics.graph.matching import Bound
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.text.source import Source
from assay.semantics.types import DataDef, DataType, FuncType, TupleType, symbols
from assay.semantics.walk import Worklist, fold, needed_first, post_order


def translate(program: RelayProgram, source: Source) -> Module:
    """The module that a tree means, well-formed."""
    places = Places(source)
    names = {n for used in program.used.values() for n in used} - program.functions.keys()
    if program.prelude and (program.uses_prelude or names):
        _add_prelude(program)
    else:
        program.prelude = False
    module = _Translator(program, places).module()
    try:
        check(module)
    except Invalid as wrong:
        where = wrong.where
        if isinstance(where, Span) and where.source == source.file and where.line:
            raise places.shown(wrong, where.line, where.column) from None
        raise
    return module


def _add_prelude(program: RelayProgram) -> None:
    """The functions of Relay's prelude that a text uses and ours has not."""
    more = syntax_tree(Source.of(MORE, "the prelude of Relay"))
    work = Worklist(sorted({n for used in program.used.values() for n in used}))
    for name in work:
        if name in more.functions and name not in program.functions:
            program.functions[name] = more.functions[name]
            program.used[name] = more.used[name]
            work.add(sorted(more.used[name]))


class _Translator:
    def __init__(self, program: RelayProgram, places: Places) -> None:
        self.program = program
        self.places = places
        known = prelude().definitions if program.prelude else {}
        self.data: dict[str, DataDef] = {n: d for n, d in known.items() if isinstance(d, DataDef)} | program.data
        self.functions: dict[str, FuncType] = {
            n: d.func_type for n, d in known.items() if isinstance(d, Function) and n not in program.functions
        }
        self.made: dict[int, Expr] = {}
        self.vars: dict[int, Var] = {}
        self.graphs: dict[int, Var] = {}
        self.called: set[int] = set()
        self.lets: dict[int, syntax.Let] = {}
        self.recursive: dict[int, Fn] = {}
        self.owner: dict[int, Binder] = {}
        self.of_functions: set[int] = set()
        self.params: set[Symbol] = set()
        """The sizes of parameters: they have a value all through their function."""
        self.values: dict[int, Expr] = {}
        """Of a let, its value as the annotation says."""
        self.matched: dict[int, tuple[syntax.RelayMatch, RelayPattern]] = {}
        self.active: dict[int, tuple[Expr, bool]] = {}
        self.typing = Typing(places, program, TypeInference(program, self.data, self.functions, self.survey()))

    def survey(self) -> bool:
        """Find what names stand for later; whether types are left out."""
        program = self.program
        open_ = any(not f.result for n, f in program.functions.items() if any(n in u for u in program.used.values()))
        for root in program.functions.values():
            for node in post_order(root):
                match node:
                    case syntax.Apply():
                        self.called.add(id(node.callee))
                    case syntax.Let():
                        self.lets[id(node.binder)] = node
                        if isinstance(node.value, Fn):
                            self.recursive[id(node.binder)] = node.value
                            self.owner[id(node.value)] = node.binder
                            open_ |= node.value.result is None
                    case Fn():
                        self.of_functions.update(map(id, node.params))
                        types = [p.type for p in node.params]
                        open_ |= bool(node.type_params) or any(t is None or has_holes(t) for t in types)
                    case syntax.RelayMatch():
                        for pattern, _ in node.clauses:
                            for p in post_order(pattern):
                                if p.binder is not None:
                                    self.matched[id(p.binder)] = (node, pattern)
                    case syntax.Maker():
                        open_ = True
                    case syntax.Global() if node.name in self.functions:
                        open_ = True
        return open_

    # --- definitions -----------------------------------------------------------------------------------------------

    def module(self) -> Module:
        functions, found = self.program.functions, dict[str, Function]()
        waiting = {n: f for n, f in functions.items() if f.result is None}
        for n, f in functions.items():
            if f.result is not None:
                self.functions[n] = self.signature(f)
        for n in self.order(waiting):
            for other in sorted(self.program.used[n] & waiting.keys() - self.functions.keys()):
                self.functions[other] = self.signature(functions[other])  # they call one another
            found[n] = self.function(functions[n], self.functions.get(n))
            self.functions.setdefault(n, found[n].func_type)
        module = Module({**self.program.data, **{n: found[n] for n in functions}})
        return with_prelude(module) if self.program.prelude else module

    def order(self, waiting: dict[str, Fn]) -> list[str]:
        """Functions whose result is not declared come before those that use them, as far as they can."""
        return needed_first(self.program.functions, lambda name: sorted(self.program.used[name] & waiting.keys()))

    def signature(self, fn: Fn) -> FuncType:
        params = tuple(self.var(p).type for p in fn.params)
        result = self.typing.result(fn)
        return FuncType(params, result, type_params=fn.type_params, pure=not self.program.references)

    def function(self, fn: Fn, declared: FuncType | None) -> Function:
        for p in fn.params:
            self.var(p)
        for node in post_order(fn.body):
            if id(node) not in self.made:
                self.made[id(node)] = self.checked(node)
        try:
            return self.closed(fn, declared)
        except Invalid as wrong:
            raise self.failed(wrong, fn) from None

    def closed(self, fn: Fn, declared: FuncType | None) -> Function:
        """The function around its body, which is translated."""
        result = declared.result if declared is not None else self.typing.result(fn) if fn.result is not None else None
        body = self.made[id(fn.body)]
        made = graph.function(
            [self.var(p) for p in fn.params], named(body, self.params) if result is None else body, result,
            type_params=fn.type_params,
            pure=not self.program.references, span=self.places.span(fn.start),
        )  # fmt: skip
        attrs = dict(fn.attrs)
        device = attrs.pop("virtual_device", None)
        return replace(made, attrs=attrs, device=device if isinstance(device, VirtualDevice) else ANYWHERE)

    # --- names -----------------------------------------------------------------------------------------------------

    def var(self, binder: Binder) -> Var:
        """The variable of a name that is bound."""
        found = self.vars.get(id(binder))
        if found is not None:
            return found
        if id(binder) in self.matched:
            node, pattern = self.matched[id(binder)]
            self.bind_pattern(pattern, node)
            return self.vars[id(binder)]
        if id(binder) in self.recursive:
            value = self.made.get(id(self.recursive[id(binder)]))
            of = value.type if value is not None else self.signature(self.recursive[id(binder)])
            return self.name(binder, graph.var(binder.name, of))
        if id(binder) in self.lets:
            return self.name(binder, graph.var(binder.name, self.value(self.lets[id(binder)]).type))
        return self.name(binder, graph.var(binder.name, self.typing.parameter(binder)))

    def name(self, binder: Binder, var: Var) -> Var:
        self.vars[id(binder)] = replace(var, device=binder.device, span=self.places.span(binder.start))
        self.typing.sizes.update(symbols(var.type))
        if id(binder) in self.of_functions:
            self.params.update(symbols(var.type))
        return self.vars[id(binder)]

    def bind_pattern(self, pattern: RelayPattern, node: syntax.RelayMatch) -> None:
        """The variables of a pattern, at the types of what it meets."""
        work = Worklist([(pattern, self.made[id(node.value)].type)])
        for p, of in work:
            match p.kind, of:
                case "name", _:
                    assert p.binder is not None
                    self.name(p.binder, graph.var(p.binder.name, of))
                case "tuple", TupleType() if len(of.fields) == len(p.children):
                    work.add(zip(p.children, of.fields, strict=True))
                case "made", DataType() if of.name == p.data:
                    fields = graph.field_types(graph.constructor(self.data[p.data], p.constructor), of)
                    if len(fields) != len(p.children):
                        message = f"{p.constructor} has {len(fields)} fields, the pattern {len(p.children)}"
                        raise self.places.failure(Invalid, p.start, p.end, message, "match.C4")
                    work.add(zip(p.children, fields, strict=True))
                case "any", _:
                    pass
                case _:
                    raise self.places.failure(Invalid, p.start, p.end, f"the pattern is matched with {of}", "match.C3")

    def patterned(self, pattern: RelayPattern) -> graph.Pattern:
        def made(p: RelayPattern, fields: list[graph.Pattern]) -> graph.Pattern:
            if p.kind == "any":
                return graph.Wildcard()
            if p.binder is not None:
                return graph.Bind(self.var(p.binder))
            if p.kind == "tuple":
                return graph.Fields(tuple(fields))
            return graph.Made(graph.constructor(self.data[p.data], p.constructor), tuple(fields))

        return fold(pattern, made)

    # --- expressions -----------------------------------------------------------------------------------------------

    def checked(self, node: RelayNode) -> Expr:
        try:
            return self.expression(node)
        except Invalid as wrong:
            raise self.failed(wrong, node) from None

    def failed(self, wrong: Invalid, node: RelayNode) -> Invalid:
        """A failure with the place of a node and its line, unless it has both."""
        if "\n" in wrong.message and wrong.where is not None:
            return wrong
        return self.places.failure(type(wrong), node.start, node.end, wrong.message, wrong.label)

    def expression(self, node: RelayNode) -> Expr:
        span = self.places.span(node.start)
        match node:
            case syntax.Literal():
                return graph.constant(node.data, span=span)
            case syntax.RelayVar():
                return self.used(node, self.var(node.binder))
            case syntax.Shared():
                return self.shared(node.graph)
            case syntax.Global():
                return self.used(node, self.global_(node.name))
            case syntax.Maker():
                return self.used(node, graph.constructor(self.data[node.data], node.name))
            case syntax.RelayOp() if id(node) in self.called:
                return graph.tuple_of()  # the call reads its name
            case syntax.RelayOp():
                raise Unsupported(f"{node.name} as a value: write a function around it", label="relay.C14")
            case syntax.Apply(callee=syntax.RelayOp() as op):
                args = [self.made[id(a)] for a in node.args]
                return from_relay(op.name, args, node.attrs, span, self.acts, self.params)
            case syntax.Apply():
                return self.call(node, span)
            case syntax.Let():
                return self.let(node, span)
            case syntax.Graph():
                assert node.body is not None
                body = self.made[id(node.body)]
                var = self.graphs.get(id(node))
                return body if var is None else graph.let(var, self.made[id(node.value)], body, span=span)
            case syntax.Branch():
                parts = [self.made[id(c)] for c in node.children]
                return graph.if_(parts[0], parts[1], parts[2], span=span)
            case syntax.RelayTuple():
                return graph.tuple_of(*(self.made[id(f)] for f in node.fields), span=span)
            case syntax.Item():
                return graph.get(self.made[id(node.value)], node.index, span=span)
            case syntax.Reference():
                return self.reference(node, span)
            case Fn():
                return self.closed(node, self.declared(node))
            case syntax.RelayMatch():
                clauses = [(self.patterned(p), self.made[id(body)]) for p, body in node.clauses]
                return graph.match(self.made[id(node.value)], *clauses, partial=node.partial, span=span)
            case _:
                raise Unsupported(f"no rule for {type(node).__name__}", label="relay.C14")

    def declared(self, fn: Fn) -> FuncType | None:
        """The type that a local function was used at, inside itself."""
        binder = self.owner.get(id(fn))
        of = None if binder is None or id(binder) not in self.vars else self.vars[id(binder)].type
        return of if isinstance(of, FuncType) else None

    def global_(self, name: str) -> Expr:
        found = self.functions.get(name)
        if found is None:
            names = ", ".join(f"@{n}" for n in self.program.functions)
            raise Invalid(f"the text has no function @{name}; it has {names}", label="relay.C10")
        return GlobalVar(found, name)

    def used(self, node: RelayNode, value: Expr) -> Expr:
        """A use of a name. What has type parameters and is not called becomes a function without."""
        of = value.type
        if id(node) in self.called or not isinstance(of, FuncType) or not of.type_params:
            return value
        args = self.typing.type_args(node)
        if args is None:
            names = ", ".join(map(str, of.type_params))
            raise Invalid(f"what {names} stands for is not told: write a function around it", label="relay.C13")
        bound: Bound = dict(zip(of.type_params, args, strict=True))
        plain = graph.instantiate(FuncType(of.params, of.result, pure=of.pure), bound)
        assert isinstance(plain, FuncType)
        params = [graph.var(f"p{i}", t) for i, t in enumerate(plain.params)]
        span = self.places.span(node.start)
        called = graph.call(value, *params, type_args=args, span=span)
        return graph.function(params, called, plain.result, pure=of.pure, span=span)

    def call(self, node: syntax.Apply, span: Span) -> Expr:
        callee = self.made[id(node.callee)]
        args = [self.made[id(a)] for a in node.args]
        try:
            return graph.call(callee, *args, span=span)
        except Invalid as wrong:
            type_args = self.typing.type_args(node.callee)
            if wrong.label not in ("call.C7", "call.C10") or type_args is None:
                raise
            return graph.call(callee, *args, type_args=type_args, span=span)

    def let(self, node: syntax.Let, span: Span) -> Expr:
        var = self.var(node.binder)
        return graph.let(var, self.value(node), self.made[id(node.body)], span=span)

    def value(self, node: syntax.Let) -> Expr:
        """The value of a let, as its annotation says."""
        found = self.values.get(id(node))
        if found is None:
            if id(node.value) not in self.made:
                raise Invalid(f"%{node.binder.name} is used outside of its let", label="graph.C1")
            found = self.values[id(node)] = self.typing.annotated(self.made[id(node.value)], node.binder)
        return found

    def shared(self, node: syntax.Graph) -> Expr:
        """What a graph binding stands for: the one expression, or a variable where that acts."""
        value = self.made[id(node.value)]
        if id(node) in self.graphs or self.acts(value):
            return self.graphs.setdefault(id(node), graph.var("g", value.type))
        return value

    def reference(self, node: syntax.Reference, span: Span) -> Expr:
        makers: dict[str, Callable[..., Expr]] = {"ref": graph.ref, "ref_read": graph.read, "ref_write": graph.write}
        return makers[node.kind](*(self.made[id(a)] for a in node.args), span=span)

    def acts(self, value: Expr) -> bool:
        """Whether evaluating an expression, its operands included, is an action."""
        if not self.program.references:
            return False

        def parts(n: Expr) -> Sequence[Expr]:
            return () if isinstance(n, Function) or id(n) in self.active else n.children

        for n in post_order(value, parts):
            if id(n) not in self.active:
                inside = not isinstance(n, Function) and any(self.active[id(c)][1] for c in n.children)
                self.active[id(n)] = (n, inside or graph.acts(n))
        return self.active[id(value)][1]
