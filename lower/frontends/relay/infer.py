"""Types that a Relay text leaves out (specs/lower.md, "Relay").

Relay's texts may leave out the types of parameters, results, and what a constructor or a function with type parameters
stands for. They are found by unification over the whole text. Sizes play no part in it, and nothing is refused here:
what is found fills holes, and the translation checks it all.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.relay import syntax
from assay.lower.frontends.relay.operators import from_relay
from assay.lower.frontends.relay.reader import Hole
from assay.lower.frontends.relay.syntax import Binder, Fn, RelayNode, RelayPattern, RelayProgram
from assay.semantics import graph
from assay.semantics.dtypes import BOOL
from assay.semantics.errors import Invalid
from assay.semantics.graph.matching import Bound, instantiate
from assay.semantics.scalar import provably_equal
from assay.semantics.types import (
    UNIT,
    DataDef,
    DataType,
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    free_type_vars,
)
from assay.semantics.walk import Worklist, post_order, rewrite


class TypeInference:
    """What is known of the types of a program."""

    def __init__(
        self, program: RelayProgram, data: dict[str, DataDef], known: dict[str, FuncType], needed: bool
    ) -> None:
        """`data` and `known` have the prelude's too, where the text uses it. Nothing is found where it is not `needed`,
        as the text leaves no type out."""
        self.program = program
        self.data = data
        self.solved: dict[Hole, Type] = {}
        self.types: dict[int, Type] = {}
        self.binders: dict[int, Type] = {}
        self.functions = dict(known)
        self.used_as: dict[int, tuple[Type, ...]] = {}
        """For a use of something with type parameters, what these stand for there."""
        self.mixed: dict[int, tuple[Type, set[int]]] = {}
        """By a tensor type itself, not by its meaning: the axes in which it met others of other sizes, where one name
        stands for both."""
        self.waiting: dict[Hole, list[syntax.Apply | syntax.Item]] = {}
        """Calls of operators, and fields, by a hole that must be filled first."""
        self.ready: list[syntax.Apply | syntax.Item] = []
        functions = program.functions if needed else {}
        for name, fn in functions.items():
            self.functions[name] = self.declared(fn)
        for name, fn in functions.items():
            for node in post_order(fn.body):
                self.visit(node)
            self.unify(self.functions[name].result, self.types[id(fn.body)])
            while self.ready:
                self.derived(self.ready.pop())

    # --- what is known ---------------------------------------------------------------------------------------------

    def known(self, of: Type) -> Type:
        """A type with the holes filled that are known."""
        while True:
            if not any(isinstance(v, Hole) and v in self.solved for v in free_type_vars(of)):
                return of
            of = rewrite(of, lambda t: self.head(t))

    def head(self, of: Type) -> Type:
        """Follow what holes were solved with, to a type that is no solved hole."""
        while isinstance(of, Hole) and of in self.solved:
            of = self.solved[of]
        return of

    def unify(self, a: Type, b: Type) -> None:
        """Make two types one, as far as they can be."""
        work = Worklist([(a, b)])
        for pair in work:
            a, b = map(self.head, pair)
            if a is b:
                continue
            if isinstance(a, Hole) or isinstance(b, Hole):
                hole, to = (a, b) if isinstance(a, Hole) else (b, a)
                assert isinstance(hole, Hole)
                if hole not in free_type_vars(self.known(to)):
                    self.solved[hole] = to
                    self.ready += self.waiting.pop(hole, ())
            elif isinstance(a, TensorType) and isinstance(b, TensorType):
                self.meet(a, b)
            elif type(a) is type(b) and len(a.children) == len(b.children):
                work.add(zip(a.children, b.children, strict=True))

    def meet(self, a: TensorType, b: TensorType) -> None:
        """Note the axes at which two tensor types have sizes that may differ: they will be left open."""
        for axis, (d, e) in enumerate(zip(a.shape, b.shape, strict=False)):
            if not (isinstance(d, int) and isinstance(e, int)) and not provably_equal(d, e):
                for of in (a, b):
                    self.mixed.setdefault(id(of), (of, set()))[1].add(axis)

    # --- functions -------------------------------------------------------------------------------------------------

    def declared(self, fn: Fn) -> FuncType:
        """The type of a function as far as its text says, with holes for the rest."""
        params = tuple(self.binder(p) for p in fn.params)
        return FuncType(params, fn.result or Hole("r"), type_params=fn.type_params, pure=not self.program.references)

    def binder(self, b: Binder) -> Type:
        """The type of a variable, a hole if the text leaves it out."""
        return self.binders.setdefault(id(b), b.type or Hole(b.name))

    def used(self, node: RelayNode, of: Type) -> Type:
        """The type of a use of something of type `of`: its type parameters are holes there."""
        of = self.head(of)
        if not isinstance(of, FuncType) or not of.type_params:
            return of
        holes = tuple(Hole(p.name) for p in of.type_params)
        self.used_as[id(node)] = holes
        plain = FuncType(of.params, of.result, pure=of.pure)
        return instantiate(plain, dict(zip(of.type_params, holes, strict=True)))

    def visit(self, node: RelayNode) -> None:
        """Find the type of a node whose children have theirs."""
        self.types[id(node)] = self.type_of(node)

    def type_of(self, node: RelayNode) -> Type:
        """The type of a node from the types of its children; operators give a hole that is solved later."""
        match node:
            case syntax.Literal():
                return graph.constant(node.data).type
            case syntax.RelayVar():
                return self.used(node, self.binder(node.binder))
            case syntax.Shared():
                return self.types.get(id(node.graph.value), Hole("g"))
            case syntax.Global():
                return self.used(node, self.functions.get(node.name, Hole(node.name)))
            case syntax.Maker():
                return self.used(node, graph.constructor(self.data[node.data], node.name).type)
            case syntax.Apply(callee=syntax.RelayOp() as op):
                result = Hole(op.name)
                self.types[id(node)] = result
                self.derived(node)
                return result
            case syntax.Apply():
                return self.applied(node)
            case syntax.Let() | syntax.Graph():
                if isinstance(node, syntax.Let):
                    self.bound(node)
                return self.types[id(node.body)]
            case syntax.Branch():
                self.unify(self.types[id(node.condition)], TensorType((), BOOL))
                self.unify(self.types[id(node.then)], self.types[id(node.otherwise)])
                return self.types[id(node.then)]
            case syntax.RelayTuple():
                return TupleType(tuple(self.types[id(f)] for f in node.fields))
            case syntax.Item():
                item = Hole("item")
                self.types[id(node)] = item
                self.derived(node)
                return item
            case syntax.Reference():
                return self.reference(node)
            case Fn():
                of = self.declared(node)
                self.unify(of.result, self.types[id(node.body)])
                return of
            case syntax.RelayMatch():
                return self.matched(node)
            case _:
                return Hole("op")

    def bound(self, node: syntax.Let) -> None:
        """Unify the variable of a let with its value; a generic function keeps its type parameters for its uses."""
        value = self.types[id(node.value)]
        if isinstance(node.value, Fn) and node.value.type_params and node.binder.type is None:
            # uses come before: those inside itself are of one type
            self.binders[id(node.binder)] = value
        else:
            self.unify(self.binder(node.binder), value)

    def reference(self, node: syntax.Reference) -> Type:
        """The type of making, reading or writing a reference."""
        first = self.types[id(node.args[0])]
        if node.kind == "ref":
            return RefType(first)
        inner = Hole("value")
        self.unify(first, RefType(inner))
        if node.kind == "ref_read":
            return inner
        self.unify(inner, self.types[id(node.args[1])])
        return UNIT

    def applied(self, node: syntax.Apply) -> Type:
        """The result of a call, after the arguments are unified with the parameters."""
        callee = self.head(self.types[id(node.callee)])
        args = tuple(self.types[id(a)] for a in node.args)
        if isinstance(callee, FuncType):
            for want, given in zip(callee.params, args, strict=False):
                self.unify(want, given)
            return callee.result
        result = Hole("result")
        self.unify(callee, FuncType(args, result, pure=not self.program.references))
        return result

    def matched(self, node: syntax.RelayMatch) -> Type:
        """The common type of all clauses, after each pattern is unified with the value."""
        result: Type = Hole("match")
        for pattern, body in node.clauses:
            self.pattern(pattern, self.types[id(node.value)])
            self.unify(result, self.types[id(body)])
        return result

    def pattern(self, pattern: RelayPattern, of: Type) -> None:
        """Unify a pattern, and all patterns within it, with the type of what it is matched to."""
        work = Worklist([(pattern, of)])
        for p, of in work:
            fields: Sequence[Type] = ()
            if p.binder is not None:
                self.unify(self.binder(p.binder), of)
            elif p.kind == "tuple":
                fields = tuple(Hole("field") for _ in p.children)
                self.unify(of, TupleType(fields))
            elif p.kind == "made":
                data = self.data[p.data]
                holes = tuple(Hole(v.name) for v in data.type_params)
                self.unify(of, DataType(data.name, holes))
                bound: Bound = dict(zip(data.type_params, holes, strict=True))
                fields = tuple(instantiate(t, bound) for t in data.constructors[p.constructor])
            work.add(zip(p.children, fields, strict=False))

    # --- operators -------------------------------------------------------------------------------------------------

    def derived(self, node: syntax.Apply | syntax.Item) -> None:
        """The type of a call of an operator, or of a field, once its operands' are known; else it waits."""
        if isinstance(node, syntax.Item):
            of = self.head(self.types[id(node.value)])
            if isinstance(of, TupleType) and node.index < len(of.fields):
                self.unify(self.types[id(node)], of.fields[node.index])
            elif isinstance(of, Hole):
                self.waiting.setdefault(of, []).append(node)
            return
        assert isinstance(node.callee, syntax.RelayOp)
        types = [self.known(self.types[id(a)]) for a in node.args]
        open_ = next((v for t in types for v in free_type_vars(t) if isinstance(v, Hole)), None)
        if open_ is not None:
            self.waiting.setdefault(open_, []).append(node)
            return
        literals = [a.data if isinstance(a, syntax.Literal) else None for a in node.args]
        operands = [graph.var("x", t) if d is None else graph.constant(d) for t, d in zip(types, literals, strict=True)]
        try:
            self.unify(self.types[id(node)], from_relay(node.callee.name, operands, node.attrs).type)
        except Invalid:
            pass  # the translation says it, with its place
