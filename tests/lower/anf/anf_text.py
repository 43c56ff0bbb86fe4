"""The bindings of a function as lines, for tests that say exactly what they expect."""

from __future__ import annotations

from textwrap import dedent

from assay.semantics.graph import (
    Call,
    Constant,
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Print,
    RefCreate,
    RefRead,
    RefWrite,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from assay.semantics.operator import Operator


def text(function: Function) -> str:
    """Parameters, then one line for each let, blocks indented; `->` is a block's result, `*` a dataflow mark."""
    out = [f"({', '.join(p.name for p in function.params)})"]
    work: list[tuple[str, Expr | str, str]] = [("block", function.body, "")]
    while work:
        what, node, pad = work.pop()
        if what == "line":
            assert isinstance(node, str)
            out.append(pad + node)
            continue
        steps: list[tuple[str, Expr | str, str]] = []
        assert isinstance(node, Expr)
        while isinstance(node, Let):
            mark = "*" if node.dataflow else ""
            steps.append(("line", f"{node.var.name}{mark} = {head(node.value)}", pad))
            for name, body in blocks(node.value):
                steps += [("line", name, pad + "  "), ("block", body, pad + "    ")]
            node = node.body
        steps.append(("line", f"-> {head(node)}", pad))
        work += reversed(steps)
    return "\n".join(out)


def blocks(value: Expr) -> list[tuple[str, Expr]]:
    match value:
        case If():
            return [("then", value.then), ("else", value.otherwise)]
        case Match():
            return [(f"case {', '.join(v.name for v in c.vars)}".rstrip(), c.body) for c in value.clauses]
        case Function() if not {"primitive", "compiler"} & value.attrs.keys():
            return [("body", value.body)]
        case _:
            return []


def head(node: Expr) -> str:
    """A value in one line; what is inside it in parentheses."""
    match node:
        case Var() | GlobalVar() | ExternFunc() | Constructor():
            return node.name
        case Constant():
            return str(node.data.tolist())
        case Function():
            return f"fn({', '.join(p.name for p in node.params)})"
        case If():
            return f"if {head(node.condition)}"
        case Match():
            return f"match {head(node.value)}"
        case Call():
            name = node.op.name if isinstance(node.op, Operator) else head(node.op)
        case Tuple():
            name = ""
        case TupleGetItem():
            return f"{head(node.value)}.{node.index}"
        case Print():
            name = "print"
        case RefCreate():
            name = "ref"
        case RefRead():
            name = "read"
        case RefWrite():
            name = "write"
        case ShapeExpr():
            return f"shape{node.dims}".replace("(Var(", "(").replace(",)", ")")
        case _:
            name = type(node).__name__.lower()
    args = node.args if isinstance(node, Call) else node.children
    return f"{name}({', '.join(map(head, args))})"


def same_text(function: Function, expected: str) -> bool:
    """Whether a function has the expected lines; the difference is in the assertion's message."""
    got, want = text(function), dedent(expected).strip()
    assert got == want, f"\n{got}\n--- expected\n{want}"
    return True
