"""The questions of a proof to z3, as text that another solver can read (specs/verify.md, "Certificate").

A proof of a kernel asks many small questions. Inside of `keeping`, each that z3 answers with `unsat` is written down:
its own declarations and assertions, in SMT-LIB 2, between `(push 1)` and `(pop 1)`. The text is ours and not z3's
printer's, so that it is the same wherever it is made: operands that commute stand in the order of their texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import z3

from assay.semantics.walk import post_order

Formula: TypeAlias = Any
"""A term of z3."""

COMMUTE = {"+", "*", "and", "or", "=", "distinct", "bvadd", "bvmul", "bvand", "bvor", "bvxor"}
"""Operations whose operands may be exchanged."""
EMPTY = {"and": "true", "or": "false", "+": "0", "*": "1"}
"""What they are of no operands; of one they are that one."""
NAMES = {"if": "ite"}
"""What SMT-LIB calls an operation that z3 calls otherwise."""
NO_FORMULAS = ("(push", "(check", "(pop", ";")
"""How lines of a question begin that declare and assert nothing."""
WIDE = 100
"""Characters of a term from which on it gets a name, if it stands in several places or is deep."""
SIMPLE = re.compile(r"[A-Za-z_~!@$%^&*+=<>.?/-][A-Za-z0-9_~!@$%^&*+=<>.?/-]*")


@dataclass
class ProofSubject:
    """What a proof is about, and its questions so far; lines of `notes` say in words what is shown."""

    notes: list[str] = field(default_factory=list)
    questions: dict[str, None] = field(default_factory=dict)
    holds: bool = True
    """Whether the proof is one: else nothing of it is kept."""
    written: TermTexts = field(default_factory=lambda: TermTexts())


_subject: ContextVar[ProofSubject | None] = ContextVar("subject", default=None)


@contextmanager
def keeping(texts: MutableMapping[str, str] | None, name: str) -> Iterator[ProofSubject]:
    """Questions that are answered inside of this become the text `name` in `texts`, behind those that are there; with
    None nothing is kept."""
    subject = ProofSubject()
    before = _subject.set(subject if texts is not None else None)
    try:
        yield subject
    finally:
        _subject.reset(before)
    if texts is not None and subject.holds and subject.questions:
        known = texts.get(name) or _head(name, subject.notes)
        texts[name] = known + "".join(q for q in subject.questions if q not in known)


def note_proof(*lines: str) -> None:
    """Say in words what is shown, if texts are kept."""
    subject = _subject.get()
    if subject is not None:
        subject.notes += lines


def keeps_questions() -> bool:
    """Whether questions are written down: then z3 is asked what could be seen without it, too."""
    return _subject.get() is not None


def keep_question(about: str, formulas: Sequence[Formula]) -> None:
    """Write down formulas that cannot hold at once, as z3 says, if texts are kept."""
    subject = _subject.get()
    if subject is not None:
        subject.questions[question_text(about, formulas, subject.written)] = None


def never_hold(about: str, formulas: Sequence[Formula], effort: int) -> bool:
    """Whether z3 finds, with so much of its resources, that formulas cannot hold at once; that is kept, if texts are.
    Then it is asked the very text, with nothing else in its memory: so the answer hangs on the text alone, and is the
    same wherever it is asked again."""
    subject = _subject.get()
    if subject is None:
        solver = z3.SimpleSolver()
        solver.add(*formulas)
        text = ""
    else:
        text = question_text(about, formulas, subject.written)
        if text in subject.questions:
            return True
        solver = z3.SimpleSolver(ctx=z3.Context())
        solver.from_string("".join(line for line in text.splitlines(True) if not line.startswith(NO_FORMULAS)))
    solver.set("rlimit", effort)
    shown = bool(solver.check() == z3.unsat)
    if shown and subject is not None:
        subject.questions[text] = None
    return shown


def _head(name: str, notes: Sequence[str]) -> str:
    told = "".join(f"; {_one_line(n)}\n" for n in (name, *notes))
    return f"{told}; every answer has to be unsat\n(set-logic ALL)\n"


def _one_line(text: str) -> str:
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())


def question_text(about: str, formulas: Sequence[Formula], written: TermTexts | None = None) -> str:
    """One question with all that it names, between `(push 1)` and `(pop 1)`. `written` has texts from before."""
    written = written or TermTexts()
    asserted = {written.text(f): written.needs[f.get_id()] for f in formulas if not z3.is_true(f)}
    before = dict.fromkeys(text for _, text in sorted(set[Need]().union(*asserted.values())))
    return "\n".join(
        [
            "(push 1)",
            *(f"; {_one_line(line)}" for line in about.splitlines()),
            *before,
            *(f"(assert {a})" for a in sorted(asserted)),
            "(check-sat)",
            "(pop 1)\n",
        ]
    )


Need: TypeAlias = tuple[int, str]
"""What has to stand before a term, and its rank: sorts, then functions, then parts with names, behind those that they
name."""
SORT, FUNCTION = 0, 1


@dataclass
class TermTexts:
    """The texts of terms, each made once, however many questions it stands in. A long part has a name that hangs on
    its text alone."""

    alive: dict[int, Formula] = field(default_factory=dict)
    """One object for each term: z3 makes a new one whenever it is asked, and gives numbers of lost terms to others."""
    parts: dict[int, list[Formula]] = field(default_factory=dict)
    made: dict[int, str] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    needs: dict[int, frozenset[Need]] = field(default_factory=dict)

    def text(self, formula: Formula) -> str:
        """The text of a term."""
        for node in post_order(self._held(formula), self._parts):
            if node.get_id() not in self.made:
                self._write(node)
        return self.made[formula.get_id()]

    def _held(self, node: Formula) -> Formula:
        return self.alive.setdefault(node.get_id(), node)

    def _parts(self, node: Formula) -> Sequence[Formula]:
        """The terms of which a term consists, if it has no text."""
        key = node.get_id()
        if key in self.made:
            return ()
        if key not in self.parts:
            self.parts[key] = [self._held(c) for c in node.children()]
        return self.parts[key]

    def _write(self, node: Formula) -> None:
        key, own = node.get_id(), set[Need]()
        parts = [c.get_id() for c in self.parts.pop(key)]
        depth = self.depth[key] = 1 + max((self.depth[c] for c in parts), default=FUNCTION)
        text = self._node(node, [self.made[c] for c in parts], own)
        if len(text) > WIDE:
            name = f"part_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            own.add((depth, f"(define-fun {name} () {_sort(node.sort(), own)} {text})"))
            text = name
        self.made[key] = text
        widest = max((self.needs[c] for c in parts), key=len, default=frozenset[Need]())
        new = own.union(*(self.needs[c] for c in parts)) - widest
        self.needs[key] = widest | new if new else widest

    def _node(self, node: Formula, args: Sequence[str], own: set[Need]) -> str:
        if z3.is_int_value(node):
            value = node.as_long()
            return str(value) if value >= 0 else f"(- {-value})"
        decl = node.decl()
        if decl.kind() == z3.Z3_OP_UNINTERPRETED:
            return _unknown(decl, args, own)
        name = decl.name()
        if len(args) < 2 and name in EMPTY:
            return args[0] if args else EMPTY[name]
        if not args:
            return str(node.sexpr())
        name = NAMES.get(name, name)
        given = decl.params()
        head = f"(_ {name} {' '.join(map(str, given))})" if given else name
        return f"({head} {' '.join(sorted(args) if name in COMMUTE else args)})"


def _unknown(decl: Any, args: Sequence[str], own: set[Need]) -> str:
    name = quoted(decl.name())
    takes = " ".join(_sort(decl.domain(k), own) for k in range(decl.arity()))
    own.add((FUNCTION, f"(declare-fun {name} ({takes}) {_sort(decl.range(), own)})"))
    return f"({name} {' '.join(args)})" if args else name


def _sort(sort: Any, own: set[Need]) -> str:
    if sort.kind() == z3.Z3_UNINTERPRETED_SORT:
        own.add((SORT, f"(declare-sort {quoted(sort.name())} 0)"))
        return quoted(sort.name())
    return str(sort.sexpr())


def quoted(name: str) -> str:
    """A name as SMT-LIB writes it."""
    plain = _one_line(name).replace("|", "!").replace("\\", "!")
    return plain if SIMPLE.fullmatch(plain) else f"|{plain}|"
