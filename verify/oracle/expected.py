"""What correct implementations may do with one set of inputs (rule M9; specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from assay.interp.values import Cell, Data, Shape, Value
from assay.lower.frontends.onnx.containers import any_dtype
from assay.semantics.bounding.affine import Exhausted
from assay.semantics.bounds import Bounded
from assay.semantics.builder.prelude import LIST, OPTION
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.left_open import Entry, Opening
from assay.semantics.left_open.entries import BY_NAME
from assay.semantics.module import Module
from assay.semantics.types import DataType
from assay.semantics.walk import Worklist
from assay.verify.backends.protocol import as_tensor
from assay.verify.border.formless import FUNCTIONS
from assay.verify.border.values import LENGTH, NONE, from_value
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts
from assay.verify.oracle.findings import TensorFinding
from assay.verify.oracle.flushing import of_zeros, with_zeros
from assay.verify.oracle.follows import Follows, narrowed
from assay.verify.oracle.layers import BITWISE, INTEGERS, excused, judge_result
from assay.verify.oracle.left_open import Silence
from assay.verify.oracle.scaled_integers import ScaledIntegers, run_scaled_integers
from assay.verify.oracle.tensor_names import Named
from assay.verify.oracle.verdict import worst_exact
from assay.verify.oracle.walk import NO_MAKER, BoundedRun, OpenWalk

Array = np.ndarray[Any, Any]
MADE, HELD, FUNCTION = "constructor", "held", "a function"
Possible: TypeAlias = dict[str, Value] | Trap | Unpredictable
"""What correct implementations may do: give values in these intervals, fail so, or nobody can tell what, and why."""


@dataclass(frozen=True)
class FollowedRun:
    """A run that follows how errors hang together: its outputs, or why it ended; and whether rights to what overflows
    within an operator would change nothing in it."""

    outputs: dict[str, Value] | None
    why: str
    is_general: bool


@dataclass
class Expected:
    """`possible` is the set of outcomes; where it is values, `findings` judges given outputs by it."""

    module: Module
    inputs: Mapping[str, Array]
    accepts: Accepts = EVERYTHING_KEPT
    flushing: bool = False
    named: Named = field(default_factory=Named)
    follows: bool = False
    """Whether it is followed how errors hang together, where intervals exclude nothing."""
    beside: Expected | None = None
    """What was expected of the same inputs by other rights."""
    walk: BoundedRun = field(init=False)
    unfollowed: str = field(init=False, default="")
    """Why it was not followed how errors hang together, where the intervals say too little."""
    numbers: int = field(init=False, default=0)
    """How many numbers it took to follow them, by other rights and with what is left open too."""
    followed: FollowedRun | None = field(init=False, default=None)
    is_followed: bool = field(init=False, default=False)
    """Whether an output's interval is narrower because it was."""

    def __post_init__(self) -> None:
        self.walk = BoundedRun(self.module, accepts=self.accepts, flushing=self.flushing)

    @cached_property
    def possible(self) -> Possible:
        """What the run may give: outputs with bounds, or a Trap, or why nothing can be said."""
        try:
            found = self.walk.run(self.inputs)
        except Unpredictable as why:
            decided = self._decided() if self.follows and self.walk.mixed and why.label == "bounds.C1" else None
            if decided is None:
                return why
            found = decided
        except Trap as why:
            return why
        # a run that decides by an element that is open, which is one of ours here, may be anything (rule M9.9)
        if self.walk.narrowed and isinstance(self.opened[1], Unpredictable):
            return self.opened[1]
        wanted = self.follows and not self.is_followed and self.walk.mixed and any(map(_says_little, found.values()))
        return self._followed(found) if wanted else found

    def _followed(self, found: dict[str, Value]) -> dict[str, Value]:
        """Outputs with narrower intervals, by a run that follows how errors hang together."""
        self.followed = self._known_run() or self._following()
        by, self.unfollowed = self.followed.outputs, self.followed.why
        if by is None:
            return found
        made = {name: narrowed(value, by[name]) for name, value in found.items()}
        for name, value in found.items():
            self.is_followed |= made[name] is not value
            if made[name] is not value and id(value) in self.walk.makers:
                self.walk.makers[id(made[name])] = made[name], *self.walk.makers[id(value)][1:]
        return made

    def _known_run(self) -> FollowedRun | None:
        """The run by other rights, where it is the same by these."""
        other = self.beside
        if other is None or other.followed is None or not other.followed.is_general:
            return None
        same = replace(other.accepts, within=self.accepts.within) == self.accepts and other.flushing == self.flushing
        return other.followed if same else None

    def _decided(self) -> dict[str, Value] | None:
        """The outputs of a run that follows how errors hang together, where intervals leave a condition open and this
        does not."""
        self.followed = self._following(instead=True)
        self.unfollowed, found = self.followed.why, self.followed.outputs
        self.is_followed = found is not None
        return found

    def _following(self, instead: bool = False) -> FollowedRun:
        """The run, which is `walk` from there on if it comes to its end and is to stand `instead` of another one."""
        follows = Follows()
        walk = BoundedRun(self.module, accepts=self.accepts, flushing=self.flushing, follows=follows)
        outputs, why = None, ""
        try:
            outputs = walk.run(self.inputs)
            self.walk = walk if instead else self.walk
        except Exhausted as ended:
            why = str(ended)
        except (Trap, Unpredictable):
            pass  # intervals alone say so too
        self._count(follows)
        return FollowedRun(outputs, why, not self.accepts.within and not walk.inside.reached)

    def _count(self, follows: Follows) -> None:
        for each in (self, self.beside):
            if each is not None:
                each.numbers += follows.symbols.work

    @cached_property
    def opened(self) -> tuple[Silence, Possible]:
        """What is left open on the way, and what may come of it, where subnormal numbers are kept."""
        if self.flushing and self.beside is not None:
            return self.beside.opened
        nodes = self.named.openings(self.module, self.inputs, {}, self.accepts)
        found = self._opened(nodes, None)
        silence, possible = found
        if not self.is_followed or (isinstance(possible, dict) and not silence.entries):
            return found
        follows = Follows()
        try:
            return self._opened(nodes, follows)
        except Exhausted:
            return found
        finally:
            self._count(follows)

    def _opened(self, nodes: Mapping[str, Sequence[Opening]], follows: Follows | None) -> tuple[Silence, Possible]:
        """The same, with errors followed or not. Exhausted: they are not followed to the end."""
        silence = Silence(nodes, nodes=self.named.nodes)
        walk = OpenWalk(
            self.module,
            self.named.places,
            accepts=self.accepts,
            follows=follows,
            silence=silence,
        )
        try:
            return silence, walk.run(self.inputs)
        except (Trap, Unpredictable) as why:
            return silence, why

    @property
    def may_fail(self) -> Entry | None:
        """What is left open on the way in such a manner that a run may fail or be refused; None where nothing is."""
        return next((BY_NAME[e] for e in self.opened[0].entries if BY_NAME[e].fails), None)

    def excused(self, found: Mapping[str, TensorFinding], outputs: Mapping[str, Any]) -> dict[str, TensorFinding]:
        """The findings with those that are wrong judged by what a standard leaves open too."""
        silence, possible = self.opened
        if not isinstance(possible, dict) or not silence.entries:
            return dict(found)
        leaves = _leaves(self.module, possible, outputs)
        made = dict(found)
        for name, f in found.items():
            wide, given, _ = leaves[name]
            if not f.may_be_excused or given is None or not hasattr(wide, "dtype"):
                continue
            opened = silence.of(wide)
            index = opened.index if opened is not None else 0
            others = {
                o.index: np.asarray(g) for w, g, _ in leaves.values()
                if g is not None
                and opened is not None
                and np.asarray(g).dtype != object
                and np.shape(g) == np.shape(w)
                and (o := silence.of(w)) is not None
                and o.call == opened.call
            }  # fmt: skip
            made[name] = excused(f, wide, silence, np.asarray(given), others, outputs, self.accepts, index)
        return made

    @cached_property
    def exact(self) -> dict[str, Value] | str:
        """The outputs as far as they are exact because the inputs are whole numbers, or why none is known."""
        return run_scaled_integers(self.module, self.inputs)

    def findings(self, outputs: Mapping[str, Any]) -> dict[str, TensorFinding]:
        """The finding on each output, by the first layer that can tell; those in tuples are called by their place."""
        if not isinstance(self.possible, dict):
            return {}
        leaves = _leaves(self.module, self.possible, outputs)
        if self.flushing and self.beside is not None:
            return self._with_zeros(self.beside, leaves, outputs)
        return {name: self._judge(name, allowed, given, path) for name, (allowed, given, path) in leaves.items()}

    def _with_zeros(
        self, strict: Expected, leaves: Mapping[str, tuple[Any, Any, tuple[Any, ...]]], outputs: Mapping[str, Any]
    ) -> dict[str, TensorFinding]:
        """The findings where subnormal numbers are kept, with what is allowed because they need not be taken for
        ours."""
        found = strict.findings(outputs)
        if not isinstance(strict.possible, dict):
            return found
        kept = _leaves(self.module, strict.possible, outputs)
        for name, finding in found.items():
            allowed, given, path = kept[name]
            if not finding.wrong or name not in leaves or not hasattr(allowed, "dtype") or given is None:
                continue
            _, by, index = strict.walk.makers.get(id(allowed), NO_MAKER)
            zeros = of_zeros(by, index) if by is not None else None
            wide, standing = (leaves[name][0], ()) if zeros is None else zeros
            _, behind, _ = self.walk.makers.get(id(leaves[name][0]), NO_MAKER)
            if (behind is None or behind.known is None) and isinstance(wide, Bounded):
                # what an operator before it flushed is no operand that is known
                standing = [*standing, np.where(wide.radius == 0, wide.value, np.nan)]
                wide = leaves[name][0]
            again = partial(strict._judge, name, allowed, path=path)
            found[name] = with_zeros(finding, allowed, wide, np.asarray(given), again, standing)
        return found

    def _judge(self, name: str, allowed: Any, given: Any, path: tuple[Any, ...]) -> TensorFinding:
        if given is None:
            return TensorFinding(name, BITWISE, f"{name} is missing")
        if isinstance(allowed, Shape) and isinstance(given, np.ndarray):
            given = Shape(tuple(given.tolist()))
        if not hasattr(allowed, "dtype"):
            same = repr(allowed) == repr(given)
            return TensorFinding(name, BITWISE, "" if same else f"{name} is {given!r}, must be {allowed!r}")
        got = np.asarray(given)
        if self.named.is_sizeless(name, allowed, got):
            return TensorFinding(name, BITWISE)
        _, by, index = self.walk.makers.get(id(allowed), NO_MAKER)
        finding = judge_result(name, by, allowed, got, self.accepts, index)
        if finding.layer in (BITWISE, INTEGERS) or finding.wrong or self.accepts.shortens:
            return finding
        only = _at(self.module, self.exact, path)
        if isinstance(only, ScaledIntegers) and not only.lost:
            worst = worst_exact(name, only.value, got)
            return replace(finding, layer=INTEGERS, wrong=str(worst) if worst else "", worst=worst, unknown=None)
        return finding


