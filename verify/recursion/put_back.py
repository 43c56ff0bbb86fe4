"""What a function over frames computes, written as functions that call one another (specs/verify.md, "recursion").

The parts are followed from where a function is entered. Where a frame is taken for a part to come back to, and
another function is entered, a call of that stands; the part behind it goes on with the values that the frame has. Each
rule that this rests on is asked where it is used:

- a row is put only into the frame that is taken then, and read only from the one that was left last;
- going back leaves one frame, and where none is taken the value is the whole's;
- a register that a call may have changed is not read, but for the one that has the value.

Then a stack below the level is as it was whenever a part comes back, whatever ran in between: by induction over the
number of steps, a run of the function over frames is a run of these functions, as far as there are frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from assay.lower.anf.copying import fresh_copy
from assay.semantics import graph
from assay.semantics.graph import Call, CallTIR, Expr, If, Let, Tuple, TupleGetItem, Var, acts, free_variables
from assay.semantics.graph.effects import can_fail
from assay.semantics.module import Module
from assay.semantics.tasks import Task
from assay.semantics.types import Type, same_type
from assay.semantics.walk import post_order
from assay.verify.recursion.machine import FrameFunction, breaks_rule, number_of, operator_name

MOST = 100_000
"""Parts that are followed: parts that lead to one another could go round for ever."""


@dataclass(frozen=True)
class Level:
    """How many frames are taken, and so many more."""

    more: int


@dataclass(frozen=True)
class Is:
    """The parameter `part` is known, so this is decided."""

    holds: bool


@dataclass(frozen=True)
class Internal:
    """What is only used to run the frames: the part, the stack of a parameter, the place of the frame that is taken,
    whether no frame is taken, and the part to go back to."""

    what: str
    number: int = 0


@dataclass(frozen=True, eq=False)
class Pushed:
    """A stack with a value in the row of the frame that is taken."""

    stack: int
    value: Value


@dataclass(frozen=True, eq=False)
class Gone:
    """A register that a call may have changed."""


@dataclass(frozen=True, eq=False)
class Returned:
    """A register behind a call: if it is the one with the value, that."""

    register: int
    value: Var


Value: TypeAlias = "Var | Level | Is | Internal | Pushed | Gone | Returned"
Lets: TypeAlias = list[tuple[Var, Expr]]


@dataclass(frozen=True, eq=False)
class Entered:
    """A function that the frames serve: the part with which it begins, what calls it, and the places of its
    parameters."""

    part: int
    callee: Expr
    places: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gives:
    """The value of the function."""

    value: Var


@dataclass(frozen=True, eq=False)
class GoesOn:
    """To a part, with these parameters."""

    part: int
    params: Mapping[int, Value]


@dataclass(frozen=True, eq=False)
class PartState:
    """Where one is: what variables stand for, and what the frame that was left last has."""

    of: dict[Expr, Value]
    frame: Mapping[int, Value]


@dataclass(eq=False)
class PutBack:
    """Writes out the functions that one function over frames serves."""

    machine: FrameFunction
    module: Module
    entered: Sequence[Entered]
    used: set[int] = field(default_factory=set)
    """The registers from which a value was taken behind a call."""
    given: list[set[int]] = field(default_factory=list)
    """Where parts go back: in which registers the value is."""
    numbers: dict[Var, int] = field(default_factory=dict)
    rows: dict[Var, Value] = field(default_factory=dict)
    fields: dict[Var, tuple[Var, int]] = field(default_factory=dict)
    """Of what tuple a variable is which field."""
    parts: set[int] = field(default_factory=set)
    """The parts that were met."""
    told: set[int] = field(default_factory=set)
    """The parts of the function that is written out that tell sizes."""
    followed: int = 0

    def body(self, at: Entered, params: Sequence[Var]) -> Task[Expr]:
        """The body of a function, of its own parameters."""
        given: dict[int, Value] = dict(zip(at.places, params, strict=True))
        self.told = set()
        lets: Lets = []
        end: Gives | GoesOn = GoesOn(at.part, given)
        while isinstance(end, GoesOn):
            end = yield self.follow(end, lets)
        return self.chain(lets, end.value)

    def require_one_register(self) -> None:
        """Where parts go back, the value is in each register from which it is taken."""
        for j in self.used:
            if not same_type(self.machine.params[j].type, self.machine.function.result_type):
                breaks_rule(f"{self.machine.params[j].name} has another type than the value")
            if any(j not in found for found in self.given):
                breaks_rule(f"{self.machine.params[j].name} is read behind a call, but need not have the value")

    def follow(self, to: GoesOn, lets: Lets, frame: Mapping[int, Value] | None = None) -> Task[Gives | GoesOn]:
        """What a part comes to."""
        self.followed += 1
        if self.followed > MOST:
            breaks_rule(f"more than {MOST} parts")
        self.parts.add(to.part)
        if self.machine.tells(to.part):
            if to.part in self.told:
                breaks_rule("a part that tells a size stands in one function twice")
            self.told.add(to.part)
        of: dict[Expr, Value] = {}
        for j, p in enumerate(self.machine.params):
            stack = j in self.machine.stacks or j == self.machine.returns
            of[p] = Internal("stack", j) if stack else to.params.get(j, Gone())
        of[self.machine.params[0]], of[self.machine.params[1]] = Internal("part", to.part), Level(0)
        end: Gives | GoesOn = yield self.walk(self.machine.function.body, PartState(of, frame or {}), lets)
        return end

    # --- chains ------------------------------------------------------------------------------------------------------

    def walk(self, chain: Expr, at: PartState, lets: Lets) -> Task[Gives | GoesOn]:
        """What a chain of lets comes to; its bindings go to `lets`."""
        end: Gives | GoesOn
        while isinstance(chain, Let):
            value = chain.value
            if id(value) not in self.machine.calling:
                self.bind(chain.var, value, at, lets)
                chain = chain.body
                continue
            if chain.body is not chain.var:
                breaks_rule(f"{self.machine.name} has more to do behind a call of itself")
            match value:
                case If():
                    condition = self.look(value.condition, at)
                    if isinstance(condition, Is):
                        chain = value.then if condition.holds else value.otherwise
                        continue
                    if condition == Internal("bottom"):
                        return self.goes_back(value, at, lets)
                    end = yield self.arms(value, at, lets)
                    return end
                case Let():
                    chain = value
                case Call():
                    end = yield self.jump(value, at, lets)
                    return end
                case _:
                    breaks_rule("a call of itself stands inside of another value")
        breaks_rule(f"a part of {self.machine.name} gives a value though frames may be taken")

    def bind(self, var: Var, value: Expr, at: PartState, lets: Lets) -> None:
        """A variable becomes what stands for its value; a value of the source's goes to `lets`."""
        if isinstance(value, Var):
            at.of[var] = self.look(value, at)
            return
        found = self.own(value, at) or self.whole(value, at)
        if found is not None:
            at.of[var] = found
            return
        named = replace(var)
        outside = {v: self.plain(at.of[v]) for v in free_variables(value) if v in at.of}
        lets.append((named, fresh_copy(value, {**outside, var: named})))
        at.of[var] = named
        number = number_of(value)
        if number is not None:
            self.numbers[named] = number
        if operator_name(value) == "expand_dims" and value.attrs["axis"] == (0,):  # type: ignore[attr-defined]
            self.rows[named] = self.look(value.children[0], at)
        if isinstance(value, TupleGetItem):
            self.fields[named] = self.plain(self.look(value.value, at)), value.index

    def whole(self, value: Expr, at: PartState) -> Value | None:
        """The tuple of which a value is all fields again, in their order."""
        if not isinstance(value, Tuple) or not value.fields:
            return None
        found = [self.fields.get(self.plain(self.look(f, at))) for f in value.fields]
        of = found[0][0] if found[0] is not None else None
        same = of is not None and found == [(of, i) for i in range(len(found))]
        return of if same and of is not None and same_type(of.type, value.type) else None

    def own(self, value: Expr, at: PartState) -> Value | None:
        """What a value is that only runs the frames; None for one of the source's."""
        args = [self.look(a, at) for a in value.children if isinstance(a, Var)]
        if not any(isinstance(a, Level | Is | Internal | Pushed) for a in args):
            return None
        match value, operator_name(value), args:
            case CallTIR(func=name), _, [Level(0)] if self.machine.is_frame(name):
                return Level(1)
            case _, "less", [Internal("part", number), Var() as other] if other in self.numbers:
                return Is(number < self.numbers[other])
            case _, "equal", [Level(0), Var() as other] if self.numbers.get(other) == 0:
                return Internal("bottom")
            case _, "subtract", [Level(0), Var() as other] if self.numbers.get(other) == 1:
                return Level(-1)
            case Call(attrs={"axis": 0}), "take", [Internal("stack", j), Level(-1)] if j == self.machine.returns:
                return Internal("back")
            case Call(attrs={"axis": 0}), "take", [Internal("stack", j), Level(0)] if j in at.frame:
                return at.frame[j]
            case _, "reshape", [Level(0)] if value.attrs["shape"] == (1, 1):  # type: ignore[attr-defined]
                return Internal("place")
            case Call(attrs={"reduction": "none"}), "scatter_nd", [
                Internal("stack", j),
                Internal("place"),
                Var() as row,
            ]:
                if row in self.rows:
                    return Pushed(j, self.rows[row])
            case _:
                pass
        breaks_rule(f"{graph.show_head(value)} is no step of frames")

    def look(self, expr: Expr, at: PartState) -> Value:
        """What a name stands for; one from around is itself."""
        found = at.of.get(expr, expr)
        assert not isinstance(found, Expr) or isinstance(found, Var)
        return found

    def plain(self, value: Value) -> Var:
        """A value of the source's."""
        match value:
            case Var():
                return value
            case Returned(register, own):
                self.used.add(register)
                return own
            case Gone():
                breaks_rule("a register is read that a call may have changed, or nothing has filled")
            case Pushed() | Internal() | Level() | Is():
                breaks_rule("what only runs the frames is read")

    # --- ends --------------------------------------------------------------------------------------------------------

    def jump(self, call: Call, at: PartState, lets: Lets) -> Task[Gives | GoesOn]:
        """A call of itself: on to a part, or a frame is taken."""
        new = {j: self.look(a, at) for j, a in enumerate(call.args)}
        to, level = new[0], new[1]
        part = self.numbers.get(to) if isinstance(to, Var) else None
        if part is None:
            breaks_rule("a part goes on to one that is not known")
        params = {j: v for j, v in new.items() if j > 1 and not isinstance(v, Internal | Pushed | Level | Is)}
        callee = next((e for e in self.entered if e.part == part), None)
        if level == Level(0):
            self.require_same_stacks(new, set())
            if callee is None:
                return GoesOn(part, params)
            return Gives(self.called(callee, params, lets))
        if level != Level(1) or callee is None:
            breaks_rule("a part goes on at another level")
        filled = {j: v.value for j, v in new.items() if isinstance(v, Pushed) and v.stack == j}
        self.require_same_stacks(new, set(filled))
        back = filled.get(self.machine.returns)
        behind = self.numbers.get(back) if isinstance(back, Var) else None
        if behind is None:
            breaks_rule("a frame does not say where to come back to")
        value = self.called(callee, params, lets)
        after: dict[int, Value] = {j: Returned(j, value) for j in params}
        after.update((j, params[j]) for j in self.machine.kept if j in params)
        end: Gives | GoesOn = yield self.follow(GoesOn(behind, after), lets, filled)
        return end

    def called(self, callee: Entered, params: Mapping[int, Value], lets: Lets) -> Var:
        """A call of a function that the frames serve."""
        if any(j not in params for j in callee.places):
            breaks_rule("a function is entered without its arguments")
        args = tuple(self.plain(params[j]) for j in callee.places)
        of = self.machine.function.result_type
        value = self.var("value", of)
        lets.append((value, Call(of, callee.callee, args, device=value.device)))
        return value

    def require_same_stacks(self, new: Mapping[int, Value], filled: set[int]) -> None:
        """All stacks but those that are filled are handed on as they are, each in its place."""
        stacks = {*self.machine.stacks, self.machine.returns} - filled
        if any(new[j] != Internal("stack", j) for j in stacks):
            breaks_rule("a stack changes where no frame is taken")

    def goes_back(self, choice: If, at: PartState, lets: Lets) -> Gives:
        """The end of a function: its value where no frame is taken, else back to the part that waits for it."""
        value = self.value_of(choice.then, at)
        inner = PartState(dict(at.of), at.frame)
        chain, unused = choice.otherwise, list(lets)
        while isinstance(chain, Let) and id(chain.value) not in self.machine.calling:
            self.bind(chain.var, chain.value, inner, unused)
            chain = chain.body
        if any(not self.is_total(v) for _, v in unused[len(lets) :]):
            breaks_rule("there is more to do where a part goes back")
        if not isinstance(chain, Let) or chain.body is not chain.var or not isinstance(chain.value, Call):
            breaks_rule("a part does not go back")
        new = {j: self.look(a, inner) for j, a in enumerate(chain.value.args)}
        if new[0] != Internal("back") or new[1] != Level(-1):
            breaks_rule("a part goes back without leaving its frame")
        self.require_same_stacks(new, set())
        own = self.plain(value)
        self.given.append({j for j, v in new.items() if j > 1 and (v is own or self.same(v, value))})
        return Gives(own)

    def value_of(self, chain: Expr, at: PartState) -> Value:
        """What a chain of names comes to."""
        of = dict(at.of)
        while isinstance(chain, Let):
            if not isinstance(chain.value, Var):
                breaks_rule("there is more to do where the last part ends")
            of[chain.var] = of.get(chain.value, chain.value)
            chain = chain.body
        return self.look(chain, PartState(of, at.frame))

    # --- choices -----------------------------------------------------------------------------------------------------

    def arms(self, choice: If, at: PartState, lets: Lets) -> Task[Gives | GoesOn]:
        """A choice of the source's. Where its arms meet in a part, that comes behind the choice."""
        condition = self.plain(self.look(choice.condition, at))
        inner: list[Lets] = [[], []]
        ends: list[Gives | GoesOn] = []
        for arm, own in zip((choice.then, choice.otherwise), inner, strict=True):
            end: Gives | GoesOn = yield self.walk(arm, PartState(dict(at.of), at.frame), own)
            ends.append(end)
        while True:
            match ends:
                case [Gives(one), Gives(other)]:
                    (value,) = self.chosen(condition, inner, [(one, other)], lets)
                    return Gives(value)
                case [GoesOn() as one, GoesOn() as other] if one.part == other.part:
                    return self.meeting(condition, inner, one, other, lets)
                case [GoesOn() as one, other] if isinstance(other, Gives) or self.leads(one, other):
                    ends[0] = yield self.follow(one, inner[0])
                case [_, GoesOn() as other]:
                    ends[1] = yield self.follow(other, inner[1])

    def leads(self, one: GoesOn, other: GoesOn) -> bool:
        """Whether a part leads to another one."""
        return self.machine.leads_to(one.part, other.part)

    def meeting(self, condition: Var, inner: Sequence[Lets], one: GoesOn, other: GoesOn, lets: Lets) -> GoesOn:
        """Both arms go on to one part: what differs is the choice's value."""
        params: dict[int, Value] = {}
        differ: list[int] = []
        for j in self.machine.reads(one.part):
            if j not in one.params or j not in other.params:
                continue
            if self.same(one.params[j], other.params[j]):
                params[j] = one.params[j]
            else:
                differ.append(j)
        pairs = [(self.plain(one.params[j]), self.plain(other.params[j])) for j in differ]
        params.update(zip(differ, self.chosen(condition, inner, pairs, lets), strict=True))
        return GoesOn(one.part, params)

    def same(self, one: Value, other: Value) -> bool:
        """Whether two arms leave the same in a register."""
        if isinstance(one, Returned) and isinstance(other, Returned):
            return one.register == other.register and one.value is other.value
        return one is other or isinstance(one, Gone) and isinstance(other, Gone)

    def chosen(self, condition: Var, inner: Sequence[Lets], pairs: Sequence[tuple[Var, Var]], lets: Lets) -> list[Var]:
        """The values of a choice of these pairs."""
        results = [[pair[k] for pair in pairs] for k in (0, 1)]
        if len(pairs) == 1:
            results_: list[Expr] = [r[0] for r in results]
        else:
            results_ = []
            for own, fields in zip(inner, results, strict=True):
                made = replace(graph.tuple_of(*fields), device=self.machine.function.device)
                whole = self.var("fields", made.type)
                own.append((whole, made))
                results_.append(whole)
        then, otherwise = (self.chain(own, r) for own, r in zip(inner, results_, strict=True))
        both = replace(graph.if_(condition, then, otherwise), device=self.machine.function.device)
        value = self.var("chosen", both.type)
        lets.append((value, both))
        if len(pairs) == 1:
            return [value]
        found = [self.var("chosen", p.type) for p, _ in pairs]
        lets.extend((v, replace(graph.get(value, i), device=v.device)) for i, v in enumerate(found))
        return found

    def var(self, name: str, of: Type) -> Var:
        """A new variable, where the function is."""
        return Var(of, name, device=self.machine.function.device)

    def chain(self, lets: Lets, result: Expr) -> Expr:
        """A chain of lets, without values that nothing needs and that cannot fail or act."""
        used = set(free_variables(result))
        for var, value in reversed(lets):
            if var in used or not self.is_total(value):
                used.update(free_variables(value))
                result = replace(graph.let(var, value, result), device=self.machine.function.device)
        return result

    def is_total(self, value: Expr) -> bool:
        """Whether evaluating a value can neither fail nor act. What a function would do is done where it is called."""
        nodes = post_order(value, lambda n: () if isinstance(n, graph.Function) else n.children)
        return not any(acts(n) or can_fail(n, self.module) for n in nodes)
