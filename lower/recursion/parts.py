"""Bodies of functions cut into parts at the calls of their own group (specs/lower.md, "recursion").

A part begins where a function is entered, where a call has come back, or where the arms of a choice with such calls
meet. It ends with the value of the function, or with where it goes on. Each binding of the source is in one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.lower.anf.copying import fresh_copy
from assay.lower.recursion.groups import RecursiveGroup
from assay.lower.recursion.sizes import told_inside
from assay.semantics import graph
from assay.semantics.analyses.variables import free_symbols
from assay.semantics.graph import (
    Constant,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Let,
    ShapeExpr,
    Var,
    free_variables,
)
from assay.semantics.graph.nodes import bound_by
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import Task
from assay.semantics.types import TensorType, TupleType, Type, same_type, symbols
from assay.semantics.walk import Worklist, fold_scoped, post_order, reached, rewrite

Names: TypeAlias = Mapping[Var, Var]
MADE_AGAIN = (Constant, GlobalVar, ExternFunc, ShapeExpr, Function)
"""What is not kept in a frame: it is made again where it is needed, at no cost."""


@dataclass(eq=False)
class PartCode:
    """Bindings, and what comes behind them."""

    lets: list[tuple[Var, Expr]]
    end: End


@dataclass(frozen=True, eq=False)
class Give:
    """The value of the function."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Fork:
    """A choice between two ways to go on."""

    condition: Expr
    then: PartCode
    otherwise: PartCode


@dataclass(frozen=True, eq=False)
class Go:
    """On to a part, with values for its registers. `saved` are the values that are put into a frame for the part
    `back`, to which the function's value comes; without it no frame is taken."""

    to: int
    registers: Mapping[Var, Expr]
    back: int | None = None
    saved: Mapping[Var, Expr] = field(default_factory=dict)


End: TypeAlias = Give | Fork | Go


@dataclass(frozen=True, eq=False)
class MeetingPart:
    """Where arms meet: the part, the register of the choice's value, and those of what is needed behind."""

    part: int
    result: Var
    needed: Mapping[Var, Var]


