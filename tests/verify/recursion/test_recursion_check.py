"""What the check of recursion proves, and the faults that it must see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from assay.lower.anf import to_anf
from assay.lower.recursion import Framing
from assay.lower.recursion.groups import RecursiveGroup
from assay.lower.recursion.machine import Machine
from assay.lower.recursion.parts import Go, MeetingPart, Names, Parts
from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, Let, Var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import Expr as Scalar, apply
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.semantics.types import same_type
from assay.verify.evidence import Context, Evidence
from assay.verify.recursion import check
from tests.lower.recursion.framed import framed, normal, runs
from tests.lower.recursion.programs import ARMS, LINEAR, LOCAL, MUTUAL, ORDER, PROGRAMS, TREE, Recursive
from tests.lower.recursion.test_recursion import SQUARE, TOLD
from tests.museum.mutations import mutated
from tests.observation import observe


def checked(before: Module, after: Module) -> Evidence:
    return check(before, after, Context())


@pytest.mark.parametrize("name", PROGRAMS)
def test_frames_are_proved(name: str) -> None:
    found = checked(*framed(PROGRAMS[name]))
    assert found.holds and found.how == "proved" and "at most 64 frames" in found.detail, found.detail


def test_it_is_proved_from_the_texts_too() -> None:
    """Nothing but what the two modules say is used, and each symbol is the text's own."""
    for name in ("mutual", "local"):
        before, after = framed(PROGRAMS[name])
        assert checked(parse(show(before)), parse(show(after))).holds, name


def test_a_module_that_is_left_alone_is_the_same() -> None:
    before, _ = framed(LINEAR)
    found = checked(before, before)
    assert found.holds and "the same module" in found.detail


# --- faults of the parts ---------------------------------------------------------------------------------------------


class OtherBack(Machine):
    """A call comes back to the part after the right one."""

    def deeper(self, end: Go) -> Expr:
        assert end.back is not None
        first = len(self.group.members)
        return super().deeper(replace(end, back=first + (end.back - first + 1) % (len(self.codes) - first)))


class NotSaved(Machine):
    """The first value that a frame keeps is not put into it."""

    def deeper(self, end: Go) -> Expr:
        return super().deeper(replace(end, saved=dict(list(end.saved.items())[1:])))


class SavedOther(Machine):
    """A frame keeps the argument of the call."""

    def deeper(self, end: Go) -> Expr:
        def other(stack: Var, value: Expr) -> Expr:
            return next((v for v in end.registers.values() if same_type(v.type, value.type)), value)

        return super().deeper(replace(end, saved={s: other(s, v) for s, v in end.saved.items()}))


class OneRowOff(Machine):
    """A value is put into the row of the next frame."""

    def pushed(self, stack: Var, value: Expr, place: Expr) -> Expr:
        if stack is self.returns:
            return super().pushed(stack, value, place)
        below = graph.call("add", place, graph.constant(1, "int64"))
        return super().pushed(stack, value, below)


class NotLeft(Machine):
    """Going back leaves no frame."""

    def again(self, new: Mapping[Var, Expr]) -> Expr:
        level = new.get(self.level)
        left = isinstance(level, Var) and level.name == "above"
        return super().again({**new, self.level: self.level} if left else new)


class OneFrameMore(Machine):
    """One more frame may be taken than there are rows."""

    def room(self, level: Scalar) -> Scalar:
        return apply("le", level, self.depth)


class OtherRegister(Machine):
    """The value of a function goes to another register than where it is sought."""

    def back(self, value: Expr) -> Expr:
        other = [r for r in self.registers if same_type(r.type, self.value.type) and r is not self.value]
        right, self.value = self.value, other[0]
        made = super().back(value)
        self.value = right
        return made


class OtherValue(Machine):
    """Where a function ends among others it gives a register, where it ends last its value."""

    def back(self, value: Expr) -> Expr:
        made = super().back(value)
        stale = next(r for r in self.registers if same_type(r.type, value.type) and r is not value)

        def change(node: Expr) -> Expr:
            if isinstance(node, Call) and node.op is self.ref:
                return replace(node, args=tuple(stale if a is value else a for a in node.args))
            return node

        whole = graph.function([], made)
        return rewrite_function(whole, change).body


