"""Sizes of a program of torch.export: numbers, symbols, and what is computed of them (specs/lower.md, "torch.export").

PyTorch writes an expression as SymPy prints it, `Mul(Integer(2), Symbol('s77', positive=True, integer=True))`, and
reads it by running it as code. Here it is parsed, and nothing but these words may stand in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from assay.lower.frontends.torch_export.archive import Json, broken
from assay.semantics import scalar
from assay.semantics.errors import Unsupported
from assay.semantics.ops.sizes import floor_div
from assay.semantics.scalar import Dim, Var as Symbol, simplify
from assay.semantics.walk import post_order

LONGEST = 4096
"""Characters of an expression at most."""
MOST_PARTS = 1 << 10
"""A factor for a size that is a symbol is a fraction with a denominator of at most this."""


def _total(args: Sequence[Dim]) -> Dim:
    made: Dim = args[0]
    for a in args[1:]:
        made = simplify(made + a)
    return made


def _product(args: Sequence[Dim]) -> Dim:
    made: Dim = args[0]
    for a in args[1:]:
        made = simplify(made * a)
    return made


def _power(args: Sequence[Dim]) -> Dim:
    base, exponent = args
    if not isinstance(exponent, int) or not 0 <= exponent <= 8:
        raise Unsupported(f"a size with the power {exponent}", label="torch_export.C6")
    return _product([1, *[base] * exponent])


def floored_size(args: Sequence[Dim]) -> Dim:
    """a // b, rounded down."""
    a, b = args
    if isinstance(b, int):
        if b == 0:
            raise broken("a size is divided by 0")
        return a // b if isinstance(a, int) else simplify(floor_div(a, b))
    return simplify(scalar.as_expr(a) // b)


def remainder(args: Sequence[Dim]) -> Dim:
    """a % b with the sign of b."""
    a, b = args
    if isinstance(a, int) and isinstance(b, int) and b:
        return a % b
    return simplify(a - floored_size(args) * b)


def larger(args: Sequence[Dim]) -> Dim:
    """The largest."""
    return _extreme(args, max, "max")


def smaller(args: Sequence[Dim]) -> Dim:
    """The smallest."""
    return _extreme(args, min, "min")


def _extreme(args: Sequence[Dim], of: Callable[..., int], name: str) -> Dim:
    made: Dim = args[0]
    for a in args[1:]:
        made = of(made, a) if isinstance(made, int) and isinstance(a, int) else scalar.apply(name, made, a)
    return made


FUNCTIONS: Mapping[str, tuple[Callable[[Sequence[Dim]], Dim], int]] = {
    "Add": (_total, 0), "Mul": (_product, 0), "Pow": (_power, 2), "PowByNatural": (_power, 2),
    "FloorDiv": (floored_size, 2), "CleanDiv": (floored_size, 2), "Mod": (remainder, 2),
    "PythonMod": (remainder, 2), "Max": (larger, 0), "Min": (smaller, 0),
}  # fmt: skip
"""Functions of sizes, and how many operands each takes; 0: any."""
TRUTHS = ("Equality", "Eq", "Unequality", "Ne", "GreaterThan", "Ge", "LessThan", "Le", "StrictGreaterThan", "Gt",
          "StrictLessThan", "Lt", "Not", "And", "Or")  # fmt: skip
FLOATS = (
    "Float", "Rational", "ToFloat", "FloatTrueDiv", "IntTrueDiv", "FloatPow", "TruncToInt", "CeilToInt", "RoundToInt",
    "FloorToInt", "OpaqueUnaryFn_sqrt", "Identity", "Where", "Piecewise", "ExprCondPair",
)  # fmt: skip
"""Words that may stand in an expression that no size is read from: what nodes compute is followed by the nodes."""


def parsed(text: object) -> ast.expr:
    """An expression of known words. Invalid (`torch_export.C1`): there is another word in it."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise broken(f"an expression of sizes is {str(text)[:80]!r}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise broken(f"an expression of sizes is {text[:80]!r}") from None
    for node in post_order(tree, _parts):
        match node:
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) if name.isidentifier():
                pass
            case ast.Call(func=ast.Name(id="Integer" | "Float" | "Rational")):
                if not all(_number(a) for a in node.args) or any(k.arg != "precision" for k in node.keywords):
                    raise broken(f"an expression of sizes is {text[:80]!r}")
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in (*FUNCTIONS, *TRUTHS, *FLOATS):
                pass
            case ast.Name(id=name) if name in ("int_oo", "true", "false") or name[:1] in "suz" and name[1:].isdigit():
                pass
            case ast.Constant(value=bool() | int()):
                pass
            case _:
                raise broken(f"an expression of sizes is {text[:80]!r}")
    return tree


def _number(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return True
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.Constant(value=str(text)):  # Float('0.125', precision=53)
            return text.replace(".", "").replace("e", "").replace("-", "").replace("+", "").isdigit()
    return False


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return () if node.func.id in ("Symbol", "Integer", "Float", "Rational") else node.args
    return ()


def symbol_of(size: Json) -> str:
    """The name of the symbol that a size is; "" where it is something else."""
    return _symbol(_expression(size))


def multiple_of(size: Json) -> tuple[int, str] | None:
    """The number and the name of the symbol that a size is the product of, if it is one."""
    match _expression(size):
        case ast.Call(func=ast.Name(id="Mul"), args=[ast.Call(func=ast.Name(id="Integer"), args=[number]), part]):
            name, factor = _symbol(part), ast.literal_eval(number)
            return (factor, name) if name and factor > 1 else None
    return None


def _expression(size: Json) -> ast.expr | None:
    expr = size.get("as_expr")
    return parsed(expr.get("expr_str")) if isinstance(expr, dict) else None


def _symbol(node: ast.expr | None) -> str:
    match node:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) | ast.Name(id=name):
            return name
    return ""


@dataclass(frozen=True)
class ScaledSize:
    """A size times a number, a float: as an image is made larger by a factor."""

    size: Dim
    by: Fraction

    def times(self, other: ScaledSize) -> ScaledSize:
        """The product."""
        return ScaledSize(_product([self.size, other.size]), self.by * other.by)

    def floored(self) -> Dim:
        """The whole number below. Unsupported (`torch_export.C6`): the factor has so many bits that PyTorch may round
        the product before."""
        return floored_size([_product([self.size, self.by.numerator]), parts_of(self.by)])


def parts_of(factor: Fraction) -> int:
    """The parts of a factor that sizes are multiplied by."""
    if not 0 < factor.denominator <= MOST_PARTS or factor < 0:
        raise Unsupported(f"a size times {float(factor)} is not handled", label="torch_export.C6")
    return factor.denominator


def _scaled(name: str, args: Sequence[Dim | ScaledSize]) -> Dim | ScaledSize | None:
    """What a function of floats gives; None for another one."""
    match name, args:
        case "ToFloat", [int() | scalar.Expr() as size]:
            return ScaledSize(size, Fraction(1))
        case "TruncToInt" | "FloorToInt", [ScaledSize() as whole]:
            return whole.floored()
        case "Mul", [ScaledSize() as first, *rest] if all(isinstance(r, ScaledSize) for r in rest):
            for r in rest:
                assert isinstance(r, ScaledSize)
                first = first.times(r)
            return first
    return None


class Sizes:
    """The sizes of a program by their expressions; symbols are made when they first occur. Some are `given`."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self.given = given
        self.symbols: dict[str, Symbol] = {}
        self.known: dict[str, Dim] = {}
        """Symbols that stand for something that is known here: `s0` for a size of ours."""

    def own(self, name: str) -> Dim:
        """A size of ours: a number if it is given, else a symbol."""
        return self.given[name] if name in self.given else Symbol(name)

    def symbol(self, name: str) -> Dim:
        """What a symbol of PyTorch is here."""
        if name in self.known or name in self.given:
            return self.known[name] if name in self.known else self.given[name]
        return self.symbols.setdefault(name, Symbol(name))

    def size(self, of: Json) -> Dim:
        """A size as the schema says it: {"as_int": 3} or {"as_expr": ...}."""
        if isinstance(found := of.get("as_int"), int):
            return found
        expr = of.get("as_expr")
        if not isinstance(expr, dict):
            raise broken(f"a size is {str(of)[:80]}")
        return self.dim(expr.get("expr_str"))

    def dim(self, text: object) -> Dim:
        """An expression as a dim. Unsupported (`torch_export.C6`): it is none."""
        tree = parsed(text)
        made: dict[int, Dim | ScaledSize] = {}
        for node in post_order(tree, _parts):
            match node:
                case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
                    made[id(node)] = self.symbol(name)
                case ast.Call(func=ast.Name(id="Integer"), args=[number]):
                    made[id(node)] = int(ast.literal_eval(number))
                case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=float() | str() as number)]):
                    made[id(node)] = ScaledSize(1, Fraction(float(number)))
                case ast.Call(func=ast.Name(id=name), args=args) if name not in ("Float", "Rational"):
                    operands = [made[id(a)] for a in args]
                    found = _scaled(name, operands)
                    made[id(node)] = self._called(name, operands, text) if found is None else found
                case ast.Name(id=name):
                    made[id(node)] = self.symbol(name)
                case ast.Constant(value=int(value)):
                    made[id(node)] = value
                case _:
                    raise Unsupported(f"the size {str(text)[:80]} is not handled", label="torch_export.C6")
        whole = made[id(tree)]
        if isinstance(whole, ScaledSize):
            raise Unsupported(f"the size {str(text)[:80]} is not handled", label="torch_export.C6")
        return whole

    def _called(self, name: str, operands: Sequence[Dim | ScaledSize], text: object) -> Dim:
        """What a function of sizes gives."""
        sizes = [d for d in operands if not isinstance(d, ScaledSize)]
        if name not in FUNCTIONS or len(sizes) < len(operands):
            raise Unsupported(f"the size {str(text)[:80]} is not handled", label="torch_export.C6")
        function, count = FUNCTIONS[name]
        if not sizes or count not in (0, len(sizes)):
            raise broken(f"an expression of sizes is {str(text)[:80]!r}")
        return function(sizes)