def _says_little(value: Value) -> bool:
    """Whether an output has intervals that exclude nothing."""
    if isinstance(value, tuple):
        return any(map(_says_little, value))
    return isinstance(value, Bounded) and value.of.is_float and bool(value.vacuous.any())


def _leaves(
    module: Module, allowed: Mapping[str, Value], outputs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any, tuple[Any, ...]]]:
    """Arrays in outputs that may be tuples, sequences or optional values: by name, what is allowed, what was given
    (None if nothing), and the path. The length of a sequence, and whether an optional value holds something, stand
    beside them; so does what made a data value. What a reference holds is looked at once, and functions are all alike.
    """
    seen: set[int] = set()
    found: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {}
    work = Worklist[tuple[str, Any, Any, tuple[Any, ...]]]((n, allowed[n], outputs.get(n), (n,)) for n in allowed)
    for name, want, got, path in work:
        if isinstance(want, Data) and (
            want.type in (LIST.name, OPTION.name) or any_dtype(DataType(want.type, ())) is not None
        ):
            optional, want = want.type == OPTION.name, from_value(want, module)
            if optional and (want is None or got is None):
                found[f"{name}.{NONE}"] = want is None, got is None, path
                continue
        if isinstance(want, (tuple, list)):
            several = isinstance(got, (tuple, list)) and (len(got) == len(want) or isinstance(want, list))
            fields: Any = got if several else (None,) * len(want)
            if isinstance(want, list):
                found[f"{name}.{LENGTH}"] = len(want), len(fields) if several else None, path
            work.add((f"{name}.{i}", w, g, (*path, i)) for i, (w, g) in enumerate(zip(want, fields, strict=False)))
        elif isinstance(want, Data):
            alike = isinstance(got, Data) and got.constructor == want.constructor
            found[f"{name}.{MADE}"] = want.constructor, got.constructor if isinstance(got, Data) else None, path
            fields = got.fields if alike else (None,) * len(want.fields)
            work.add(
                (f"{name}.{i}", w, g, (*path, None)) for i, (w, g) in enumerate(zip(want.fields, fields, strict=True))
            )
        elif isinstance(want, Cell):
            if id(want) not in seen:
                seen.add(id(want))
                work.add([(f"{name}.{HELD}", want.value, got.value if isinstance(got, Cell) else None, (*path, None))])
        elif isinstance(want, FUNCTIONS):
            found[name] = FUNCTION, FUNCTION if isinstance(got, FUNCTIONS) else None, path
        else:
            found[name] = want, as_tensor(got) if isinstance(got, list) and hasattr(want, "dtype") else got, path
    return found


def _at(module: Module, values: Any, path: tuple[Any, ...]) -> Any:
    """The part of the outputs of a run, or None where there was no such run."""
    if isinstance(values, str) or None in path:  # inside of a data value or a reference
        return None
    for step in path:
        values = values[step]
        values = from_value(values, module) if isinstance(values, Data) else values
    return values
