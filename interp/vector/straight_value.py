"""Scalar expressions as straight-line Python (specs/interp.md, "Vector").

A float is a NumPy scalar, so that Python's operators round once in its own dtype, as the table of
`assay.semantics.scalar` does. An integer is a Python int, brought back into its dtype where a step may have left it.
A bool is whatever has that truth. What has no operator here calls the table's own entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assay.interp.vector.blocks import Unplanned
from assay.interp.vector.text import Spot, Text
from assay.semantics.dtypes import BOOL, FLOAT64, INT64, UINT64, DType
from assay.semantics.errors import Crash, Span, Trap
from assay.semantics.integers.affine import Affine, AffineQuotient, affine_forms
from assay.semantics.integers.ranges import Interval
from assay.semantics.scalar import TRANSCENDENTAL, Apply, Cast, Const, Expr, Load, Var, convert, may_trap, operation
from assay.semantics.scalar.arithmetic import divided_by_zero, shifted_too_far
from assay.semantics.scalar.transcendental import ROUTINES
from assay.semantics.walk import post_order

MOST_STEPS = 40_000

PLAIN_FLOATS = ("float16", "float32", "float64")


@dataclass(eq=False)
class CodeScope:
    """A stretch of code in which a variable has a value: where lines at its beginning go, and what forms they
    compute."""

    spot: Spot
    known: dict[Affine, str] = field(default_factory=dict)


class StraightValues:
    """Emits expressions: a local name for each step. Where elements are comes from `element`, which emits loads."""

    def __init__(self, text: Text, ranges: Mapping[Var, Interval]) -> None:
        self.text = text
        self.ranges = ranges
        self.frames = [CodeScope(text.spot())]
        self.frame_of: dict[Var, int] = {}
        self.names: dict[Var, str] = {}
        self.constants: dict[tuple[str, bytes], str] = {}
        self.steps = 0

    def element(self, node: Load, indices: Sequence[str | None]) -> str:
        """The value of a load; Crash here, for only the emitter of blocks has memory."""
        raise Crash(f"{node} has no meaning without memory")

    def failure(self) -> str:
        """What a failing operation adds to its call: where it stands, as `located` takes it."""
        return ""

    def stop(self, trap: Trap) -> str:
        """A report of which everything is known but the iteration."""
        return f"{self.text.shared(located)}({self.text.known(trap, 't')}{self.failure()})"

    @contextmanager
    def watched_over(self) -> Iterator[None]:
        """What is added within may trap, and does not say where."""
        with self.text.inside("try:"):
            yield
        self.text.add(
            f"except {self.text.shared(Trap)} as t: raise {self.text.shared(located)}(t{self.failure()}) from None"
        )

    # --- names ---------------------------------------------------------------------------------------------------

    def step(self, code: str) -> str:
        """A new local name for the value of a piece of Python."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Unplanned(f"more than {MOST_STEPS} steps")
        name = self.text.name("t")
        self.text.add(f"{name} = {code}")
        return name

    def declare(self, var: Var, name: str) -> None:
        """From here on `name` holds a variable: a new frame, until `forget`."""
        self.names[var] = name
        self.frame_of[var] = len(self.frames)
        self.frames.append(CodeScope(self.text.spot()))

    def forget(self, frames: int) -> None:
        """Leave the frames beyond the first `frames`."""
        del self.frames[frames:]

    # --- index arithmetic ----------------------------------------------------------------------------------------

    def number(self, form: Affine) -> str:
        """The value of a form: each part of it is computed where its last variable gets its value, and only once."""
        layers: dict[int, dict[Any, int]] = {}
        for atom, factor in form.terms.items():
            variables = [atom] if isinstance(atom, Var) else list(atom.form.variables)
            layers.setdefault(max(self.frame_of[v] for v in variables), {})[atom] = factor
        so_far, text = Affine({}, form.constant), str(form.constant)
        for depth in sorted(layers):
            terms = layers[depth]
            so_far = so_far.plus(Affine(terms))
            if so_far.constant == 0 and list(so_far.terms.values()) == [1] and isinstance(next(iter(terms)), Var):
                text = self.names[next(iter(terms))]
                continue
            frame = self.frames[depth]
            if so_far not in frame.known:
                parts = [self.multiple(a, k) for a, k in terms.items()]
                if text != "0":
                    parts.append(text)
                name = self.text.name("p")
                frame.spot.add(f"{name} = {' + '.join(parts)}")
                frame.known[so_far] = name
            text = frame.known[so_far]
        return text if not text.startswith("-") else f"({text})"

    def multiple(self, atom: Var | AffineQuotient, factor: int) -> str:
        """A term of an affine form as Python: a variable or a quotient, times a constant."""
        text = self.names[atom] if isinstance(atom, Var) else f"({self.number(atom.form)} // {atom.divisor})"
        return text if factor == 1 else f"{text} * {factor}" if factor >= 0 else f"{text} * ({factor})"

    # --- expressions ---------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> str:
        """The name of an expression's value; the lines that compute it are added."""
        done: dict[int, str] = {}
        forms: dict[int, Affine | None] = {}

        def parts(node: Expr) -> Sequence[Expr]:
            if self.form(node, forms) is not None:
                return ()
            return [c for c in node.children if not (isinstance(node, Load) and self.form(c, forms) is not None)]

        for node in post_order(expr, parts):
            form = self.form(node, forms)
            if form is not None:
                done[id(node)] = self.number(form)
            elif isinstance(node, Load):
                done[id(node)] = self.element(node, [done.get(id(i)) for i in node.indices])
            else:
                done[id(node)] = self.node(node, [done[id(c)] for c in node.children])
        return done[id(expr)]

    def form(self, node: Expr, forms: dict[int, Affine | None]) -> Affine | None:
        """The form of an integer expression; `forms` keeps those that are known."""
        if not node.dtype.is_integer:
            return None
        if id(node) not in forms:
            forms.update(affine_forms(node, self.ranges))
        return forms[id(node)]

    def node(self, node: Expr, args: Sequence[str]) -> str:
        """The value of one node from those of its operands."""
        match node:
            case Const():
                return self.literal(node)
            case Var():
                return self.names[node]
            case Cast():
                return self.converted(node, args[0])
            case Apply():
                return self.applied(node, args)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")

    def literal(self, node: Const) -> str:
        """A literal: of integer or bool dtype as Python writes it, of float dtype a name that is set once."""
        if node.dtype is BOOL:
            return str(bool(node.value))
        if node.dtype.is_integer:
            return f"({int(node.value)})"
        key = (node.dtype.name, node.value.tobytes())
        if key not in self.constants:
            self.constants[key] = name = self.text.name("k")
            self.frames[0].spot.add(f"{name} = {self.text.shared(node.value, f'{name}_')}")
        return self.constants[key]

    def wrapped(self, value: str, of: DType) -> str:
        """An integer, back in its dtype."""
        mask = (1 << of.bits) - 1
        if of.kind == "uint":
            return self.step(f"{value} & {mask}")
        half = 1 << (of.bits - 1)
        self.text.add(f"if not {-half} <= {value} < {half}: {value} = ({value} + {half} & {mask}) - {half}")
        return value

    def packed(self, value: str, of: DType) -> str:
        """A value as a NumPy scalar."""
        return value if of.is_float else f"{self.text.shared(of.numpy.type, f'as_{of.name}')}({value})"

    def unpacked(self, value: str, of: DType) -> str:
        """A number of dtype `of` that NumPy gave, as it is kept here: an integer as a Python int."""
        return f"int({value})" if of.is_integer else value

    def table(self, node: Apply, args: Sequence[str]) -> str:
        """What the table's own entry gives."""
        packed = (self.packed(a, c.dtype) for a, c in zip(args, node.args, strict=True))
        meaning = self.text.shared(operation(node.op).meaning, f"op_{node.op}")
        return self.step(self.unpacked(f"{meaning}({', '.join(packed)})", node.dtype))

    def applied(self, node: Apply, args: Sequence[str]) -> str:
        """Emits an operation, by the dtype of its operands."""
        of = node.args[-1].dtype
        if node.op == "select":
            return self.step(f"{args[1]} if {args[0]} else {args[2]}")
        if of.is_float:
            return self.on_floats(node, of, args)
        if of is BOOL:
            return self.on_bools(node, args)
        if of.bits < 8 or operation(node.op).result == "bits":
            return self.table(node, args)
        return self.on_integers(node, of, args)

    def on_floats(self, node: Apply, of: DType, args: Sequence[str]) -> str:
        """Emits an operation on NumPy float scalars, each step rounded once in dtype `of`."""
        match node.op:
            case "neg":
                return self.step(f"-{args[0]}")
            case op if symbol := operation(op).symbol:
                return self.step(f"{args[0]} {symbol} {args[1]}")
            case "abs" if of.name in PLAIN_FLOATS:
                return self.step(f"abs({args[0]})")
            case "min" | "max":
                a, b = args
                sign = "<" if node.op == "min" else ">"
                table = self.text.shared(operation(node.op).meaning, f"op_{node.op}")  # NaN, and zeros of both signs
                return self.step(f"{a} if {a} {sign} {b} else {b} if {b} {sign} {a} else {table}({a}, {b})")
            case op if op in ROUTINES and op in TRANSCENDENTAL:
                wide = [self.rounded(a, of, FLOAT64) for a in args]
                function = routine(op)
                result = self.step(f"{self.text.shared(function, f'fn_{op}')}({', '.join(wide)})")
                return self.rounded(result, FLOAT64, of)
            case _:
                return self.table(node, args)

    def on_bools(self, node: Apply, args: Sequence[str]) -> str:
        """Emits an operation on truth values; a result has the right truth, and may be no `bool`."""
        match node.op:
            case "and" | "min":
                return self.step(f"{args[0]} and {args[1]}")
            case "or" | "max":
                return self.step(f"{args[0]} or {args[1]}")
            case "not":
                return self.step(f"not {args[0]}")
            case "eq":
                return self.step(f"bool({args[0]}) == bool({args[1]})")
            case "ne":
                return self.step(f"bool({args[0]}) != bool({args[1]})")
            case _:
                return self.table(node, args)

    def on_integers(self, node: Apply, of: DType, args: Sequence[str]) -> str:
        """Emits an operation on Python ints, checks what may trap, and brings a result that may wrap back into its
        dtype."""
        op, row = node.op, operation(node.op)
        match op:
            case "neg":
                result = self.step(f"-{args[0]}")
            case "abs":
                result = self.step(f"abs({args[0]})")
            case "min" | "max":
                sign = "<=" if op == "min" else ">="
                return self.step(f"{args[0]} if {args[0]} {sign} {args[1]} else {args[1]}")
            case _ if row.has("divides"):
                self.check_divisor(node, args[1])
                result = self.divided(op, *args)
            case _ if row.has("shifts"):
                if may_trap(node):
                    stop = self.stop(shifted_too_far(of.bits))
                    self.text.add(f"if not 0 <= {args[1]} < {of.bits}: raise {stop}")
                result = self.step(f"{args[0]} {row.symbol} {args[1]}")
            case _ if row.symbol:
                result = self.step(f"{args[0]} {row.symbol} {args[1]}")
            case _:
                return self.table(node, args)
        return self.wrapped(result, of) if row.has("wraps") else result

    def check_divisor(self, node: Apply, divisor: str) -> None:
        """Emits the trap of a division by zero, unless the divisor is known not to be 0."""
        if may_trap(node):
            self.text.add(f"if {divisor} == 0: raise {self.stop(divided_by_zero())}")

    def divided(self, op: str, a: str, b: str) -> str:
        """Emits a division or remainder, by Python's operator where it rounds down, else by magnitudes and signs."""
        if symbol := operation(op).symbol:
            return self.step(f"{a} {symbol} {b}")
        q = self.step(f"abs({a}) // abs({b})")
        self.text.add(f"if ({a} < 0) != ({b} < 0): {q} = -{q}")
        return q if op == "truncdiv" else self.step(f"{a} - {b} * {q}")

    def converted(self, node: Cast, value: str) -> str:
        """Emits a conversion; none where the value is the same Python object in both dtypes."""
        of, to = node.arg.dtype, node.dtype
        if of is to:
            return value
        if to.is_integer and to.bits >= 8 and not of.is_float:
            if of is BOOL:
                return self.step(f"1 if {value} else 0")
            inside = to.min <= of.min and of.max <= to.max
            return value if inside else self.wrapped(self.step(value), to)
        return self.rounded(value, of, to)

    def rounded(self, value: str, of: DType, to: DType) -> str:
        """A conversion that may round or trap."""
        if of is to:
            return value
        exact = of in (INT64, UINT64)  # not every one is a float64, by way of which Python would go
        if to is FLOAT64 and of.name in (*PLAIN_FLOATS, "int8", "int16", "int32", "uint8", "uint16", "uint32"):
            return self.step(self.packed_as(value, to))
        if to.name == "float32" and not exact and (of is FLOAT64 or of.kind in ("int", "uint")) and of.bits >= 8:
            return self.step(self.packed_as(value, to))
        call = f"{self.text.shared(convert)}({self.packed(value, of)}, {self.text.shared(to, f'to_{to.name}')})"
        if not (of.is_float and to.is_integer):
            return self.step(self.unpacked(call, to))
        with self.watched_over():
            return self.step(self.unpacked(call, to))

    def packed_as(self, value: str, to: DType) -> str:
        """A value as a NumPy scalar of dtype `to`."""
        return f"{self.text.shared(to.numpy.type, f'as_{to.name}')}({value})"


def located(trap: Trap, loops: Sequence[str] = (), values: Sequence[int] = (), span: Span | None = None) -> Trap:
    """A report with the iteration, as names and values, and the place in the source."""
    return trap.but(iteration=tuple(zip(loops, map(int, values), strict=True)), where=span)


_routines: dict[str, Callable[..., Any]] = {}


def routine(op: str) -> Callable[..., Any]:
    """A transcendental function as a Python function of float64 numbers: its `Routine`, step by step."""
    if op not in _routines:
        program = ROUTINES[op]
        text = Text()
        params = [text.name("x") for _ in program.params]
        with text.inside(f"def routine({', '.join(params)}):"):
            values = StraightValues(text, {})
            for var, name in zip(program.params, params, strict=True):
                values.declare(var, name)
            for var, value in program.lets:
                values.declare(var, values.value(value))
            text.add(f"return {values.value(program.result)}")
        _routines[op] = text.compiled("routine", op)
    return _routines[op]
