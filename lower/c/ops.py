"""What each scalar operation is in C (specs/lower.md, "c").

Operands come as `Code`, the checks of traps are written already. The C type of a scalar is int for bool; float for
floats of 16 bits and less, whose operations round their result; int8_t or uint8_t for integers of less; int32_t for an
int64 whose value fits, as `assay.lower.c.range` shows; else the type of the same name. No text here has undefined
behaviour, and none depends on the width of int.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from assay.lower.c.helpers import Library
from assay.lower.c.narrow import NARROW, SMALL, key_of
from assay.lower.c.range import Known, never_overflows
from assay.lower.c.tables import STORAGE, float_literal, integer_literal
from assay.semantics.dtypes import BOOL, INT64, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar import TRANSCENDENTAL, Apply, Cast, Const, operation
from assay.semantics.scalar.arithmetic import FLOAT_OF

LIBM = {"sqrt": "sqrt", "rint": "rint", "floor": "floor", "ceil": "ceil", "abs": "fabs", "fmod": "fmod", "fma": "fma"}
SHORT = {"float16": "f16", "bfloat16": "bf16", **{name: key_of(of) for name, of in NARROW.items()}}
"""The floats that are computed in float, and rounded; what their helpers are called."""
CODED = {**SHORT, **{name: key_of(of) for name, of in SMALL.items()}}
"""The dtypes whose elements in memory are no C numbers, but bits of them: what reads and writes them."""
FAR = ("bfloat16", "float8_e8m0fnu")
"""Short floats that reach further than float has all whole numbers."""
SIGNED = ("int", "int32_t", "int64_t", "float", "double")
"""Types of which an expression is never taken for another one: no cast is needed around it."""


LOW, SUM, PRODUCT, UNARY, ATOM = range(5)
"""How tightly the outermost operation of a text binds."""


@dataclass(frozen=True)
class Code:
    """C text of a value, its C type, how tightly its outermost operation binds, and how many operations it nests."""

    text: str
    type: str
    level: int = ATOM
    depth: int = 0

    def at(self, level: int) -> str:
        """The text as an operand that must bind at least so tightly."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def operand(self) -> str:
        """The text as an operand of a unary operator, in parentheses if it binds less tightly."""
        return self.at(UNARY)


def scalar_type(of: DType, known: Known | None) -> str:
    """The C type in which a scalar of that dtype is computed."""
    if of is BOOL:
        return "int"
    if of.name in SHORT:
        return "float"
    if of.name in SMALL:
        return "int8_t" if of.kind == "int" else "uint8_t"
    if of is INT64 and known is not None and -(2**31) <= known.low and known.high < 2**31:
        return "int32_t"
    return STORAGE[of.name]


def converted(code: Code, type_: str) -> Code:
    """The value in another C type."""
    if code.type == type_:
        return code
    return Code(f"({type_}){code.operand}", type_, UNARY, code.depth + 1)


def arithmetic(op: str, a: Code, b: Code, type_: str) -> Code:
    """a op b for +, -, * and /, in the order that the parentheses say: C's operators take their left operand first."""
    level = SUM if op in ("add", "sub") else PRODUCT
    return Code(f"{a.at(level)} {operation(op).symbol} {b.at(level + 1)}", type_, level)


def integer_constant(value: int, of: DType, type_: str) -> Code:
    """An integer literal of a dtype, held in the C type `type_`."""
    return Code(integer_literal(value, of), type_, level=ATOM if value >= 0 else UNARY)


def float_constant(library: Library, value: float, type_: str) -> Code:
    """A constant of type float or double; infinities and NaN by their bits, so that no header is needed."""
    single = type_ == "float"
    if np.isfinite(value):
        text = float_literal(value, "f" if single else "")
        return Code(text, type_, level=UNARY if text.startswith("-") else ATOM)
    if single:
        bits = "0x7fc00000u" if value != value else "0x7f800000u" if value > 0 else "0xff800000u"
        return Code(f"{library.use('f32')}({bits})", type_)
    high = "7ff8" if value != value else "7ff0" if value > 0 else "fff0"
    return Code(f"{library.use('f64')}(UINT64_C(0x{high}000000000000))", type_)