class VariablePool:
    """Variables of the new function by type: registers, or stacks. Each part takes the first ones."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.all: list[tuple[Type, Var]] = []

    def take(self, types: Sequence[Type], depth: int | None = None) -> list[Var]:
        """A place for each of some types; with a `depth`, one of as many rows."""
        free = list(self.all)
        found: list[Var] = []
        for of in types:
            at = next((i for i, (t, _) in enumerate(free) if same_type(t, of)), None)
            if at is not None:
                found.append(free.pop(at)[1])
                continue
            whole = of
            if depth is not None:
                assert isinstance(of, TensorType)
                whole = TensorType((depth, *of.shape), of.dtype)
            made = graph.var(f"{self.name}{len(self.all)}", whole)
            self.all.append((of, made))
            found.append(made)
        return found


class Parts:
    """The parts of a group. What is saved, and where one goes on, are methods: so tests can plant faults."""

    def __init__(self, group: RecursiveGroup, kept: Names, depth: int) -> None:
        self.group = group
        self.kept = kept
        self.depth = depth
        self.told = told_inside(group)
        self.registers = VariablePool("r")
        self.stacks = VariablePool("s")
        self.level = graph.var("level", graph.constant(0, "int64").type)
        self.made: list[PartCode | None] = [None for _ in group.members]
        self.entries = [self.registers.take(self.types_of(f)) for _, f in group.members]
        self.own: set[Var] = set()
        """The variables of the functions, but for what is handed on as it is."""
        self.again: dict[Var, Expr] = {}
        """The values that are made again, by variable."""
        for _, f in group.members:
            self.own.update(p for p in f.params if p not in kept)
            nodes = list(post_order(f.body, lambda n: () if isinstance(n, Function) else n.children))
            self.own.update(v for n in nodes for v in bound_by(n) if not isinstance(n, Function))
            lets = [n for n in reversed(nodes) if isinstance(n, Let)]  # the outer of two lets first
            self.again.update((n.var, n.value) for n in lets if isinstance(n.value, MADE_AGAIN))

    def types_of(self, function: Function) -> list[Type]:
        """The types of what a call hands over."""
        return [p.type for p in function.params if p not in self.kept]

    def cut(self) -> Task[list[PartCode]]:
        """All parts, by number: the functions' beginnings first, in their order."""
        for k, (_, f) in enumerate(self.group.members):
            changing = [p for p in f.params if p not in self.kept]
            names = {**self.kept, **dict(zip(changing, self.entries[k], strict=True))}
            self.made[k] = yield self.code(f.body, names, None)
        done = [code for code in self.made if code is not None]
        assert len(done) == len(self.made)
        return done

    def code(self, chain: Expr, names: Names, meeting: MeetingPart | None) -> Task[PartCode]:
        """The code of a chain of lets whose value is the function's, or goes to a meeting. `names` says what stands for
        the source's variables here."""
        code = PartCode([], Give(chain))
        while isinstance(chain, Let):
            if id(chain.value) in self.group.calling:
                last: PartCode = yield self.ended(chain, names, meeting)
                return PartCode([*code.lets, *last.lets], last.end)
            code.lets.append((chain.var, _named(chain.value, names)))
            chain = chain.body
        value = _named(chain, names)
        code.end = Give(value) if meeting is None else self.met(meeting, value, names)
        return code

    def ended(self, let: Let, names: Names, meeting: MeetingPart | None) -> Task[PartCode]:
        """How a part ends in front of a let whose value has calls of the group."""
        last = let.body is let.var and meeting is None
        callee = self.group.callee(let.value)
        if callee is not None:
            arguments = self.arguments(let.value, callee, names)
            if last:
                return PartCode([], self.go(callee, arguments))
            return PartCode([], (yield self.called(let, callee, arguments, names, meeting)))
        if not last:
            meeting = yield self.meeting(let, meeting)
        match let.value:
            case If() as choice:
                then: PartCode = yield self.code(choice.then, names, meeting)
                otherwise: PartCode = yield self.code(choice.otherwise, names, meeting)
                return PartCode([], Fork(_named(choice.condition, names), then, otherwise))
            case Let():
                inside: PartCode = yield self.code(let.value, names, meeting)
                return inside
            case _:
                self.group.refuse("a call stands inside of another value", let.value.span, "recursion.C1")

    def arguments(self, call: Expr, callee: int, names: Names) -> dict[Var, Expr]:
        """What a call hands over, by register."""
        assert isinstance(call, graph.Call)
        params = self.group.members[callee][1].params
        given = [_named(a, names) for p, a in zip(params, call.args, strict=True) if p not in self.kept]
        return dict(zip(self.entries[callee], given, strict=True))

    def go(self, to: int, registers: Mapping[Var, Expr]) -> Go:
        """On to a part, without a frame."""
        return Go(to, registers)

    def met(self, meeting: MeetingPart, value: Expr, names: Names) -> Go:
        """On to where arms meet."""
        return self.go(meeting.part, {meeting.result: value, **{r: names.get(v, v) for v, r in meeting.needed.items()}})

    def meeting(self, let: Let, around: MeetingPart | None) -> Task[MeetingPart]:
        """The part behind a choice with calls in it."""
        needed = self.needed(let, around)
        result, *others = self.registers.take([let.var.type, *(v.type for v in needed)])
        found = MeetingPart(self.new(), result, dict(zip(needed, others, strict=True)))
        code, names = self.again_here(let, around, {**found.needed, let.var: result})
        rest: PartCode = yield self.code(let.body, names, around)
        self.made[found.part] = PartCode([*code, *rest.lets], rest.end)
        return found

    def called(
        self, let: Let, callee: int, arguments: Mapping[Var, Expr], names: Names, around: MeetingPart | None
    ) -> Task[Go]:
        """A frame is taken, and the part behind the call is made."""
        back = self.new()
        needed = self.saved(let, around)
        (result,) = self.registers.take([let.var.type])
        leaves = {v: _leaves(names.get(v, v)) for v in needed}
        stacks = self.stacks.take([leaf.type for v in needed for leaf in leaves[v]], self.depth)
        saved = dict(zip(stacks, (leaf for v in needed for leaf in leaves[v]), strict=True))
        code: list[tuple[Var, Expr]] = []
        rest = iter(stacks)
        here: dict[Var, Var] = {let.var: result}
        for v in needed:
            here[v] = _restored(v, [self.row(next(rest)) for _ in leaves[v]], code)
        again, inside = self.again_here(let, around, here)
        behind: PartCode = yield self.code(let.body, inside, around)
        self.made[back] = PartCode([*code, *again, *behind.lets], behind.end)
        return Go(callee, arguments, back, saved)

    def row(self, stack: Var) -> Expr:
        """What the frame that was left last has in a stack."""
        return graph.call("take", stack, self.level, axis=0)

    def saved(self, let: Let, around: MeetingPart | None) -> list[Var]:
        """The variables that a frame keeps while a call runs."""
        return self.needed(let, around)

    def needed(self, let: Let, around: MeetingPart | None) -> list[Var]:
        """The variables whose values are needed behind a let, and are not made again."""
        found = [v for v in self.behind(let, around) if v not in self.again]
        for v in found:
            if not all(isinstance(x.type, TensorType) for x in _leaves(v)):
                self.group.refuse(f"{v.name}, {v.type}, is needed behind a call", let.value.span, "recursion.C4")
        told = [*free_symbols(let.body), *(s for v in found for s in symbols(v.type))]
        self.require_known(let, told)
        return found

    def require_known(self, let: Let, sizes: Iterable[Symbol]) -> None:
        """Unsupported: one of some sizes is told before a cut, and needed behind it."""
        odd = next((s for s in sizes if s in self.told), None)
        if odd is not None:
            self.group.refuse(f"{odd.name}, which a run tells, is needed behind a call", let.value.span, "recursion.C2")

    def behind(self, let: Let, around: MeetingPart | None) -> list[Var]:
        """All own variables that are used behind a let, with those of what is made again."""

        def own(variables: Iterable[Var]) -> list[Var]:
            return [v for v in variables if v in self.own and v is not let.var]

        starts = own([*free_variables(let.body), *(around.needed if around is not None else ())])
        return list(reached(starts, lambda v: own(free_variables(self.again[v])) if v in self.again else ()))

    def again_here(self, let: Let, around: MeetingPart | None, here: Names) -> tuple[list[tuple[Var, Expr]], Names]:
        """What is made again at the beginning of a part, and what stands for the source's variables then."""
        names = {**self.kept, **here}
        code: list[tuple[Var, Expr]] = []
        wanted = set(self.behind(let, around))
        for v, value in self.again.items():  # in the order of the source
            if v in wanted:
                self.require_known(let, free_symbols(value))
                own = graph.var(v.name, v.type)
                code.append((own, fresh_copy(value, {**names, v: own})))
                names[v] = own
        return code, names

    def new(self) -> int:
        """The number of a part that is to be made."""
        self.made.append(None)
        return len(self.made) - 1