class BottomAbove(Machine):
    """The value is the whole's where one frame is taken."""

    def back(self, value: Expr) -> Expr:
        made = super().back(value)
        assert isinstance(made, graph.If)
        return replace(made, condition=graph.call("equal", self.level, graph.constant(1, "int64")))


class EnteredDeep(Machine):
    """The frames are entered at level 1."""

    def wrapper(self, member: int, ref: Any, function: Function) -> Function:
        made = super().wrapper(member, ref, function)
        lets, _ = graph.let_chain(made.body)
        call = lets[-1].value
        assert isinstance(call, Call)
        other = replace(call, args=(call.args[0], graph.constant(1, "int64"), *call.args[2:]))
        return replace(made, body=replace(lets[-1], value=other))


class EnteredElsewhere(Machine):
    """A function begins with another part."""

    def wrapper(self, member: int, ref: Any, function: Function) -> Function:
        made = super().wrapper(member, ref, function)
        lets, _ = graph.let_chain(made.body)
        call = lets[-1].value
        assert isinstance(call, Call)
        part = graph.constant((member + 1) % len(self.codes), "int64")
        return replace(made, body=replace(lets[-1], value=replace(call, args=(part, *call.args[1:]))))


class FromRegisters(Parts):
    """What is needed behind a call is read where it was before the call."""

    def called(self, let: Let, callee: int, arguments: Any, names: Names, around: MeetingPart | None) -> Any:
        made = yield super().called(let, callee, arguments, names, around)
        return replace(made, saved={s: v for s, v in made.saved.items() if False})


class NoFrame(Parts):
    """A call is taken for a tail call."""

    def called(self, let: Let, callee: int, arguments: Any, names: Names, around: MeetingPart | None) -> Any:
        yield super().called(let, callee, arguments, names, around)
        return self.go(callee, arguments)


class OtherMeeting(Parts):
    """Arms meet with one value for all that is needed there."""

    def met(self, meeting: MeetingPart, value: Expr, names: Names) -> Go:
        made = super().met(meeting, value, names)
        return Go(made.to, {r: value if same_type(v.type, value.type) else v for r, v in made.registers.items()})


def with_parts(parts: type[Parts]) -> type[Machine]:
    return type(parts.__name__, (Machine,), {"parts": parts})


FAULTS: dict[str, tuple[type[Machine], Recursive, str]] = {
    "continuation swapped": (OtherBack, TREE, ""),
    "continuation swapped, arms": (OtherBack, ARMS, ""),
    "live value not saved": (NotSaved, LINEAR, "no step of frames"),
    "live value not saved, local": (NotSaved, LOCAL, "no step of frames"),
    "another value saved": (SavedOther, LINEAR, "the result is another value"),
    "saved one row off": (OneRowOff, LINEAR, "no step of frames"),
    "stack not popped": (NotLeft, LINEAR, "goes back without leaving its frame"),
    "depth off by one": (OneFrameMore, TREE, "no step of frames"),
    "value in another register": (OtherRegister, ARMS, "need not have the value"),
    "a stale value where it goes back": (OtherValue, ARMS, "need not have the value"),
    "left one frame early": (BottomAbove, TREE, "no step of frames"),
    "entered at level 1": (EnteredDeep, LINEAR, "not entered at level 0"),
    "entered in another part": (EnteredElsewhere, LINEAR, ""),
    "read from registers": (with_parts(FromRegisters), MUTUAL, "no step of frames"),
    "no frame": (with_parts(NoFrame), LINEAR, "the result is another value"),
    "one value for all where arms meet": (with_parts(OtherMeeting), ARMS, ""),
}


def with_fault(machine: type[Machine], case: Recursive) -> tuple[Module, Module]:
    before = normal(case.text)
    framing = Framing(before)
    framing.machine = machine  # type: ignore[misc]
    made = framing.run()
    assert made is not None
    return before, to_anf(made)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_parts_is_refused(name: str) -> None:
    machine, case, said = FAULTS[name]
    before, after = with_fault(machine, case)
    check_rules(after)
    found = checked(before, after)
    assert found.holds is False and said in found.detail, found.detail


# --- faults of the source's own work ---------------------------------------------------------------------------------


