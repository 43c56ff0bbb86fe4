"""Plans with symbolic sizes: good for all values of the symbols within their bounds (specs/verify.md, "Memory plans").

The goals go through levels, each of which knows more: linear facts (all goals of a pool in one text), then what makes a
maximum one of its parts, then the expressions themselves. A counterexample counts if the definition confirms it.
Between buffers, neighbours by offset suffice where each is shown to end below the next: where the order depends on the
symbols every pair that is live at one position is a goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import z3

from assay.semantics.deadline import NEVER, Deadline, Late
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash, Trap
from assay.semantics.integers.polynomials import Polynomial, value
from assay.semantics.integers.ranges import Range
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem, range_of
from assay.semantics.scalar import Var
from assay.semantics.walk import reached
from assay.verify.evidence import Evidence, plural, proved, refuted, unknown
from assay.verify.memory.definition import Fault, both_live, clash, faults, in_numbers, misplaced_buffers
from assay.verify.memory.derive import derive
from assay.verify.memory.forms import Forms
from assay.verify.memory.goals import Goals, PlanGoal, exact_text, forms_text, linear_text, local_text
from assay.verify.memory.lives import chain_text, pairs_text
from assay.verify.memory.overflow import overflow_fault
from assay.verify.memory.query import SMALL, PlacedBox, boxes, neighbours, only
from assay.verify.memory.runs import forms_of_runs
from assay.verify.memory.solve import Solved, limit, questions, solve

EXACT_RLIMIT = 10_000_000
"""z3's resource limit for one goal by itself, a few seconds: products are there, and may never end."""

FEW = 4096
"""Before z3 looks everywhere it looks for a counterexample with symbols up to this."""

POINTS = 8
"""With so many symbols large by themselves the search for facts looks before it believes in a way."""

TOGETHER = 250
"""So many goals, each with its facts, make one text: z3 is slower on one that is ten times as long than on ten."""

SHOWN = 5
"""So many goals that are not decided are listed."""

At = Mapping[Var, int]


