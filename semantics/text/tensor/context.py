"""What the parts of a reader of tensor functions share (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from assay.semantics.dtypes import BOOL, INT32
from assay.semantics.scalar import Expr, Var, apply
from assay.semantics.tensor import Buffer
from assay.semantics.text.scalars import ScalarParser
from assay.semantics.text.scope import Scope
from assay.semantics.text.source import Source
from assay.semantics.text.tensor.scope import BlockHead, FunctionHead, Meaning


class FunctionContext:
    """The text, the names in scope, and what a function and its blocks have said so far; reads single words."""

    def __init__(self, source: Source, modules: Collection[str]) -> None:
        self.source = source
        self.names = Scope[Meaning]()
        self.scalars = ScalarParser(source, self.names, INT32, modules)
        self.function = FunctionHead()
        self.heads: list[BlockHead] = []
        self.loops: dict[Var, tuple[Expr | None, Expr]] = {}
        """The start and the extent of the loops in scope."""

    def member(self, node: ast.AST) -> str | None:
        """`name` where `node` calls `T.name`, or is `T.name`."""
        target = node.func if isinstance(node, ast.Call) else node
        return self.scalars.module_member(target) if isinstance(target, ast.expr) else None

    def arguments(self, node: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
        """The arguments of a call by name."""
        found: dict[str, ast.expr] = {}
        if len(node.args) > len(names):
            raise self.source.error(node, f"at most {len(names)} arguments here: {', '.join(names)}", "text.C5")
        for name, value in [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]:
            if name is None or isinstance(value, ast.Starred) or name in found:
                raise self.source.error(value, "each argument stands once, and by itself", "text.C5")
            found[name] = value
        return found

    def integer(self, node: ast.expr) -> Expr:
        """Reads an integer expression; else Invalid (text.C6)."""
        found = self.scalars.expr(node)
        if not found.dtype.is_integer:
            raise self.source.error(node, f"an integer expected, this is {found.dtype}", "text.C6")
        return found

    def string(self, node: ast.expr) -> str:
        """Reads a string literal; else Invalid (text.C4)."""
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            raise self.source.error(node, "a string expected", "text.C4")
        return node.value

    def truth(self, node: ast.expr) -> bool:
        """Reads True or False; else Invalid (text.C4)."""
        if not (isinstance(node, ast.Constant) and isinstance(node.value, bool)):
            raise self.source.error(node, "True or False expected", "text.C4")
        return node.value

    def condition(self, node: ast.expr) -> Expr:
        """Reads a condition: a number holds where it is not 0."""
        found = self.scalars.expr(node)
        return found if found.dtype is BOOL else apply("ne", found, 0)

    def data(self, node: ast.expr) -> Any:
        """A literal of an attribute: numbers, strings, lists, dictionaries, and scalars with a dtype."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Name() if isinstance(self.names.get(node.id), Buffer):
                return self.names[node.id]
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(self.data(e) for e in elements)
            case ast.Dict():
                if any(k is None for k in node.keys):
                    raise self.source.error(node, "an attribute is a literal", "text.C4")
                return {
                    self.data(k): self.data(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None
                }
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan" as number)]):
                return float(number)
            case ast.Call() if self.member(node) == "target" and len(node.args) == 1:
                return {"T.target": self.data(node.args[0])}
            case ast.Subscript() if ast.unparse(node).startswith("metadata["):
                raise self.source.unsupported(node, "metadata is not handled: print with show_meta=False", "text.C7")
            case _:
                return self.scalars.expr(node)

    def dictionary(self, node: ast.Call) -> dict[str, Any]:
        """The one dictionary that a call is given."""
        if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Dict):
            raise self.source.error(node, "one dictionary expected", "text.C5")
        found = self.data(node.args[0])
        if not all(isinstance(k, str) for k in found):
            raise self.source.error(node, "the keys of attributes are strings", "text.C4")
        return dict(found)
