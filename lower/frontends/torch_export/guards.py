"""What a program of torch.export was exported for: guards on the sizes of its inputs (specs/lower.md, "torch.export").

PyTorch writes a guard as code, `L['x'].size()[0] > L['y'].size()[0]`, and reads it by running it. Here it is parsed,
and nothing but sizes, numbers and these words may stand in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from assay.lower.frontends.torch_export.archive import broken
from assay.lower.frontends.torch_export.node import AtenNode, aten_type
from assay.lower.frontends.torch_export.sizes import LONGEST, parts_of
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.walk import post_order

BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.FloorDiv: "floor_divide", ast.Mod: "floor_mod",
}  # fmt: skip
COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "equal", ast.NotEq: "not_equal", ast.Gt: "greater", ast.Lt: "less", ast.GtE: "greater_equal",
    ast.LtE: "less_equal",
}  # fmt: skip
CALLED = {"sym_max": "maximum", "sym_min": "minimum", "max": "maximum", "min": "minimum", "Max": "maximum",
          "Min": "minimum", "PythonMod": "floor_mod", "Mod": "floor_mod", "FloorDiv": "floor_divide"}  # fmt: skip


def guarded(node: AtenNode, text: object, inputs: Mapping[str, Expr]) -> Expr:
    """Whether a guard holds, a bool, for inputs by name: tensors, and sizes that are inputs as scalars of int64.
    Invalid (`torch_export.C1`): it is no expression; Unsupported (`torch_export.C6`): another word stands in it."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise broken(f"a guard is {str(text)[:80]!r}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise broken(f"a guard is {text[:80]!r}") from None
    made: dict[int, Expr] = {}
    scaled: dict[int, tuple[Expr, Fraction]] = {}
    """Floats: sizes times numbers."""

    def met(op: str, parts: Sequence[Expr]) -> Expr:
        whole, *rest = parts
        for part in rest:
            if op == "floor_mod":
                under = node.call("multiply", node.call("floor_divide", whole, part), part)
                whole = node.call("subtract", whole, under)
            else:
                whole = node.call(op, whole, part)
        return whole

    for part in post_order(tree, _children):
        found: Expr | None
        match part:
            case ast.Constant(value=float(value)):
                scaled[id(part)] = node.constant(1, INT64), Fraction(value)
                continue
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sym_float"), args=[x]) if id(x) in made:
                scaled[id(part)] = made[id(x)], Fraction(1)
                continue
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if id(left) in scaled and id(right) in scaled:
                (a, one), (b, other) = scaled[id(left)], scaled[id(right)]
                scaled[id(part)] = met("multiply", [a, b]), one * other
                continue
            case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr="trunc" | "floor"), args=[x]) if (
                id(x) in scaled
            ):
                size, by = scaled[id(x)]
                size = met("multiply", [size, node.constant(by.numerator, INT64)])
                found = met("floor_divide", [size, node.constant(parts_of(by), INT64)])
            case _ if any(id(p) in scaled for p in _children(part)):
                found = None
            case ast.Constant(value=int(value)):
                found = node.constant(int(value), INT64)
            case ast.BoolOp(op=op, values=values):
                found = met("logical_and" if isinstance(op, ast.And) else "logical_or", [made[id(v)] for v in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found = node.call("logical_not", made[id(operand)])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = node.call("negative", made[id(operand)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                found = met(BINARY[type(op)], [made[id(left)], made[id(right)]])
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(o) in COMPARED for o in ops):
                sides = [made[id(n)] for n in (left, *others)]
                pairs = zip(ops, sides, sides[1:], strict=False)
                found = met("logical_and", [node.call(COMPARED[type(o)], a, b) for o, a, b in pairs])
            case (
                ast.Call(func=ast.Name(id=name), args=[_, _, *_] as args)
                | ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[_, _, *_] as args)
            ) if name in CALLED:
                found = met(CALLED[name], [made[id(a)] for a in args])
            case _:
                found = _size(node, part, inputs)
        if found is None:
            raise Unsupported(f"the guard {text[:120]} is not handled", label="torch_export.C6")
        made[id(part)] = found
    whole = made[id(tree)]
    if aten_type(whole).dtype is not BOOL:
        raise broken(f"a guard is {text[:80]!r}")
    return whole


def _children(node: ast.expr) -> Sequence[ast.expr]:
    match node:
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(operand=operand):
            return (operand,)
        case ast.BinOp(left=left, right=right):
            return (left, right)
        case ast.Compare(left=left, comparators=others):
            return (left, *others)
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="torch" | "math")), args=args):
            return args
    return ()


def _size(node: AtenNode, at: ast.expr, inputs: Mapping[str, Expr]) -> Expr | None:
    """`L['x'].size()[0]`, or `L['n']` of an input that is a size."""
    match at:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=of, attr="size"), args=[]) | ast.Attribute(value=of, attr="shape"),
            slice=ast.Constant(value=int(axis)),
        ):
            x = inputs.get(_name(of))
            if x is None or not 0 <= axis < aten_type(x).ndim:
                return None
            return node.call("take", node.call("shape_of", x), node.constant(axis, INT64), axis=0)
    found = inputs.get(_name(at))
    return None if found is None or aten_type(found).ndim or aten_type(found).dtype is not INT64 else found


def _name(node: ast.expr) -> str:
    """The name that PyTorch gives an input: `L['x'][0]['key']` is x_0_key; "" for what is no input."""
    keys: list[str] = []
    while True:
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=key)):
                keys.append(str(key))
                node = value
            case ast.Attribute(value=value, attr=key):
                keys.append(key)
                node = value
            case ast.Name(id="L"):
                return plain_name("_".join(reversed(keys)))
            case _:
                return ""


def plain_name(name: str) -> str:
    """A name in which all that is no letter and no digit is a line, and letters are small."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower())
