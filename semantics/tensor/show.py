"""The tensor IR as messages show it (specs/semantics.md, "Tensor IR"). `assay.semantics.text` has the text to be
read."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.scalar import show
from assay.semantics.tensor.statements import (
    Alias,
    Allocate,
    AllocateConst,
    Assert,
    Block,
    Buffer,
    Call,
    Evaluate,
    For,
    If,
    LetStmt,
    Pragma,
    Seq,
    Stmt,
    Store,
    View,
    While,
)


def show_stmt(body: Stmt, depth: int = 0) -> str:
    """The statement as TVMScript writes it, one line for each."""
    lines: list[str] = []
    stack: list[tuple[Stmt | str, int]] = [(body, depth)]
    while stack:
        node, d = stack.pop()
        pad = "    " * d
        match node:
            case str():
                lines.append(pad + node)
            case For():
                start = "" if node.start is None else f", from {show(node.start)}"
                lines.append(f"{pad}for {node.var.name} in T.{node.kind}({show(node.extent)}{start}):")
                stack.append((node.body, d + 1))
            case While():
                lines.append(f"{pad}while {show(node.condition)}:")
                stack.append((node.body, d + 1))
            case Seq():
                stack.extend((s, d) for s in reversed(node.body))
            case If():
                lines.append(f"{pad}if {show(node.condition)}:")
                if node.otherwise is not None:
                    stack += [(node.otherwise, d + 1), ("else:", d)]
                stack.append((node.then, d + 1))
            case LetStmt():
                lines.append(f"{pad}{node.var.name} = {show(node.value)}")
                stack.append((node.body, d))
            case Allocate() | AllocateConst():
                what = "alloc_buffer" if isinstance(node, Allocate) else "allocate_const"
                b = node.buffer
                shape = ", ".join(map(show, b.shape))
                lines.append(f'{pad}{b.name} = T.{what}(({shape}), "{b.dtype}", "{b.scope}")')
                stack.append((node.body, d))
            case Alias():
                lines.append(pad + _view(node.view))
                stack.append((node.body, d))
            case Pragma():
                lines.append(f"{pad}with T.attr({{{node.key!r}: {node.value}}}):")
                stack.append((node.body, d + 1))
            case Block():
                lines.append(f'{pad}with T.sblock("{node.name}"):')
                lines += ["    " * (d + 1) + line for line in _block_head(node)]
                stack.append((node.body, d + 1))
                if node.init is not None:
                    stack += [(node.init, d + 2), ("with T.init():", d + 1)]
            case Store():
                where = ", ".join(map(show, node.indices))
                lines.append(f"{pad}{node.buffer.name}[{where}] = {show(node.value)}")
            case Assert():
                lines.append(f"{pad}assert {show(node.condition)}, {node.message!r}")
            case Call():
                args = ", ".join(
                    a.name if isinstance(a, Buffer) else repr(a) if isinstance(a, str) else show(a) for a in node.args
                )
                to = "" if node.result is None else f"{show(node.result)} = "
                lines.append(f"{pad}{to}{'T.call_packed' if node.extern else 'cls'} {node.function}({args})")
            case Evaluate():
                lines.append(f"{pad}T.evaluate({show(node.value)})")
    return "\n".join(lines)


def _view(view: View) -> str:
    strides = ", ".join(map(show, view.strides))
    return f"{view.buffer!r} views {view.source.name} from {show(view.offset)} in steps of ({strides})"


def _block_head(block: Block) -> Iterator[str]:
    for i in block.iterators:
        start = "" if i.start is None else f"{show(i.start)}, "
        yield f"{i.var.name} = T.axis.{i.kind}({start}{show(i.extent)}, {show(i.value)})"
    if block.predicate is not None:
        yield f"T.where({show(block.predicate)})"
    for b in block.allocated:
        yield f'{b.name} = T.sblock_alloc_buffer(({", ".join(map(show, b.shape))}), "{b.dtype}", "{b.scope}")'
    yield from map(_view, block.views)