LATER = 'b = cls.f(R.subtract(n, R.const(2, "int64")), a)'
ASSERTED = '_2 = R.assert_op(R.less(n, R.const(6, "int64")), n, format="too large: {}")'
SWAPPED = {
    "two calls": (
        TREE,
        'R.add(cls.fib(R.subtract(n, R.const(1, "int64"))), cls.fib(R.subtract(n, R.const(2, "int64"))))',
        'R.add(cls.fib(R.subtract(n, R.const(2, "int64"))), cls.fib(R.subtract(n, R.const(1, "int64"))))',
    ),
    "a print behind the call": (
        ORDER,
        'a = cls.f(R.subtract(n, R.const(1, "int64")), R.add(x, x))\n            _1 = R.print(n, format="between {}")',
        '_1 = R.print(n, format="between {}")\n            a = cls.f(R.subtract(n, R.const(1, "int64")), R.add(x, x))',
    ),
    "an assertion before the call": (ORDER, f"{LATER}\n            {ASSERTED}", f"{ASSERTED}\n            {LATER}"),
    "another operator behind the call": (LINEAR, "R.nn.relu(x)), x)", "R.nn.relu(x)), R.nn.relu(x))"),
    "the other way of a choice": (ARMS, 'if R.equal(n, R.const(2, "int64"))', 'if R.equal(n, R.const(3, "int64"))'),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_frames_of_another_program_are_refused(name: str) -> None:
    case, old, new = SWAPPED[name]
    assert old in case.text
    before, _ = framed(case)
    other = replace(case, text=case.text.replace(old, new))
    found = checked(before, framed(other)[1])
    assert found.holds is False, found.detail


class LowStacks(Parts):
    """The stacks of values have a row less than the stack of parts to come back to."""

    def __init__(self, group: RecursiveGroup, kept: Names, depth: int) -> None:
        super().__init__(group, kept, depth)
        self.depth -= 1


def test_stacks_that_are_too_low_are_refused() -> None:
    """One stack has a row less than the others; or the assertion speaks of more rows than there are."""
    found = checked(*with_fault(with_parts(LowStacks), LINEAR))
    assert found.holds is False and "2 heights" in found.detail, found.detail
    before, after = framed(LINEAR, 4)
    other = framed(LINEAR, 5)[1].definitions["f_frame"]
    found = checked(before, after.with_(f_frame=replace(other, name="f_frame")))
    assert found.holds is False and "no step of frames" in found.detail, found.detail


class Blind(Parts):
    """Sizes that a run tells are not looked at."""

    def require_known(self, let: Let, sizes: Any) -> None:
        pass


def test_a_size_that_two_parts_tell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source compares what is told in both; parts of which each is told it do not."""
    monkeypatch.setattr("assay.lower.recursion.sizes.told_inside", lambda group: Counter())
    before, after = with_fault(with_parts(Blind), TOLD)
    found = checked(before, after)
    assert found.holds is False and "f_parts is told m in several places" in found.detail, found.detail


def test_sizes_that_are_one_in_the_parts_alone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecursiveGroup, "refuse", lambda self, why, where, label: None)
    before, after = with_fault(Machine, SQUARE)
    found = checked(before, after)
    assert found.holds is False, found.detail


def test_a_function_whose_interface_changes_is_refused() -> None:
    before, after = framed(LINEAR)
    of = after.definitions["f"]
    assert isinstance(of, Function)
    found = checked(before, after.with_(f=replace(of, attrs={"recursion_depth": 3})))
    assert found.holds is False and "f has other parameters, results or attributes" in found.detail
    found = checked(before, replace(after, definitions={n: d for n, d in after.definitions.items() if n != "f"}))
    assert found.holds is False and "definition f is gone" in found.detail


def test_damage_is_refused_or_harmless() -> None:
    """What is damaged at random and accepted runs as the source does."""
    accepted = refused = 0
    for name, part in (("linear", "f_parts"), ("mutual", "even_odd_parts")):
        before, after = framed(PROGRAMS[name])
        for seed in range(20):
            pick = Random(seed)
            found = mutated(after.with_(main=after.definitions[part]), lambda n, pick=pick: pick.randrange(n))
            if found is None:
                continue
            damaged = after.with_(**{part: found[1].main})
            try:
                check_rules(damaged)
            except Invalid:
                continue
            if not checked(before, damaged).holds:
                refused += 1
                continue
            accepted += 1
            for given in runs(PROGRAMS[name], before):
                assert observe(before, given).difference(observe(damaged, given)) is None, (name, seed)
    assert refused > 5 and accepted
