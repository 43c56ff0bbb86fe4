"""Faults of the ahead-of-time executor of Relay, which makes calls on storage of a chain of bindings, and its kind.

Each is what the right pass made, with storage given or counted as those systems gave it (apache/tvm).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from assay.lower import liveness
from assay.lower.liveness import find_lives
from assay.lower.liveness.items import Text
from assay.lower.liveness.slots import Homes
from assay.lower.pool import plan_pools
from assay.semantics.dtypes import INT32
from assay.semantics.graph import Expr, Var, call, function, get, if_, tuple_of, var
from assay.semantics.module import Module, Program, Step
from assay.semantics.types import TensorType
from tests.lower.liveness.liveness_programs import F4, B, lowered
from tests.museum.faults.liveness_faults import named
from tests.museum.judges import fault
from tests.museum.planted import Patch, PlantedFault

X, Y, A, C, P = var("x", F4), var("y", F4), var("a", F4), var("b", F4), var("c", B)
ALIAS, LAST = var("alias", F4), var("last", F4)
PAIR = var("pair", tuple_of(X, Y).type)


def module(body: Expr, *params: Var) -> Module:
    return lowered(Module({"main": function(params, body)}))


def program(change: Callable[[Program], Program]) -> Callable[[Module], Module]:
    """What liveness made, with its program changed."""

    def wrong(source: Module) -> Module:
        made = find_lives(source)
        return made.with_(main=change(made.program))

    return wrong


# --- programs --------------------------------------------------------------------------------------------------------


def of_an_alias() -> Module:
    return module(named(ALIAS, X, LAST, call("exp", ALIAS), LAST), X)


def of_an_alias_of_a_value() -> Module:
    return module(named(A, call("tanh", X), ALIAS, A, LAST, call("exp", ALIAS), LAST), X)


def of_a_tuple() -> Module:
    return module(named(PAIR, tuple_of(X, Y), LAST, call("add", get(PAIR, 0), get(PAIR, 1)), LAST), X, Y)


def visited_before() -> Module:
    return module(named(A, call("exp", X), C, call("tanh", A), tuple_of(A, C)), X)


def two_results() -> Module:
    halves = call("split", X, sections=(2, 2))
    v = var("halves", halves.type)
    return module(named(v, halves, call("subtract", get(v, 0), get(v, 1))), X)


def nested() -> Module:
    return module(tuple_of(tuple_of(call("exp", X), call("tanh", X)), call("negative", X)), X)


def identity() -> Module:
    return module(X, X)


def both() -> Module:
    return module(call("add", call("exp", X), call("tanh", X)), X)


def chain() -> Module:
    return module(call("exp", call("tanh", call("exp", call("tanh", X)))), X)


def choice() -> Module:
    """One branch needs a, the other does not."""
    other = call("exp", call("tanh", Y))
    return module(named(A, call("exp", X), LAST, if_(P, call("tanh", A), other), LAST), P, X, Y)


def two_dtypes() -> Module:
    n = var("n", TensorType((4,), INT32))
    return module(tuple_of(X, n), X, n)


# --- faults ----------------------------------------------------------------------------------------------------------


def from_nowhere(*names: str) -> Callable[[Program], Program]:
    """Reads of these slots become reads of fresh storage, which nobody fills."""

    def change(p: Program) -> Program:
        end = p.positions[-1]
        fresh = {n: replace(p.slots[n], name=f"sid_{n}", place="workspace", live=((0, end),)) for n in names}
        last = p.calls[-1]
        reads = tuple(fresh[n].name if n in fresh else n for n in last.reads)
        made = tuple(replace(s, reads=reads) if s is last else s for s in p.steps)
        return replace(p, steps=made, slots={**p.slots, **{s.name: s for s in fresh.values()}})

    return change


def renamed(names: Callable[[Program], Mapping[str, str]]) -> Callable[[Program], Program]:
    """Steps name other slots."""

    def change(p: Program) -> Program:
        new = names(p)

        def slots(of: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new.get(n, n) for n in of)

        made = tuple(
            replace(s, reads=slots(s.reads), writes=slots(s.writes)) if isinstance(s, Step) else s for s in p.steps
        )
        return replace(p, steps=made)

    return change


def turned(p: Program) -> Mapping[str, str]:
    """Every output is written where the next one belongs."""
    return dict(zip(p.outputs, (*p.outputs[1:], p.outputs[0]), strict=True))


def first_only(p: Program) -> Program:
    """Who reads several results of one call is given the first for each."""
    several = next(s.writes for s in p.calls if len(s.writes) > 1)
    made = tuple(replace(s, reads=tuple(several[0] if n in several else n for n in s.reads)) for s in p.calls)
    return replace(p, steps=made)


def one_operand_less(p: Program) -> Program:
    return replace(p, steps=tuple(replace(s, reads=s.reads[:-1]) for s in p.calls))


def not_copied(p: Program) -> Program:
    return replace(p, steps=())


def whole_lives(p: Program) -> Program:
    """From the first use to the last, whatever the path."""
    return replace(p, slots={n: replace(s, live=((s.start, s.stop),)) for n, s in p.slots.items()})


def never_killed(p: Program) -> Program:
    end = p.positions[-1]
    return replace(
        p, slots={n: replace(s, live=((s.start, end),)) if s.place == "workspace" else s for n, s in p.slots.items()}
    )


def counted_before(p: Program) -> Program:
    """The workspace has the size of the largest buffer."""
    return replace(p, sizes={n: max(s.nbytes for s in p.slots.values()) for n in p.sizes})


def planned(source: Module) -> Module:
    return plan_pools(find_lives(source))


def too_early(source: Module) -> Module:
    made = planned(source)
    return made.with_(main=counted_before(made.program))


class AnyDtype(dict):  # type: ignore[type-arg]
    """A store of kernels whose key forgets the dtype."""

    def get(self, key: tuple[object, ...], default: object = None) -> object:
        return super().get(key[0], default)

    def __setitem__(self, key: tuple[object, ...], value: object) -> None:
        super().__setitem__(key[0], value)


def keyed_by_dims(source: Module) -> Module:
    """Kernels that copy are made once for each list of dims."""

    class Forgetful(Homes):
        def __init__(self, module: Module, text: Text, whole: bool) -> None:
            super().__init__(module, text, whole)
            self.copies_of = AnyDtype()

    with Patch.context() as patch:
        patch.setattr(liveness, "Homes", Forgetful)
        return find_lives(source)


NEVER = "which nothing has written"
LOST = "does not get its value"
FAULTS: tuple[PlantedFault, ...] = (
    fault(
        "an alias of an input is fresh storage",
        "shown: AOTLowerMain",
        "steps: values",
        of_an_alias,
        find_lives,
        program(from_nowhere("x")),
        NEVER,
    ),
    fault(
        "a name for a name is fresh storage",
        "P#15033",
        "steps: values",
        of_an_alias_of_a_value,
        find_lives,
        program(from_nowhere("a")),
        NEVER,
    ),
    fault(
        "inputs in a tuple are fresh storage",
        "shown: AOTLowerMain",
        "steps: values",
        of_a_tuple,
        find_lives,
        program(from_nowhere("x", "y")),
        NEVER,
    ),
    fault(
        "the result is the storage that was visited last",
        "shown: AOTLowerMain",
        "steps: values",
        visited_before,
        find_lives,
        program(renamed(turned)),
        LOST,
    ),
    fault(
        "the first of several results stands for all",
        "I#9036, P#9064",
        "steps: values",
        two_results,
        find_lives,
        program(first_only),
        LOST,
    ),
    fault(
        "nested tuples are flattened in another order",
        "P#6809",
        "steps: values",
        nested,
        find_lives,
        program(renamed(turned)),
        LOST,
    ),
    fault("a call with an operand less", "P#15301", "well-formed", of_a_tuple, find_lives, program(one_operand_less)),
    fault(
        "an input that is returned is not copied",
        "its test is expected to fail",
        "steps: values",
        identity,
        find_lives,
        program(not_copied),
        LOST,
    ),
    fault(
        "the size of the workspace is not that of the plan",
        "P#8926, P#10337",
        "pool",
        both,
        planned,
        too_early,
        "does not lie within",
    ),
    fault(
        "what one branch does not need lives on in it",
        "read",
        "lives: spare",
        choice,
        find_lives,
        program(whole_lives),
        "more than needed",
    ),
    fault(
        "what nobody needs any more is never killed",
        "read",
        "lives: spare",
        chain,
        find_lives,
        program(never_killed),
        "more than needed",
    ),
    fault(
        "a store of kernels forgets the dtype",
        "read: closures for shapes in #4129",
        "steps: values",
        two_dtypes,
        find_lives,
        keyed_by_dims,
    ),
)
