"""Facts as goals: each follows from what atoms and products are defined to be (specs/verify.md, "Memory plans").

A text about forms speaks of atoms and products as unknowns, and of facts about them. Nothing of that is believed: the
same text defines each atom by its parts, and states of each fact that it follows. What a part's range is used for is a
fact too, so all rests on the bounds of the symbols and on definitions. A range follows from ranges of smaller parts,
any other fact from ranges: there is no circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from assay.semantics.integers.polynomials import Extreme, Polynomial, PolynomialQuotient, Product, Symbol, Unknown, one
from assay.semantics.integers.ranges import Range
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Var, operation
from assay.semantics.walk import Worklist
from assay.verify.memory.forms import Forms, limits
from assay.verify.memory.query import comment, literal
from assay.verify.memory.solve import BEGIN, END

GROUPED = 50
"""So many linear facts make one question: z3 is slower on one ten times as long than on ten."""


TERMS: dict[str, Callable[..., str]] = {
    "add": lambda a, b: f"(+ {a} {b})",
    "sub": lambda a, b: f"(- {a} {b})",
    "mul": lambda a, b: f"(* {a} {b})",
    "neg": lambda a: f"(- {a})",
    "abs": lambda a: f"(ite (>= {a} 0) {a} (- {a}))",
    "max": lambda a, b: f"(ite (>= {a} {b}) {a} {b})",
    "min": lambda a, b: f"(ite (<= {a} {b}) {a} {b})",
    "floordiv": lambda a, b: f"(div {a} {b})",
    "floormod": lambda a, b: f"(mod {a} {b})",
}
"""What operators are in SMT-LIB, whose division is ours where the divisor is 1 or more."""

TRUNCATED: dict[str, Callable[[str, str], str]] = {
    "truncdiv": lambda a, b: f"(ite (>= {a} 0) (div {a} {b}) (- (div (- {a}) {b})))",
    "truncmod": lambda a, b: f"(ite (>= {a} 0) (mod {a} {b}) (- (mod (- {a}) {b})))",
}
"""Division that rounds towards 0, by 1 or more."""


def name(product: Product) -> str:
    """What a product of atoms is called in every text."""
    return f"v{product[0]}" if len(product) == 1 else f"p{'_'.join(map(str, product))}"


def total(f: Polynomial) -> str:
    """A form as a term."""
    parts = [literal(f.constant)] if f.constant else []
    parts += [_part(p, k) for p, k in f.ordered]
    return f"(+ {' '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0"


def _part(product: Product, factor: int) -> str:
    return name(product) if factor == 1 else f"(* {literal(factor)} {name(product)})"


def products(found: Iterable[Polynomial]) -> list[Product]:
    """The products in some forms, each once."""
    return list(dict.fromkeys(p for f in found for p, _ in f.ordered))


class Grounds:
    """What the facts of one text rest on. `ranges` are those of the atoms, within the bounds of the text."""

    def __init__(self, forms: Forms, ranges: Sequence[Range]) -> None:
        self.forms = forms
        self.ranges = ranges
        work = Worklist[Product](products(forms.given), lambda product: product)
        self.stated: dict[Product, None] = {}
        """The products in what is given, and in what defines their atoms: the head of the text declares them."""
        for p in work:
            self.stated[p] = None
            work.add((a,) for a in p)
            work.add(q for f in self.parts(p[0]) for q in products([f])) if len(p) == 1 else None

    def head(self) -> list[str]:
        """The symbols and their bounds, and that no dim is below 0: all that is assumed."""
        lines = []
        for a, atom in enumerate(self.forms.atoms):
            if isinstance(atom, Symbol):
                low, high = self.ranges[a]
                lines.append(f"(declare-const v{a} Int) ; {comment(atom.var.name)}")
                lines += [f"(assert (>= v{a} {literal(low)}))"] if low is not None else []
                lines += [f"(assert (<= v{a} {literal(high)}))"] if high is not None else []
        lines += self._declared(self.stated)
        for p in self.stated:
            meaning = self.definition(p[0]) if len(p) == 1 else _meaning(p)
            lines += [f"(assert {meaning})"] if meaning is not None else []
        lines += [f"(assert (>= {total(f)} 0)) ; no dim is below 0" for f in self.forms.given]
        return lines

    def declared(self, found: Iterable[Product]) -> Iterator[str]:
        """Every unknown that is no symbol, and that the head does not declare."""
        return self._declared(p for p in found if p not in self.stated)

    def _declared(self, found: Iterable[Product]) -> Iterator[str]:
        for p in dict.fromkeys(found):
            if len(p) > 1 or not isinstance(self.forms.atoms[p[0]], Symbol):
                yield f"(declare-const {name(p)} Int)"

    def parts(self, atom: int) -> tuple[Polynomial, ...]:
        """The forms that an atom is made of."""
        match self.forms.atoms[atom]:
            case PolynomialQuotient(dividend=a, divisor=b) | Extreme(first=a, second=b):
                return a, b
            case Unknown(ends=ends):
                return ends
            case Symbol():
                return ()

    def definition(self, atom: int) -> str | None:
        """What an atom is; None: a symbol, or a part that is not looked into, of which nothing is said."""
        v = f"v{atom}"
        match self.forms.atoms[atom]:
            case PolynomialQuotient(dividend=a, divisor=b):
                if b.as_number is not None:
                    return f"(= {v} (div {total(a)} {literal(b.constant)}))"
                times = f"(* {v} {total(b)})"
                return f"(and (<= {times} {total(a)}) (< {total(a)} (+ {times} {total(b)})))"
            case Extreme(which=which, first=a, second=b):
                return f"(= {v} (ite ({'>=' if which == 'max' else '<='} {total(a)} {total(b)}) {total(a)} {total(b)}))"
            case Unknown(ends=(a, b)):
                return f"(or (= {v} {total(a)}) (= {v} {total(b)}))"
            case _:
                return None

    def sections(
        self, facts: Iterable[Polynomial], pairs: Iterable[tuple[Polynomial, Polynomial]] = ()
    ) -> Iterator[str]:
        """The questions whether each fact, and each "one of two is 0", follows from the definitions; what they need
        too."""
        work = Worklist[tuple[Polynomial, ...]]([*((f,) for f in facts), *pairs], lambda claim: claim)
        linear: list[tuple[str, list[int], list[Polynomial]]] = []
        for claim in work:
            if self._assumed(claim) or len(claim) == 1 and not claim[0].terms and claim[0].constant >= 0:
                continue
            atoms, premises, nonlinear = self._needs(claim)
            work.add((f,) for f in premises)
            wrong = (
                f"(< {total(claim[0])} 0)" if len(claim) == 1 else " ".join(f"(not (= {total(f)} 0))" for f in claim)
            )
            if nonlinear:
                yield self._alone(wrong, atoms, premises, products(claim))
            else:
                linear.append((wrong, atoms, premises))
                if len(linear) == GROUPED:
                    yield self._together(linear)
                    linear = []
        if linear:
            yield self._together(linear)

    def meanings(self, nodes: Iterable[tuple[Expr, Polynomial, Sequence[Polynomial]]]) -> Iterator[str]:
        """The questions whether each part of an expression is the form that stands for it, its operands being theirs.

        `nodes`: the part, its form and those of its operands. They and the bounds are all that a form says.
        """
        linear: list[tuple[str, list[int], list[Polynomial]]] = []
        needed: dict[Polynomial, None] = {}
        for node, f, args in nodes:
            said = self._meant(node, f, args)
            if said is None:
                continue
            inside = products([f, *args])
            atoms = list(dict.fromkeys(a for p in products([f]) for a in p))
            premises = [g for p in inside for g in limits(p, self.ranges)] + self._limits_inside(atoms)
            needed |= dict.fromkeys(premises)
            multiplied = sum(bool(a.terms) for a in args) > 1 and _multiplies(node)
            if multiplied or self._by_unknown(atoms):
                yield self._alone(f"(not {said})", atoms, premises, inside)
            else:
                linear.append((f"(not {said})", atoms, premises))
        for start in range(0, len(linear), GROUPED):
            yield self._together(linear[start : start + GROUPED])
        yield from self.sections(needed)

    def _meant(self, node: Expr, f: Polynomial, args: Sequence[Polynomial]) -> str | None:
        """That a part has the value of its form; None: the form is by definition what it is, or a part by itself."""
        inside = products([f])
        whole_atom = self.forms.atoms[inside[0][0]] if len(inside) == 1 and f == one(inside[0][:1]) else None
        said = [total(a) for a in args]
        match node, whole_atom:
            case Var(), Symbol(var=var):
                return None if var is node else "false"
            case (Choice(), _) | (Apply(op="select"), _):
                return f"(or (= {total(f)} {said[1]}) (= {total(f)} {said[2]}))"
            case _, Unknown(expr=expr, ends=()):
                return None if self.forms.same(expr, node) else "false"
            case Const(), _:
                return f"(= {total(f)} {literal(int(node.value))})"
            case Cast(), _:
                low, high = int(node.dtype.min), int(node.dtype.max)
                return f"(and (= {total(f)} {said[0]}) (<= {literal(low)} {said[0]}) (<= {said[0]} {literal(high)}))"
            case Apply(op="floordiv"), PolynomialQuotient() if args[1].as_number is None:
                times = f"(* {total(f)} {said[1]})"
                return f"(and (>= {said[1]} 1) (<= {times} {said[0]}) (< {said[0]} (+ {times} {said[1]})))"
            case Apply(op=op), _ if op in TERMS:
                return f"(= {total(f)} {TERMS[op](*said)})"
            case Apply(op="shl" | "shr" as op), _ if (by := args[1].as_number) is not None:
                return f"(= {total(f)} ({'*' if op == 'shl' else 'div'} {said[0]} {1 << by}))"
            case Apply(op="truncdiv" | "truncmod" as op), _:
                return f"(and (>= {said[1]} 1) (= {total(f)} {TRUNCATED[op](*said)}))"
            case _:
                return "false"

    def _assumed(self, claim: tuple[Polynomial, ...]) -> bool:
        """Whether a fact is a bound of a symbol, or a dim."""
        if len(claim) != 1:
            return False
        if claim[0] in self.forms.given:
            return True
        found = products(claim)
        one = len(found) == 1 and len(found[0]) == 1 and isinstance(self.forms.atoms[found[0][0]], Symbol)
        return one and claim[0] in list(limits(found[0], self.ranges))

    def _needs(self, claim: tuple[Polynomial, ...]) -> tuple[list[int], list[Polynomial], bool]:
        """The atoms whose definitions, and the ranges that a fact follows from, and whether it has products."""
        inside = products(claim)
        if len(claim) == 1 and (atom := self._bounded(claim[0])) is not None:
            return [atom], [], False
        if len(claim) == 1 and len(inside) == 1 and claim[0] in list(limits(inside[0], self.ranges)):
            (p,) = inside
            if len(p) > 1:
                factors = [p[:-1], p[-1:]]
                return [], [f for q in factors for f in limits(q, self.ranges)], True
            return [p[0]], self._limits_inside([p[0]]), False
        atoms = list(dict.fromkeys(a for p in inside for a in p))
        others = [p[:i] + p[i + 1 :] for p in inside if len(p) > 1 for i in range(len(p))]
        wanted = dict.fromkeys([*inside, *((a,) for a in atoms), *others])
        premises = [f for p in wanted for f in limits(p, self.ranges)]
        return (
            atoms,
            [*premises, *self._limits_inside(atoms)],
            any(len(p) > 1 for p in inside) or self._by_unknown(atoms),
        )

    def _bounded(self, fact: Polynomial) -> int | None:
        """The maximum or minimum of which a fact says no more than that it is no less, or no more, than a part: that
        follows from its definition, whatever the parts are."""
        for p in fact.terms:
            if len(p) == 1 and isinstance(atom := self.forms.atoms[p[0]], Extreme):
                whole = one(p) if atom.which == "max" else one(p).scaled(-1)
                sign = 1 if atom.which == "max" else -1
                if fact in (whole - part.scaled(sign) for part in (atom.first, atom.second)):
                    return p[0]
        return None

    def _limits_inside(self, atoms: Iterable[int]) -> list[Polynomial]:
        found = products(f for a in atoms for f in self.parts(a))
        return [f for p in found for f in limits(p, self.ranges)]

    def _by_unknown(self, atoms: Iterable[int]) -> bool:
        """Whether one of the atoms is a quotient by what is no number."""
        known = (self.forms.atoms[a] for a in atoms)
        return any(isinstance(atom, PolynomialQuotient) and atom.divisor.as_number is None for atom in known)

    def _together(self, claims: Sequence[tuple[str, list[int], list[Polynomial]]]) -> str:
        """One question about linear facts; `bad` is the number of one that does not follow."""
        seen: list[Product] = []
        lines, defined = [], []
        used: dict[Polynomial, str] = {}
        told: set[int] = set()
        for i, (wrong, atoms, premises) in enumerate(claims):
            beside = []
            for a in atoms:
                meaning = self.definition(a)
                seen += [(a,), *products(self.parts(a))]
                if meaning is not None:
                    if a not in told:
                        told.add(a)
                        defined.append(f"(define-fun d{a} () Bool {meaning})")
                    beside.append(f"d{a}")
            for f in premises:
                if f not in used:
                    used[f] = f"r{len(used)}"
                    defined.append(f"(define-fun {used[f]} () Bool (>= {total(f)} 0))")
                    seen += products([f])
                beside.append(used[f])
            lines.append(f"  (and (= bad {i}) {wrong} {' '.join(dict.fromkeys(beside))})")
        head = [*self.declared(seen), "(declare-const bad Int)", *defined]
        return "\n".join([*head, "(assert (or", *lines, "  false))"])

    def _alone(self, wrong: str, atoms: list[int], premises: list[Polynomial], inside: list[Product]) -> str:
        """A question about one fact with products, which are defined as what they are."""
        seen = [
            *inside,
            *products(premises),
            *((a,) for a in atoms),
            *products(f for a in atoms for f in self.parts(a)),
        ]
        seen += [(a,) for p in seen for a in p]
        meanings = [m for a in dict.fromkeys(atoms) if (m := self.definition(a)) is not None]
        long = [p for p in dict.fromkeys(seen) if len(p) > 1]
        lines = [*self.declared(seen)]
        lines += [f"(assert {_meaning(p)})" for p in long]
        lines += [f"(assert {m})" for m in meanings]
        lines += [f"(assert (>= {total(f)} 0))" for f in dict.fromkeys(premises)]
        return "\n".join([*lines, f"(assert (and {wrong}))"])


def _meaning(product: Product) -> str:
    """What a product of several atoms is."""
    return f"(= {name(product)} (* {' '.join(f'v{a}' for a in product)}))"


def _multiplies(node: Expr) -> bool:
    """Whether no solver of linear arithmetic knows anything of this operation, if both operands are unknown."""
    return isinstance(node, Apply) and (node.op == "mul" or operation(node.op).has("divides"))


def text(about: str, goals: str, facts: str, head: Sequence[str], sections: Sequence[str]) -> str:
    """A text of several questions, each of which is to be `unsat`."""
    lines = [
        f"; {comment(about)}: {goals}, {facts}; all hold if the answer to every question is unsat",
        "(set-logic QF_NIA)",
        *head,
    ]
    for section in sections or ["(assert false) ; nothing has to be shown"]:
        lines += [BEGIN, section, "(check-sat)", END]
    return "\n".join([*lines, ""])