@dataclass
class PlanProofs:
    """The work on one plan: the texts that were kept, by name, and what is not decided."""

    problem: Problem
    plan: Plan
    forms: Forms
    symbols: tuple[Var, ...]
    deadline: Deadline = NEVER
    queries: dict[str, str] = field(default_factory=dict)
    goals: int = 0
    unknown: list[str] = field(default_factory=list)

    def prove(self) -> Evidence:
        """Try samples of the sizes, then prove each goal; refuted by a fault, unknown where the solver does not
        decide."""
        for at in samples(self.symbols, self.forms):
            self.deadline.check()
            if (found := self._fault(at)) is not None:
                return self._refuted(*found)
        found_overflow, stays = overflow_fault(self.problem, self.plan, self.forms, self.queries, self.deadline)
        if found_overflow is not None:
            return found_overflow
        if "runs" in self.queries and (solved := self._solve(self.queries["runs"])).answer != "unsat":
            return unknown("proved", f"not decided: which sizes runs have: {solved.reason}", claim="unknown")
        self.queries["forms"] = text = forms_text(self.forms)
        if (solved := self._solve(text)).answer != "unsat":
            what = (
                f"whether sizes and offsets are what is said of them: question {solved.question} of the text,"
                f" {solved.answer}"
            )
            return unknown("proved", f"not decided: {what} {solved.reason}", claim="unknown")
        for number, pool in enumerate(self.problem.pools):
            if (found := self._pool(f"pool{number}", pool)) is not None:
                return self._refuted(*found)
        if self.unknown:
            more = f", and {len(self.unknown) - SHOWN} more" if len(self.unknown) > SHOWN else ""
            return unknown("proved", f"not decided: {'; '.join(self.unknown[:SHOWN])}{more}", claim="unknown")
        where = ", ".join(shown_bounds(v, range_of(self.forms.bounds, v)) for v in self.symbols)
        where += ", no dim being below 0" if self.forms.given or "runs" in self.queries else ""
        count = plural(len(self.problem.buffers), "live buffer")
        detail = f"z3: no two of {count} share a byte, for all {where}; {plural(self.goals, 'goal')}; {stays}"
        return proved(detail, goals=self.goals, pools=len(self.queries), symbols=where, int64=stays)

    @cached_property
    def apart(self) -> At:
        """Values that no two symbols share, if their bounds allow it and some run has such sizes."""
        first = nominal(self.symbols, self.forms)
        for at in (first, nominal(self.symbols[::-1], self.forms), *samples(self.symbols, self.forms)):
            if self._at(at) is not None:
                return at
        return first

    def _solve(self, text: str) -> Solved:
        return solve(text, deadline=self.deadline)

    # --- the goals of one pool
    # -----------------------------------------------------------------------------------------

    def _pool(self, name: str, pool: Pool) -> tuple[At, Fault] | None:
        make = Goals(self.forms, self.plan)
        there = [b for b in self.problem.buffers if self.plan.places[b.name].pool == pool.name]
        if not there and pool.name not in self.plan.sizes:
            return None
        single = [*make.of_pool(pool), *(g for b in there for g in make.of_buffer(b))]
        order, within, lemmas = self._ordered(make, pool, there)
        if order is None or len(there) <= SMALL:
            pairs = [make.apart(a, b) for a, b in live_pairs(there)]
        else:
            pairs = []
        goals = distinct_goals([*single, *(order or ()), *within, *pairs])
        left = self._linear(name, pool, goals, lemmas)
        if order and any(g in left for g in order):
            # the order may depend on the symbols: nothing follows from neighbours
            left = [g for g in left if g not in order]
            if not pairs:
                pairs = [make.apart(a, b) for a, b in live_pairs(there)]
                left += self._linear(f"{name}-pairs", pool, distinct_goals(pairs), {})
        if there:
            self._whole(f"{name}-lives", there, order or (), pairs)
        for i, goal in enumerate(left):
            if (found := self._alone(f"{name}-goal{i}", goal)) is not None:
                return found
        return None

    def _whole(
        self, name: str, there: Sequence[BufferInfo], order: Sequence[PlanGoal], pairs: Sequence[PlanGoal]
    ) -> None:
        """That the goals leave out no two that are live together; else it is unknown whether the plan is good."""
        number = {b.name: i for i, b in enumerate(there)}
        listed = {(number[g.buffers[0]], number[g.buffers[1]]) for g in pairs or order}
        if pairs or not order:
            text = pairs_text(there, listed)
        else:
            placed = self._at(self.apart)
            assert placed is not None, "there is an order at these values"
            found = boxes(*placed, self.plan.places[there[0].name].pool)
            text = chain_text(there, [box.offset for box in found], listed)
        self.queries[name] = text
        if self._solve(text).answer == "unsat":
            self.goals += 1
        else:
            self.unknown.append(
                f"whether the goals of {name.removesuffix('-lives')} leave out no two buffers that are live together"
            )

    def _ordered(
        self, make: Goals, pool: Pool, there: Sequence[BufferInfo]
    ) -> tuple[list[PlanGoal] | None, list[PlanGoal], dict[Polynomial, tuple[Polynomial, ...]]]:
        """That each buffer ends below its neighbour, in the order of the plan at some values, None if there are none;
        that each ends within the pool, the highest first; and from what that follows for those with a neighbour above.
        """
        placed = self._at(self.apart)
        if placed is None:
            return None, [make.inside(b) for b in there], {}
        found = boxes(*placed, pool.name)
        order, lemmas = [], {}
        for i, j in neighbours(found):
            below = make.below(there[i], there[j])
            order.append(below)
            known = make.inside(there[j]), make.sized(there[j]), below
            lemmas[make.inside(there[i]).ways[0].form] = tuple(g.ways[0].form for g in known)
        down = sorted(
            range(len(found)), key=lambda i: (found[i].offset, found[i].offset + found[i].nbytes, i), reverse=True
        )
        return order, [make.inside(there[i]) for i in down], lemmas

    def _linear(
        self, name: str, pool: Pool, goals: Sequence[PlanGoal], lemmas: Mapping[Polynomial, tuple[Polynomial, ...]]
    ) -> list[PlanGoal]:
        """Put goals to z3 with the linear facts; those that do not follow from them. What does is kept in texts.

        `lemmas`: from which forms another follows. Only goals that come before it may be among a goal's facts.
        """
        easy: list[tuple[PlanGoal, Sequence[Polynomial]]] = []
        hard = []
        points = self._points()
        shown: set[Polynomial] = set()
        for goal in goals:
            self.deadline.check()
            known = lemmas.get(goal.ways[0].form, ())
            facts = known if known and shown.issuperset(known) else beside(goal, self.forms, points)
            if facts is None:
                hard.append(goal)
                continue
            easy.append((goal, facts))
            if len(goal.ways) == 1 and not goal.multiple:
                shown.add(goal.ways[0].form)
        about = f"pool {pool.name}"
        for start in range(0, len(easy), TOGETHER):
            part = f"{name}-part{start // TOGETHER}" if start else name
            asked = with_lemmas(easy, start, min(start + TOGETHER, len(easy)))
            text = local_text(asked, self.forms, about)
            if (solved := self._solve(text)).answer == "unsat":
                self.queries[part] = text
            elif solved.question == 0 and solved.answer == "sat":
                raise Crash(f"a goal does not follow from the facts that were found for it: {solved}")
            else:  # a fact does not follow from what its parts are, or z3 does not know: it is none
                hard += [goal for goal, _ in easy[start : start + TOGETHER]]
        left = []
        if hard:
            text = linear_text(hard, self.forms, about)
            if self._solve(text).answer != "unsat":
                left = [
                    hard[i]
                    for i in undecided(linear_text(hard, self.forms, about, alone=True), len(hard), self.deadline)
                ]
                text = linear_text([g for g in hard if g not in left], self.forms, about)
                if self._solve(text).answer != "unsat":
                    left = hard
            if len(left) < len(hard):
                self.queries[f"{name}-more"] = text
        self.goals += len(goals) - len(left)
        return left

    def _points(self) -> list[list[int]]:
        """The values of all atoms at some values of the symbols."""
        found = []
        least = {v: range_of(self.forms.bounds, v)[0] for v in self.symbols}
        apart = self.apart
        alone = [{**least, v: apart[v]} for v in self.symbols]
        without = [{**apart, v: least[v]} for v in self.symbols]
        for at in [least, apart, *alone[:POINTS], *without[:POINTS]]:
            try:
                values = self.forms.values(at)
            except Trap:
                continue
            found += [values] if self.forms.allowed(values) else []
        return found

    def _alone(self, name: str, goal: PlanGoal) -> tuple[At, Fault] | None:
        """Decide one goal with all that is known of its parts; values that break it, confirmed."""
        names = {v: f"s{i}" for i, v in enumerate(self.symbols)}
        atoms = {v: f"v{next(iter(self.forms.of(v).terms))[0]}" for v in self.symbols}
        levels = (
            ("linear", linear_text([goal], self.forms, goal.about, deep=True), atoms),
            ("exact, of small symbols", exact_text(goal, names, self.forms, FEW), names),
            ("exact", exact_text(goal, names, self.forms), names),
        )
        reasons = []
        for level, text, called in levels:
            present = {v: n for v, n in called.items() if f"declare-const {n} " in text or f"declare-fun {n} " in text}
            solved = solve(text, present.values(), EXACT_RLIMIT, self.deadline)
            if solved.answer == "unsat":
                if level == "exact, of small symbols":
                    continue
                self.queries[name] = text
                self.goals += 1
                return None
            if solved.answer == "sat":
                at = {v: range_of(self.forms.bounds, v)[0] for v in self.symbols}
                at |= {v: solved.values[n] for v, n in present.items()}
                if (fault := self._confirmed(goal.buffers, at)) is not None:
                    return at, fault
                reasons.append(f"{level}: what z3 finds is no counterexample")
            else:
                reasons.append(f"{level}: {solved.reason}")
        self.unknown.append(f"{goal.about} ({'; '.join(reasons)})")
        return None

    # --- counterexamples
    # -------------------------------------------------------------------------------------------------

    def _at(self, at: At) -> tuple[Problem, Plan] | None:
        """Problem and plan at values of the symbols, exactly; None: some size has no value there, or no run has it."""
        try:
            values = self.forms.values(at)
        except Trap:
            return None
        if not self.forms.allowed(values):
            return None
        return in_numbers(self.problem, self.plan, lambda dim: value(self.forms.of(dim), values))

    def _fault(self, at: At) -> tuple[At, Fault] | None:
        """What breaks at values of the symbols, as the definition says too."""
        placed = self._at(at)
        if placed is None or (fault := first_fault(*placed)) is None:
            return None
        confirmed = self._confirmed(fault.buffers, at)
        if confirmed is None:
            return None  # evaluated in int64 it is none: the overflow is found by itself
        return at, confirmed

    def _confirmed(self, buffers: Sequence[str], at: At) -> Fault | None:
        """What the definition says of some buffers alone at values of the symbols."""
        if any(not int(INT64.min) <= k <= int(INT64.max) for k in at.values()):
            return None
        try:
            found = faults(*only(self.problem, self.plan, buffers), at)
            return next((fault for fault in found if fault.claim != "overflow"), None)
        except Trap:
            return None

    def _refuted(self, at: At, fault: Fault) -> Evidence:
        """The refutation at the smallest values that are found, one symbol after another."""
        smallest = dict(at)
        tries = 400
        changed = True
        while changed and tries > 0:
            changed = False
            for v in self.symbols:
                low = range_of(self.forms.bounds, v)[0]
                for less in smaller(low, smallest[v]):
                    tries -= 1
                    found = self._confirmed(fault.buffers, {**smallest, v: less})
                    if found is not None and found.claim == fault.claim:
                        smallest[v], fault, changed = less, found, True
                        break
                    if tries <= 0:
                        break
        where = ", ".join(f"{v.name} = {smallest[v]}" for v in self.symbols)
        said = replace(fault, detail=f"for {where}: {fault.detail}" if where else fault.detail)
        return said.evidence("proved", dims={v.name: smallest[v] for v in self.symbols})