def _named(expr: Expr, names: Names) -> Expr:
    """An expression of the source with what stands for its variables here."""
    return rewrite(expr, lambda n: names.get(n, n) if isinstance(n, Var) else n)


def _leaves(value: Expr) -> list[Expr]:
    """The parts of a value that are no tuples, left to right."""
    work = Worklist([value])
    found: list[Expr] = []
    for at in work:
        if isinstance(at.type, TupleType):
            work.add(graph.get(at, i) for i in range(len(at.type.fields)))
        else:
            found.append(at)
    return found


def packed(of: Type, leaf: Callable[[Type], Expr]) -> Expr:
    """A value of a type, of what `leaf` gives for its parts that are no tuples, left to right."""

    def made(t: Type, fields: list[Expr]) -> Expr:
        return graph.tuple_of(*fields) if isinstance(t, TupleType) else leaf(t)

    return fold_scoped(of, lambda t: t.fields if isinstance(t, TupleType) else (), made)


def _restored(var: Var, leaves: Sequence[Expr], code: list[tuple[Var, Expr]]) -> Var:
    """A variable of the value that has these parts; the bindings go to `code`."""
    rest = iter(leaves)

    def named(value: Expr) -> Var:
        own = graph.var(var.name, value.type)
        code.append((own, value))
        return own

    made = packed(var.type, lambda _: named(next(rest)))
    return made if isinstance(made, Var) else named(made)