def constant_operand(node: Apply) -> tuple[int, float] | None:
    """The place and value of an operand of min or max that is a constant and a number, not NaN."""
    for i, arg in enumerate(node.args):
        if isinstance(arg, Const) and arg.dtype.is_float and not np.isnan(arg.value):
            return i, float(arg.value)
    return None


def cast_bounds(to: DType) -> tuple[str, str]:
    """The comparisons that a double passes exactly if it truncates to a number of `to`."""
    low, high = float(int(to.min)), float(int(to.max) + 1)
    below = f">= {float_literal(low, '')}" if to is INT64 else f"> {float_literal(low - 1.0, '')}"
    return below, f"< {float_literal(high, '')}"


@dataclass(frozen=True)
class Ops:
    """The operations, over the helpers of one model. `transcendental` gives the C function of one, by dtype."""

    library: Library
    transcendental: Callable[[str, DType], str]

    def cast(self, node: Cast, arg: Code, type_: str) -> Code:
        """A conversion of value; a float to integer cast has been checked."""
        source, to = node.arg.dtype, node.dtype
        if to is BOOL:
            zero = "0" if not source.is_float else "0.0f" if arg.type == "float" else "0.0"
            return Code(f"{arg.operand} != {zero}", "int", LOW, arg.depth + 1)
        if to.is_integer and source.is_float:
            width = max(to.bits, 8)
            helper = f"{'i' if to.kind == 'int' else 'u'}{width}_of_{'f64' if arg.type == 'double' else 'f32'}"
            return Code(f"{self.library.use(helper)}({arg.text})", type_, depth=arg.depth + 1)
        if to.kind == "uint" and source.kind == "int" and source.bits < to.bits:
            # gcc takes a signed number made wider and unsigned apart again, and warns of what it finds
            width = max(to.bits, 32)
            same = converted(arg, f"int{width}_t")
            wide = Code(f"{self.library.use(f'u{width}_of_i{width}')}({same.text})", f"uint{width}_t", depth=1)
            return self.within(converted(wide, type_), to)
        if to.name not in SHORT:
            return self.within(converted(arg, type_), to) if to.is_integer else converted(arg, type_)
        if arg.type == "double":
            arg = Code(f"{self.library.use('odd_f64')}({arg.text})", "float", depth=arg.depth + 1)
        elif arg.type != "float" and to.name in FAR and source.bits > 16:
            kind = "u64" if source.kind == "uint" else "i64"
            wide = converted(arg, "uint64_t" if source.kind == "uint" else "int64_t")
            arg = Code(f"{self.library.use(f'odd_{kind}')}({wide.text})", "float", depth=arg.depth + 1)
        else:
            arg = converted(arg, "float")  # an integer that float must round is beyond float16 anyway
        return self.rounded(arg, to)

    def within(self, code: Code, to: DType) -> Code:
        """A whole number of less than 8 bits within its range, modulo its width; itself for other dtypes."""
        if not to.is_integer or to.bits >= 8:
            return code
        if to.kind == "int":
            return Code(f"{self.library.use(f'wrap_i{to.bits}')}({code.text})", code.type, depth=code.depth + 1)
        return Code(f"({code.type})({code.operand} & {(1 << to.bits) - 1}u)", code.type, UNARY, code.depth + 1)

    def rounded(self, code: Code, to: DType) -> Code:
        """A float rounded to float16 or bfloat16; itself for other dtypes."""
        if to.name not in SHORT:
            return code
        return Code(f"{self.library.use(f'round_{SHORT[to.name]}')}({code.text})", "float", depth=code.depth + 1)

    def apply(self, node: Apply, args: list[Code], type_: str, known: Mapping[int, Known]) -> Code:
        """The operation on operands of the types that `scalar_type` gives."""
        op, row = node.op, operation(node.op)
        if op == "select":
            text = f"{args[0].operand} ? {converted(args[1], type_).operand} : {converted(args[2], type_).operand}"
            return Code(text, type_, LOW) if type_ in SIGNED else Code(f"({type_})({text})", type_, UNARY)
        if row.has("compares") and node.args[0].dtype is BOOL and op not in ("eq", "ne"):
            a, b = (x.at(ATOM) for x in (args if op in ("le", "lt") else reversed(args)))
            return Code(f"(!{a}) {'&&' if op in ('lt', 'gt') else '||'} {b}", "int", LOW)
        if row.has("compares"):
            return Code(f"{args[0].at(SUM)} {row.symbol} {args[1].at(SUM)}", "int", LOW)
        if node.dtype is BOOL:
            if op == "not":
                return Code(f"!{args[0].at(ATOM)}", "int", LOW)
            return Code(f"{args[0].operand} {'&&' if op in ('and', 'min') else '||'} {args[1].operand}", "int", LOW)
        if op == "bits_of" or op in FLOAT_OF:
            return self._reinterpreted(node, args[0])
        if node.dtype.is_float:
            return self._float(node, args, type_)
        return self.within(self._integer(node, args, type_, known), node.dtype)

    def _reinterpreted(self, node: Apply, arg: Code) -> Code:
        """The bits of a float as an integer of its width, or the other way round."""
        narrow, bits = node.dtype if node.op in FLOAT_OF else node.args[0].dtype, node.dtype.bits
        if bits == 64:
            whole = converted(arg, "int64_t") if node.op in FLOAT_OF else arg
            return Code(f"{self.library.use(node.op)}({whole.text})", "int64_t" if node.op == "bits_of" else "double")
        if node.op in FLOAT_OF:
            helper = self.library.use("f32" if bits == 32 else f"load_{SHORT[narrow.name]}")
            return Code(f"{helper}({converted(arg, f'uint{max(bits, 8)}_t').text})", "float")
        helper = self.library.use("bits_f32" if bits == 32 else f"store_{SHORT[narrow.name]}")
        if bits < 8:
            return Code(f"{self.library.use(f'load_i{bits}')}({helper}({arg.text}))", "int8_t")
        return Code(f"(int{bits}_t){helper}({arg.text})", f"int{bits}_t", UNARY)

    # --- floats --------------------------------------------------------------------------------------------------

    def _float(self, node: Apply, args: list[Code], type_: str) -> Code:
        op, of = node.op, node.dtype
        if operation(op).symbol and op != "neg":
            if op == "sub" and args[0].text in ("0.0", "0.0f"):
                # gcc 12 takes 0.0 - x for -x where it sees that x is no -0.0, such as a number made of an integer: for
                # x = 0.0 that is the wrong zero. It does not look through a function.
                helper = self.library.use(f"sub_{'f32' if type_ == 'float' else 'f64'}")
                return self.rounded(Code(f"{helper}({args[0].text}, {args[1].text})", type_), of)
            return self.rounded(arithmetic(op, args[0], args[1], type_), of)
        if op == "neg":
            return Code(f"-{args[0].at(ATOM)}", type_, UNARY)
        if op in ("min", "max"):
            return self._extreme(node, args, type_)
        if op == "fma" and of.name in SHORT:
            name = self.library.math("fma")
            wide = Code(f"{name}({', '.join(converted(a, 'double').text for a in args)})", "double")
            return self.rounded(Code(f"{self.library.use('odd_f64')}({wide.text})", "float"), of)
        if op in LIBM:
            name = self.library.math(LIBM[op] + ("f" if type_ == "float" else ""))
            code = Code(f"{name}({', '.join(a.text for a in args)})", type_)
            return self.rounded(code, of) if op == "sqrt" else code
        if op in TRANSCENDENTAL:
            return Code(f"{self.transcendental(op, of)}({', '.join(a.text for a in args)})", type_)
        raise Crash(f"no C for {op} on {of}")

    def _extreme(self, node: Apply, args: list[Code], type_: str) -> Code:
        """min and max: NaN if either is, and -0 below +0. Against a constant one comparison is enough."""
        found = constant_operand(node)
        if found is None:
            helper = self.library.use(f"{node.op}_{'f32' if type_ == 'float' else 'f64'}")
            return Code(f"{helper}({args[0].text}, {args[1].text})", type_)
        at, value = found
        c, x = args[at].operand, args[1 - at].operand
        sign = "<" if node.op == "max" else ">"
        # zeros are equal: the constant is taken then if it is the larger (the smaller) zero, and x if not
        if value == 0.0 and bool(np.signbit(value)) == (node.op == "min"):
            sign += "="
        return Code(f"({x} {sign} {c}) ? {c} : {x}", type_, LOW)

    # --- integers ------------------------------------------------------------------------------------------------

    def _integer(self, node: Apply, args: list[Code], type_: str, known: Mapping[int, Known]) -> Code:
        op, of, row = node.op, node.dtype, operation(node.op)
        ks = [known[id(a)] for a in node.args]
        signed = of.kind == "int"
        wide = of.bits == 64 and not (type_ == "int32_t" and all(a.type == "int32_t" for a in args))
        if row.has("shifts") and of.bits == 64 and ks[1].high >= 32:
            wide = True
        width = 64 if wide else 32
        compute = f"{'' if signed else 'u'}int{width}_t"
        first = converted(args[0], compute) if wide else args[0]
        last = args[-1]

        def done(code: Code) -> Code:
            # C computes in `compute`, or in int where that is wider than the operands; and gcc warns of some unsigned
            # results whose operands were signed once
            return code if compute == type_ and signed else Code(f"({type_})({code.text})", type_, UNARY)

        def plainly(sign: str) -> Code:
            return done(Code(f"{first.operand} {sign} {last.operand}", type_, LOW))

        def wrapped(sign: str) -> Code:
            a = f"(uint{width}_t)0" if op == "neg" else converted(args[0], f"uint{width}_t").operand
            b = last.operand if op == "shl" else converted(last, f"uint{width}_t").operand
            return Code(f"({type_})({a} {sign} {b})", type_, UNARY)

        def through(name: str) -> Code:
            words = [converted(a, f"uint{width}_t").text for a in args]
            return Code(f"({type_}){self.library.use(f'{name}_u{width}')}({', '.join(words)})", type_, UNARY)

        def call(name: str) -> Code:
            helper = self.library.use(f"{name}_{'i' if signed else 'u'}{width}")
            words = [converted(a, compute).text for a in args]
            return converted(Code(f"{helper}({', '.join(words)})", compute), type_)

        if op == "abs":
            return converted(args[0], type_) if ks[0].low >= 0 else call("abs")
        if op in ("min", "max"):
            return call(op)
        if row.has("divides"):
            alike = ks[1].low > 0 and (ks[0].low >= 0 or op.startswith("trunc"))
            if alike or (not signed and ks[1].low > 0):
                return plainly("/" if op.endswith("div") else "%")
            return call(op if signed else op[-3:])
        if row.has("shifts"):
            sure = ks[1].low >= 0 and ks[1].high < of.bits
            if op == "shr":
                return plainly(">>") if sure and ks[0].low >= 0 else call("shr")
            return wrapped("<<") if sure else through("shl")
        if row.has("wraps"):
            if not signed or not never_overflows(node, known):
                return wrapped(row.symbol)
            if op == "neg":
                return done(Code(f"-{first.at(ATOM)}", type_, UNARY))
            return done(arithmetic(op, first, last, type_))
        if row.symbol:
            return plainly(row.symbol)
        raise Crash(f"no C for {op} on {of}")