def prove_symbolic(problem: Problem, plan: Plan, deadline: Deadline = NEVER) -> tuple[Evidence, dict[str, str]]:
    """The verdict on a plan, each buffer of which has a place, and the texts by name."""
    forms, runs = forms_of_runs(problem)
    for b in problem.buffers:
        forms.of(b.nbytes)
    for place in plan.places.values():
        forms.of(place.offset)
    for size in plan.sizes.values():
        forms.of(size)
    symbols = forms.symbols()
    for v in symbols:
        low, high = range_of(forms.bounds, v)
        if high is not None and low > high:
            return refuted("proved", f"no value of {v.name} lies in {low} to {high}", claim="size"), {}
    # the bounds say of all other dims that they are not below 0
    problem = replace(problem, bounds=forms.bounds, dims=tuple(forms.given.values()))
    work = PlanProofs(problem, plan, forms, symbols, deadline)
    work.queries |= {"runs": runs} if runs else {}
    try:
        return work.prove(), work.queries
    except Late:
        return (
            unknown("proved", "the time was up before z3 had decided about all values of the symbols", claim="unknown"),
            work.queries,
        )


# --- parts
# ---------------------------------------------------------------------------------------------------------------


def beside(goal: PlanGoal, forms: Forms, points: Sequence[list[int]]) -> Sequence[Polynomial] | None:
    """Facts from which a goal follows; None: none are found."""
    if goal.multiple:
        return () if goal.ways[0].form.is_multiple(goal.multiple) else None
    for way in goal.ways:
        if any(value(way.form, p) < 0 for p in points):
            continue
        if (facts := derive(way.form, forms, forms.ranges, points)) is not None:
            return facts
    return None


