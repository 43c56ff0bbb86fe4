"""What the entry of a program of unknown sizes computes from the sizes that it is handed (specs/verify.md, "c").

A function of the file takes the sizes, refuses some, and fills a structure: how many bytes there are, where each
buffer lies, what kernels are handed. It is followed once; afterwards its members have terms over the sizes, and what
the program says of the same sizes has terms too. The sizes are any that the header names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd

from assay.lower.c.source import CSource
from assay.semantics.arrangements import in_one
from assay.semantics.instance import measured_of, place_of, run_dims, symbols_of
from assay.semantics.module import Program, Slot
from assay.semantics.scalar import Dim, Var
from assay.semantics.tensor.calls import size_of
from assay.semantics.types import TensorType
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.expressions import ScalarTerms, nowhere
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.functions import Functions
from assay.verify.c.reading.parse import c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.statements import is_name, returned
from assay.verify.c.reading.terms import Term, as_poly
from assay.verify.c.reading.values import CNode, CValue, Evaluator, c_limits

PLAN = "plan"
"""What the structure is called in every function."""
CHOICES = {"ite": 1, "imin": 0, "imax": 0}
"""Operations that give one of their operands, from this one on."""


@dataclass
class EntrySizes:
    """The numbers of an entry: those of the program, over its symbols, and those of the text."""

    functions: Functions
    source: CSource
    program: Program
    symbols: dict[Var, Term] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table, lemmas = self.functions.table, self.functions.recognised.lemmas
        if self.program.plan is not None:
            self.program = replace(self.program, plan=in_one(self.program.plan))
        self.facts = Facts()
        math = Arithmetic(table, self.facts, lemmas)
        self.theirs = Evaluator(
            math, self.functions.file.constants, lambda n, a: self.functions.caller(self.theirs.math, n, a)
        )
        self.ours = ScalarTerms(math, nowhere)
        self.name, self.macro = self.source.name, self.source.macro

    @property
    def is_planned(self) -> bool:
        """Whether anything depends on sizes that are no numbers."""
        return bool(self.source.sizes)

    # --- the program -------------------------------------------------------------------------------------------------

    def number(self, dim: Dim) -> Term:
        """A number of the program."""
        return self.ours.dim(dim)

    def nbytes(self, slot: Slot) -> Term:
        """The bytes of a slot."""
        if slot.room is not None:
            raise NotRead(f"the sizes of {slot.name} are measured by the run")
        return self.bytes_of(slot.type)

    def bytes_of(self, of: TensorType) -> Term:
        """The bytes of a tensor."""
        return self.number(size_of(of.shape) * of.dtype.itemsize)

    def inside(self, slot: Slot) -> Term:
        """That a slot lies inside of its pool."""
        first, math = self.offset(slot), self.ours.math
        end, size = math.add(first, self.nbytes(slot)), self.pool_size(self.program.pool_of(slot).name)
        return math.both(math.ge0(first), math.compare("le", end, size))

    def first_open(self, goals: Sequence[tuple[Term, str]]) -> str | None:
        """What is said of the first goal that is not shown; all are asked at once, as one question has one text."""
        math, together = self.ours.math, self.ours.math.truth(True)
        left = [(g, why) for g, why in goals if g.op != "truth" or not g.args[0]]
        for goal, _ in left:
            together = math.both(together, goal)
        if not left or self.facts.follows(together):
            return None
        return next((why for goal, why in left if not self.facts.proves(goal)), None)

    def offset(self, slot: Slot) -> Term:
        """Where a slot lies in its pool."""
        place = place_of(self.program, slot)
        if place is None or place.pool != self.program.pool_of(slot).name:
            raise NotRead(f"where {slot.name} lies is not decided")
        return self.number(place.offset)

    def pool_size(self, name: str) -> Term:
        """The bytes of a pool."""
        sizes: dict[str, Dim] = {**self.program.sizes}
        if self.program.plan is not None:
            sizes |= self.program.plan.sizes
        return self.number(sizes.get(name, 0))

    @cached_property
    def pooled(self) -> set[str]:
        """The slots that lie in pools."""
        return {s.name for s in self.program.pooled}

    # --- comparing -----------------------------------------------------------------------------------------------

    def same(self, a: Term, b: Term) -> bool:
        """Whether two numbers are shown to be equal."""
        return self.facts.same(a, b)

    def is_multiple(self, a: Term, of: int) -> bool:
        """Whether a number is shown to be a multiple of another."""
        if has_factor(a, of):
            return True
        math = self.ours.math
        return self.facts.proves(math.eq0(math.fmod(a, math.whole(of))))

    def require_same(self, node: CNode, wanted: Term, what: str) -> None:
        """An expression of the text has to be a number of bytes of the program, as a size_t."""
        found = self.theirs.converted(self.theirs.value(node), "size_t").term
        if not self.same(found, wanted):
            raise NotRead(f"{what} is {wanted!r}, and in the text {found!r}")

    # --- the text --------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Follow the function that fills the structure, and the one that tells a caller how much memory it needs."""
        if not self.is_planned:
            if symbols_of(self.program) or measured_of(self.program):
                raise NotRead("the entry takes no sizes, and the program has some")
            return
        if measured_of(self.program):
            raise NotRead("sizes that a run measures are not read")
        given = symbols_of(self.program)
        if [a.symbol for a in self.source.sizes] != list(given):
            raise NotRead("the sizes are not those of the program")
        for a in self.source.sizes:
            within = c_limits("int64_t")
            self.symbols[a.symbol] = self.functions.table.fresh(a.symbol.name, "int", within)
            self.theirs.scope.values[a.name] = CValue("int64_t", self.symbols[a.symbol])
        self.ours.env.update(self.symbols)
        self.follow()
        self.require_sizes()
        self.read_told()

    def follow(self) -> None:
        """The function that takes the sizes and fills the structure."""
        function = self.functions.file.functions.get(f"{self.name}_find_plan")
        wanted = [(a.name, "int64_t") for a in self.source.sizes] + [(PLAN, f"struct {self.name}_plan*")]
        if function is None or [(n, t) for n, t, _ in function.params] != wanted:
            raise NotRead("the function that takes the sizes has other parameters")
        types = self.functions.file.structs.get(f"{self.name}_plan", {})
        *body, last = function.tree.body.block_items
        scope = self.theirs.scope
        for node in body:
            match type(node).__name__:
                case "If":
                    self.refuse(node)
                case "Decl":
                    if node.name in scope.values or "const" not in node.quals or node.init is None or node.storage:
                        raise NotRead(f"the variable {node.name} is not read")
                    scope.values[node.name] = self.theirs.converted(self.theirs.value(node.init), c_type(node.type))
                case "Assignment" if node.op == "=" and is_member(node.lvalue):
                    name = node.lvalue.field.name
                    if (PLAN, name) in scope.members or name not in types:
                        raise NotRead(f"the member {name} is set twice, or is none")
                    scope.members[PLAN, name] = self.theirs.converted(self.theirs.value(node.rvalue), types[name])
                case other:
                    raise NotRead(f"the function that takes the sizes has a statement that is not read: {other}")
        if type(last).__name__ != "Return" or not is_name(last.expr, f"{self.macro}_OK"):
            raise NotRead("the function that takes the sizes does not return OK at its end")
        scope.values.clear()

    def refuse(self, node: CNode) -> None:
        """Sizes are refused: only those that the header does not name, or at which the program has no tensors."""
        status = returned(node)
        if status is None or not is_name(status, f"{self.macro}_BAD_SIZE"):
            raise NotRead("sizes are refused by another status, or not at all")
        math = self.theirs.math
        refused = self.theirs.condition(node.cond)
        inside = Arithmetic(math.table, self.facts.copy(), math.lemmas)
        for a in self.source.sizes:
            inside.assume(self.taken(a.symbol, a.low, a.high))
        if not inside.facts.proves(math.negation(refused)):
            inside.assume(refused)
            terms = ScalarTerms(inside, nowhere, dict(self.symbols))
            below = math.truth(False)
            for dim in run_dims(self.program):
                below = math.either(below, math.compare("lt", terms.dim(dim), math.whole(0)))
            if not inside.facts.proves(below):
                raise NotRead(f"sizes are refused that the program has: {refused!r}")
        math.assume(math.negation(refused))

    def taken(self, symbol: Var, low: int, high: int) -> Term:
        """Whether a size lies within the two numbers that the header names."""
        math, term = self.ours.math, self.symbols[symbol]
        return math.both(math.ge0(math.sub(term, math.whole(low))), math.ge0(math.sub(math.whole(high), term)))

    def require_sizes(self) -> None:
        """What is not refused lies within what the header names, and gives no tensor a negative size."""
        for a in self.source.sizes:
            if not self.facts.proves(self.taken(a.symbol, a.low, a.high)):
                raise NotRead(f"the entry takes other sizes {a.name} than {a.low} to {a.high}")
        for dim in run_dims(self.program):
            condition = self.ours.math.ge0(self.number(dim))
            if not self.facts.proves(condition):
                raise NotRead("the entry takes sizes at which a tensor has a negative one")
            self.ours.math.assume(condition)

    def read_told(self) -> None:
        """The function that tells how many bytes each argument has at some sizes."""
        fields = {f"{w.name}_bytes": self.pool_size(w.pool) for w in self.source.workspaces}
        fields |= {f"{a.name}_bytes": self.bytes_of(a.type) for a in (*self.source.inputs, *self.source.outputs)}
        function = self.functions.file.functions.get(f"{self.name}_sizes")
        wanted = [(a.name, "int64_t") for a in self.source.sizes] + [("sizes", f"struct {self.name}_sizes*")]
        if function is None or [(n, t) for n, t, _ in function.params] != wanted:
            raise NotRead("the function that tells the sizes of arguments has other parameters")
        found, plan_, status, leaves, *rest, unused, last = function.tree.body.block_items
        if not (self.is_begun(found, plan_, status) and self.is_left(leaves)):
            raise NotRead("the function that tells the sizes of arguments begins in another way")
        for node in rest:
            if type(node).__name__ != "Assignment" or node.op != "=" or not is_member(node.lvalue, "sizes"):
                raise NotRead("the function that tells the sizes of arguments has a statement that is not read")
            name = node.lvalue.field.name
            if name not in fields:
                raise NotRead(f"the bytes {name} are none of the arguments")
            self.require_same(node.rvalue, fields.pop(name), f"what the caller is told of {name}")
        if fields:
            raise NotRead(f"the caller is not told {', '.join(fields)}")
        if type(unused).__name__ != "Cast" or type(last).__name__ != "Return" or not is_name(last.expr, "status"):
            raise NotRead("the function that tells the sizes of arguments ends in another way")

    def is_begun(self, found: CNode, plan: CNode, status: CNode) -> bool:
        """Whether three declarations are the structure, a pointer to it, and the status of the function that fills
        it."""
        whole = type(found).__name__ == "Decl" and (found.name, found.init) == ("found", None) and not found.storage
        if not whole or c_type(found.type) != f"struct {self.name}_plan" or type(plan).__name__ != "Decl":
            return False
        leads = plan.name == PLAN and c_type(plan.type) == f"struct {self.name}_plan*" and "const" in plan.type.quals
        if not leads or not is_address(plan.init, "found"):
            return False
        call: CNode = getattr(status, "init", None)
        if type(call).__name__ != "FuncCall" or status.name != "status" or c_type(status.type) != "int":
            return False
        *sizes, to = call.args.exprs
        return (
            call.name.name == f"{self.name}_find_plan"
            and [getattr(a, "name", "") for a in sizes] == [a.name for a in self.source.sizes]
            and is_address(to, "found")
        )

    def is_left(self, node: CNode) -> bool:
        """Whether a statement returns the status where it is not OK."""
        status = returned(node) if type(node).__name__ == "If" else None
        return status is not None and is_name(status, "status") and compares(node.cond, "!=", f"{self.macro}_OK")

    def values(self, nodes: Sequence[CNode], types: Sequence[str]) -> list[Term]:
        """What a kernel is handed behind its pointers."""
        return [self.theirs.converted(self.theirs.value(n), t).term for n, t in zip(nodes, types, strict=True)]


def has_factor(term: Term, of: int) -> bool:
    """Whether a number is a multiple of another by its form: each part of its sum is, or has a factor of which each
    number that may be chosen is. What is not seen so, z3 may still show."""
    for node, wanted in (work := Worklist([(term, of)], key=lambda item: item)):
        for mono, c in as_poly(node).items():
            left = wanted // gcd(c, wanted)
            choice = next((a for a in mono if a.op in CHOICES), None)
            if left > 1 and choice is None:
                return False
            if left > 1 and choice is not None:
                work.add([(part, left) for part in choice.args[CHOICES[choice.op] :]])
    return True


def is_member(node: CNode, of: str = PLAN) -> bool:
    """Whether an expression is a member of what a pointer leads to."""
    return type(node).__name__ == "StructRef" and node.type == "->" and is_name(node.name, of)


def is_address(node: CNode, name: str) -> bool:
    """Whether an expression is the address of a variable."""
    return type(node).__name__ == "UnaryOp" and node.op == "&" and is_name(node.expr, name)


def compares(node: CNode, op: str, ok: str) -> bool:
    """Whether a condition compares the status with OK."""
    return (
        type(node).__name__ == "BinaryOp" and node.op == op and is_name(node.left, "status") and is_name(node.right, ok)
    )
