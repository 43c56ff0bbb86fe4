"""Forms of statements that kernels have: what a loop counts, what a check returns (specs/verify.md, "c")."""

from __future__ import annotations

from assay.semantics import tensor
from assay.semantics.scalar import Load
from assay.semantics.walk import post_order
from assay.verify.c.reading.parse import CFile, c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.values import FLOATS, INTEGERS, CNode, CValue, Evaluator, c_limits


def variable_holds(declared: str, element: str) -> bool:
    """Whether a variable of a type holds every number of an element, and is of its kind."""
    if declared in FLOATS or element in FLOATS:
        return declared == element
    (a, b), (c, d) = c_limits(declared), c_limits(element)
    return a <= c and d <= b


def mentioned_buffers(kernel: tensor.PrimFunc) -> set[tensor.Buffer]:
    """The buffers that statements read or store to."""
    found: set[tensor.Buffer] = set()
    for stmt in tensor.program_order(kernel.body):
        if isinstance(stmt, tensor.Store):
            found.add(stmt.buffer)
        for root in stmt.expressions:
            found.update(n.buffer for n in post_order(root) if isinstance(n, Load))
    return found


def is_cell(buffer: tensor.Buffer) -> bool:
    """Whether a buffer has one element, for which C has a variable."""
    return all(d == 1 for d in buffer.shape)


def returned(node: CNode) -> CNode | None:
    """What `if (...) { return STATUS; }` returns; None for another statement."""
    body = node.iftrue
    if node.iffalse is not None or type(body).__name__ != "Compound" or len(body.block_items or ()) != 1:
        return None
    (only,) = body.block_items
    return only.expr if type(only).__name__ == "Return" else None


def counted_loop(node: CNode) -> tuple[str, str, CNode]:
    """The variable of a counted loop, its type and its bound."""
    init, cond, step = node.init, node.cond, node.next
    decls: list[CNode] = init.decls if type(init).__name__ == "DeclList" else []
    if len(decls) == 1 and decls[0].init is not None and is_zero(decls[0].init):
        name = decls[0].name
        compares = type(cond).__name__ == "BinaryOp" and cond.op == "<" and is_name(cond.left, name)
        counts = type(step).__name__ == "UnaryOp" and step.op in ("++", "p++") and is_name(step.expr, name)
        if compares and counts:
            return name, c_type(decls[0].type), cond.right
    raise NotRead("a loop is not counted from 0 by one")


def require_bound(name: str, of: str, bound: CValue, evaluator: Evaluator) -> None:
    """NotRead where a variable of a loop may not reach its bound, or is compared with another number than that."""
    low, high = evaluator.math.facts.interval(bound.term)
    if of not in INTEGERS or bound.type not in INTEGERS or high > c_limits(of)[1]:
        raise NotRead(f"the variable of the loop {name} is {of}, and its bound may be {high}")
    zero = evaluator.math.whole(0)
    common, _ = evaluator.usual(CValue(of, zero), CValue(bound.type, zero))
    if low < 0 and not INTEGERS[common.type][0]:
        raise NotRead(f"the bound of the loop {name} may be negative, and is compared as an unsigned number")


def is_zero(node: CNode) -> bool:
    """Whether an expression is the literal 0."""
    return type(node).__name__ == "Constant" and node.type == "int" and node.value == "0"


def is_name(node: CNode, name: str) -> bool:
    """Whether an expression is a name."""
    return type(node).__name__ == "ID" and node.name == name


def is_fixed(node: CNode, evaluator: Evaluator) -> bool:
    """Whether an expression is a number or a constant local."""
    return type(node).__name__ == "Constant" or (
        type(node).__name__ == "ID" and (node.name in evaluator.scope.values or node.name in evaluator.constants)
    )


def told_event(kind: str) -> str:
    """What one side does next, in words."""
    return {"end": "its end", "close": "the end of a block", "else": "the other arm"}.get(kind, f"a {kind}")


def trap_status(file: CFile, macro: str, kind: str) -> int:
    """The status of a kind of trap, as the header names it; -1: there is none."""
    word = {"misaligned": "MISALIGNED_VIEW", "assertion": "ASSERT"}.get(kind, kind.upper().replace(" ", "_"))
    return file.constants.get(f"{macro}_TRAP_{word}", -1)


def literal_number(node: CNode) -> int:
    """A whole literal."""
    if type(node).__name__ != "Constant":
        raise NotRead("an offset of the entry is no number")
    return int(node.value.rstrip("uUlL"), 0)