def with_lemmas(
    easy: Sequence[tuple[PlanGoal, Sequence[Polynomial]]], first: int, last: int
) -> list[tuple[PlanGoal, Sequence[Polynomial]]]:
    """Some goals with their facts, and before them the earlier goals that are such facts: a text stands by itself."""
    stated = {g.ways[0].form: i for i, (g, _) in reversed([*enumerate(easy)]) if len(g.ways) == 1 and not g.multiple}

    def earlier(at: int) -> list[int]:
        return [i for fact in easy[at][1] if (i := stated.get(fact)) is not None and i < at]

    return [easy[i] for i in sorted(reached(range(first, last), earlier))]


def undecided(text: str, count: int, deadline: Deadline = NEVER) -> list[int]:
    """The numbers of the claims of a text that can be wrong, each asked by itself. Late: the time is up."""
    solver = z3.Solver()
    solver.set("rlimit", EXACT_RLIMIT)
    solver.from_string(questions(text)[0])
    found = []
    for i in range(count):
        limit(solver, deadline)
        solver.push()
        solver.add(z3.Int("bad") == i)
        if solver.check() != z3.unsat:
            found.append(i)
        solver.pop()
    return found


def distinct_goals(goals: Sequence[PlanGoal]) -> list[PlanGoal]:
    """Goals without those that ask what another does."""
    found = {(tuple(w.form for w in g.ways), g.multiple): g for g in reversed(goals)}
    return list(reversed(found.values()))


def live_pairs(buffers: Sequence[BufferInfo]) -> Iterator[tuple[BufferInfo, BufferInfo]]:
    """Every pair that is live at one position, once, from a sweep over all positions."""
    starts = sorted((start, i) for i, b in enumerate(buffers) for start, stop in b.live if start < stop)
    seen: set[tuple[int, int]] = set()
    live: set[int] = set()
    for start, i in starts:
        live = {j for j in live if any(s <= start < e for s, e in buffers[j].live)} - {i}
        for j in live:
            if (pair := (min(i, j), max(i, j))) not in seen:
                seen.add(pair)
                yield buffers[pair[0]], buffers[pair[1]]
        live.add(i)


def first_fault(problem: Problem, plan: Plan) -> Fault | None:
    """What the definition finds, by neighbours: a plan in numbers."""
    for fault in misplaced_buffers(problem, plan):
        if fault.claim != "overflow":  # is found by itself
            return fault
    for pool in problem.pools:
        found = [box for box in boxes(problem, plan, pool.name) if box.nbytes > 0]
        for i, j in neighbours(found):
            if found[j].offset < found[i].offset + found[i].nbytes:
                return _clash(found[i], found[j], pool.name)
    return None


def _clash(a: PlacedBox, b: PlacedBox, pool: str) -> Fault:
    when = both_live(a.buffer, b.buffer)
    if when is None:
        raise Crash(f"{a.buffer.name} and {b.buffer.name} are neighbours that are never live together")
    return clash(a.buffer, b.buffer, pool, (b.offset, min(a.offset + a.nbytes, b.offset + b.nbytes)), when)


def samples(symbols: Sequence[Var], forms: Forms) -> Iterator[At]:
    """Some values of the symbols, small ones first: to find what is plainly wrong before anything is proved."""
    seen: set[tuple[int, ...]] = set()
    for step, spread in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 3), (16, 1), (63, 0), (64, 7), (1000, 37), (0, 997)):
        for turned in (False, True) if spread and len(symbols) > 1 else (False,):
            at = stepped(symbols[::-1] if turned else symbols, forms, step, spread)
            if (key := tuple(at[v] for v in symbols)) not in seen:
                seen.add(key)
                yield at


def nominal(symbols: Sequence[Var], forms: Forms) -> At:
    """Values that no two symbols share, if their bounds allow it."""
    return stepped(symbols, forms, 97, 31)


def stepped(symbols: Sequence[Var], forms: Forms, step: int, spread: int) -> At:
    """Values beyond the least ones by `step`, and `spread` more for each symbol, as far as there are such values."""
    at = {}
    for i, v in enumerate(symbols):
        low, high = range_of(forms.bounds, v)
        at[v] = low + step + spread * i if high is None else min(low + step + spread * i, high)
    return at


def smaller(low: int, than: int) -> Iterator[int]:
    """Numbers from `low` up to, and without, another: the lowest first, then ever nearer."""
    yield from range(low, min(low + 4, than))
    step = (than - low) // 2
    while step > 0:
        if than - step > low + 3:
            yield than - step
        step //= 2


def shown_bounds(v: Var, within: Range) -> str:
    """The range of a symbol for a message, such as `n in 1 to 8`."""
    low, high = within
    return f"{v.name} >= {low}" if high is None else f"{v.name} in {low} to {high}"
