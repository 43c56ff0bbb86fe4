"""Scalar expressions as C (specs/lower.md, "c").

A node becomes text inside its user's text, or a `const` local where it is used twice, stands too deep or must be
looked at by a check. Checks stand before the statement, in the order of evaluation: select and the logical operations
are strict, so nothing is lost by that. A check that `assay.lower.c.range` shows to be needless is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from assay.lower.c.names import ScopeNames
from assay.lower.c.ops import (
    CODED,
    LOW,
    PRODUCT,
    SUM,
    UNARY,
    Code,
    Ops,
    cast_bounds,
    constant_operand,
    converted,
    float_constant,
    integer_constant,
    scalar_type,
)
from assay.lower.c.range import Known, Ranges, always_traps, extent_of
from assay.lower.c.tables import STORAGE, integer_literal
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.scalar import (
    TRANSCENDENTAL,
    Apply,
    Cast,
    Const,
    Dim,
    Expr,
    Interner,
    Load,
    Var,
    convert as cast_value,
    operation,
    show,
)
from assay.semantics.tensor import Buffer
from assay.semantics.walk import post_order, rewrite, scoped

DEEPEST = 12
"""Operations within one C expression; a deeper one is cut by a local."""


RowKey = tuple[Buffer, tuple[int, ...]]
"""A row of a buffer: the numbers of its leading indices."""


@dataclass(eq=False)
class BufferPlace:
    """How a buffer is reached: the text of a pointer, or of a local variable that holds its one element."""

    text: str
    scalar: bool = False
    constant: bool = False
    """Whether it may not be stored to."""
    bytes: int = 1
    """Of how many bytes the numbers are, where it is their bytes."""
    used: bool = False
    read: bool = False


@dataclass(eq=False)
class ExprWriter:
    """Prints expressions; what must stand before goes to `line`. `trap` gives the statement for a kind of trap."""

    ops: Ops
    names: ScopeNames
    ranges: Ranges
    line: Callable[[str], None]
    trap: Callable[[str], str]
    variables: dict[Var, Code] = field(default_factory=dict)
    buffers: dict[Buffer, BufferPlace] = field(default_factory=dict)
    literals: dict[Var, Const] = field(default_factory=dict)
    """Variables in scope that stand for a constant."""
    sizes: dict[Expr, Code] = field(default_factory=dict)
    """The dims of buffers that are no variable by themselves, each a local."""
    used: set[str] = field(default_factory=set)
    """The names of variables that some text uses."""
    rows: dict[RowKey, Code] = field(default_factory=dict)
    """Where rows begin that were said before a loop."""
    flat: dict[Var, tuple[int, Code]] = field(default_factory=dict)
    """The innermost variable of loops that are one: how many they are, and the place that stands for all of them."""
    number: Interner = field(default_factory=Interner)

    def fold(self, root: Expr) -> Expr:
        """`root` with everything constant computed by the scalar table itself, but what libm may compute."""

        def change(node: Expr) -> Expr:
            args = [c.value for c in node.children if isinstance(c, Const)]
            if isinstance(node, Var):
                return self.literals.get(node, node)
            if not isinstance(node, (Apply, Cast)) or len(args) < len(node.children):
                return node
            if isinstance(node, Apply) and node.op in TRANSCENDENTAL:
                return node
            try:
                with np.errstate(all="ignore"):
                    value = (
                        operation(node.op).meaning(*args)
                        if isinstance(node, Apply)
                        else cast_value(args[0], node.dtype)
                    )
            except Trap:
                return node
            return Const(node.dtype, np.asarray(value).astype(node.dtype.numpy)[()])

        return rewrite(root, change)

    def value(self, root: Expr) -> tuple[Code, Known | None]:
        """The text of a folded `root`, and what is known of it if it is no float."""
        known = self.ranges.analyse(root)
        return self._write(root, known, Counter({id(root): 1}))[id(root)], known.get(id(root))

    def bounds(self, root: Expr) -> Known | None:
        """What is known of `root` here; nothing is written."""
        return self.ranges.analyse(root).get(id(root))

    def checks(self, root: Expr) -> None:
        """Only the checks of `root`."""
        self._write(root, self.ranges.analyse(root), Counter())

    def target(self, access: Load) -> Callable[[], str | None]:
        """A buffer element that is stored to: its indices now, and, when the result is called, its bounds and text.

        The text is None if the store always traps.
        """
        known = self.ranges.analyse(access)
        needed = () if always_traps(access, known) else self._operands(access, known)
        codes = self._write(access, known, Counter(map(id, needed)), whole=False)

        def finish() -> str | None:
            self._check(access, known, codes)
            return None if always_traps(access, known) else self._element(access, known, codes)

        return finish

    def local(self, code: Code, like: str = "t") -> Code:
        """The value in a constant local."""
        name = self.names.fresh(like)
        self.line(f"const {code.type} {name} = {code.text};")
        return Code(name, code.type)

    def enter(self, var: Var, code: Code, known: Known | None) -> Callable[[], None]:
        """Open the scope of a variable; `known` is what is known of one that is no float. Call the result to close
        it."""
        literal = self.literals.pop(var, None)
        leaving = [scoped(self.variables, var, code)]
        if known is not None:
            leaving.append(self.ranges.bind(var, known))

        def close() -> None:
            for leave in leaving:
                leave()
            if literal is not None:
                self.literals[var] = literal

        return close

    def place(self, buffer: Buffer) -> BufferPlace:
        """Find where a buffer lies; Invalid (`tensor.C10`) if it is not allocated at this point."""
        if buffer not in self.buffers:
            raise Invalid(f"buffer {buffer.name} is not allocated here", label="tensor.C10")
        return self.buffers[buffer]

    def _write(self, root: Expr, known: dict[int, Known], uses: Counter[int], whole: bool = True) -> dict[int, Code]:
        """The texts of the nodes that are needed, their locals and checks written; without `whole`, not for `root`."""
        order = list(post_order(root))
        self._count(order, known, uses)
        codes: dict[int, Code] = {}
        for node in order if whole else order[:-1]:
            self._check(node, known, codes)
            count = uses[id(node)]
            if count:
                code = self._code(node, known, codes)
                codes[id(node)] = self.local(code) if code.depth and (count > 1 or code.depth > DEEPEST) else code
        return codes

    # --- what is needed ------------------------------------------------------------------------------------------

    def _count(self, order: Sequence[Expr], known: dict[int, Known], uses: Counter[int]) -> None:
        """How often the text of each node stands; two where a local is wanted, such as for a check."""
        for node in reversed(order):
            for operand, _ in () if always_traps(node, known) else self.tests(node, known):
                uses[id(operand)] += 2
            if uses[id(node)] and not _is_literal(node, known):
                twice = isinstance(node, Apply) and node.op in ("min", "max") and constant_operand(node) is not None
                for child in self._operands(node, known):
                    uses[id(child)] += 2 if twice else 1

    def _operands(self, node: Expr, known: dict[int, Known]) -> Sequence[Expr]:
        match node:
            case Load():
                return () if self.place(node.buffer).scalar else self._needed(node)
            case Apply():
                same = _same_as(node, known)
                return node.args if same is None else (same,)
            case _:
                return node.children

    def _needed(self, access: Load) -> Sequence[Expr]:
        """The indices that the text of an element names: where its row has begun, those inside of it."""
        if not self.rows and not self.flat:
            return access.indices
        count, last = self._flat(access.indices)
        inner = access.indices[-count:] if last is None else ()
        return inner if self.row_key(access, count) in self.rows else (*access.indices[:-count], *inner)

    # --- checks --------------------------------------------------------------------------------------------------

    def _check(self, node: Expr, known: dict[int, Known], codes: dict[int, Code]) -> None:
        """Write the checks that must hold before the node's operation is done."""
        if always_traps(node, known):
            self.line(self.trap(_kind(node)))
            return
        for operand, condition in self.tests(node, known):
            code = codes[id(operand)]
            text = converted(code, "double").text if isinstance(node, Cast) else code.operand
            self.line(f"if ({condition.format(text)}) {{")
            self.line(f"    {self.trap(_kind(node))}")
            self.line("}")

    # --- values --------------------------------------------------------------------------------------------------

    def _code(self, node: Expr, known: dict[int, Known], codes: dict[int, Code]) -> Code:
        """The text of a node, of the type that `scalar_type` gives for it."""
        found = known.get(id(node))
        type_ = scalar_type(node.dtype, found)
        if _is_literal(node, known):
            if node.dtype.is_float:
                return float_constant(self.ops.library, float(node.value) if isinstance(node, Const) else 0.0, type_)
            return integer_constant(found.low if found is not None and found.is_single else 0, node.dtype, type_)
        match node:
            case Var():
                if node not in self.variables:
                    raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7")
                self.used.add(self.variables[node].text)
                return converted(self.variables[node], type_)
            case Load():
                return converted(self._load(node, known, codes), type_)
            case Cast():
                arg = codes[id(node.arg)]
                return self.ops.cast(
                    node, self.local(arg) if node.dtype is BOOL and _has_bits(node.arg) else arg, type_
                )
            case Apply():
                same = _same_as(node, known)
                if same is not None:
                    return converted(codes[id(same)], type_)
                used = [codes[id(a)] for a in node.args]
                if (
                    operation(node.op).has("compares")
                    and not node.args[0].dtype.is_float
                    and self._looks_decided(node, used)
                ):
                    used = [self.local(used[0]), used[1]]  # a compiler would warn of what is no fault of the kernel's
                code = converted(self.ops.apply(node, used, type_, known), type_)
                return Code(code.text, type_, code.level, 1 + max(a.depth for a in used))
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")

    @staticmethod
    def _looks_decided(node: Apply, args: list[Code]) -> bool:
        """Whether a compiler may think it a mistake: x compared with itself, bits of x with a number that lacks
        them."""
        return args[0].text == args[1].text or any(map(_has_bits, node.args))

    def _load(self, access: Load, known: dict[int, Known], codes: dict[int, Code]) -> Code:
        text, of = self._element(access, known, codes), access.dtype
        self.place(access.buffer).read = True
        if self.place(access.buffer).scalar:
            return Code(text, scalar_type(of, None), depth=1)  # a variable: a local must copy it
        if of is BOOL:
            return Code(f"{text} != 0", "int", LOW, 1)
        if of.name in CODED:
            loaded = f"{self.ops.library.use(f'load_{CODED[of.name]}')}({text})"
            return Code(loaded, scalar_type(of, None), depth=1)
        return Code(text, STORAGE[of.name], depth=1)

    def _element(self, access: Load, known: dict[int, Known], codes: dict[int, Code]) -> str:
        """The text that names a buffer element: row-major, the strides and constant parts folded."""
        place = self.place(access.buffer)
        place.used = True
        if place.scalar:
            return place.text
        if not all(isinstance(d, int) for d in access.buffer.shape):
            return self._symbolic_element(access, place, known, codes)
        shape = access.buffer.static_shape
        wide = prod(shape) > 2**31 - 1
        terms: list[str] = []
        constant, stride = 0, 1
        for extent, index in zip(reversed(shape), reversed(access.indices), strict=True):
            k = known[id(index)]
            if k.is_single:
                constant += k.low * stride
            elif extent != 1:
                code = codes[id(index)]
                unsigned = len(shape) > 1 and code.type in ("uint32_t", "uint64_t")  # C would mix it with signed ones
                code = converted(code, "int64_t") if wide or unsigned else code
                text = code.text if stride == 1 else f"{code.at(PRODUCT)} * {integer_literal(stride, INT64)}"
                terms.append(text if stride > 1 or len(shape) == 1 or code.level >= PRODUCT else f"({text})")
            stride *= extent
        terms.reverse()
        if constant or not terms:
            terms.append(integer_literal(constant, INT64))
        return self._at(place, " + ".join(terms))

    def _at(self, place: BufferPlace, text: str) -> str:
        if place.bytes > 1:
            text = f"{self.ops.library.use('byte')}({text}, {place.bytes - 1})"
        return f"{place.text}[{text}]"

    def _symbolic_element(
        self, access: Load, place: BufferPlace, known: dict[int, Known], codes: dict[int, Code]
    ) -> str:
        """The same where sizes are variables: by Horner's rule, in 64 bits. It cannot wrap, for the entry takes no
        sizes at which a buffer has more elements."""
        count, last = self._flat(access.indices)
        leading = len(access.indices) - count
        whole = self.rows.get(self.row_key(access, count)) if leading > 0 else None
        if whole is not None:
            self.used.add(whole.text)
        else:
            whole = self._along(access, 0, leading, None, known, codes)
            for extent in access.buffer.shape[leading:]:
                whole = self._times(whole, extent)
        if last is None:
            last = self._along(access, leading, leading + count, None, known, codes)
        if last is not None and whole is not None and whole.text != "0":
            last = Code(f"{whole.at(SUM)} + {last.at(PRODUCT)}", "int64_t", SUM)
        found = last or whole
        return self._at(place, found.text if found is not None else "0")

    def _flat(self, indices: Sequence[Expr]) -> tuple[int, Code | None]:
        """How many trailing indices one place stands for, and this place; one index by itself otherwise."""
        if not self.flat or not indices:
            return min(len(indices), 1), None
        inside = (self.flat[n] for n in post_order(indices[-1]) if isinstance(n, Var) and n in self.flat)
        return next(inside, (1, None))

    def _along(
        self,
        access: Load,
        start: int,
        stop: int,
        whole: Code | None,
        known: dict[int, Known],
        codes: dict[int, Code],
    ) -> Code | None:
        """`whole`, and then some of the indices by Horner's rule; None is a place of 0."""
        for extent, index in zip(access.buffer.shape[start:stop], access.indices[start:stop], strict=True):
            k = known[id(index)]
            if not k.is_single:
                code = converted(codes[id(index)], "int64_t")
            elif k.low:
                code = integer_constant(k.low, INT64, "int64_t")
            else:
                code = None
            whole = self._times(whole, extent)
            if code is not None:
                whole = code if whole is None else Code(f"{whole.at(SUM)} + {code.at(PRODUCT)}", "int64_t", SUM)
        return whole

    def _times(self, whole: Code | None, extent: Dim) -> Code | None:
        """A place times the size of a dim."""
        if whole is None or extent == 1:
            return whole
        if whole.text.isdigit():  # an int where it stands, and so would the product with an int32_t be
            whole = Code(f"(int64_t){whole.text}", "int64_t", UNARY)
        return Code(f"{whole.at(PRODUCT)} * {self.extent(extent).at(UNARY)}", "int64_t", PRODUCT)

    # --- rows ----------------------------------------------------------------------------------------------------

    def row_key(self, access: Load, count: int) -> RowKey:
        """The row in which a folded access lies, whose last `count` indices are those inside of the row."""
        return access.buffer, tuple(map(self.number, access.indices[:-count]))

    def begin_row(self, access: Load, count: int) -> Code:
        """Where the row begins, as the number of an element; `is_inside` must hold of its indices."""
        leading, shape = access.indices[:-count], access.buffer.shape
        known: dict[int, Known] = {}
        codes: dict[int, Code] = {}
        for index in leading:
            known |= self.ranges.analyse(index)
            if not known[id(index)].is_single:
                codes[id(index)] = self.value(index)[0]
        whole = self._along(access, 0, len(leading), None, known, codes)
        for extent in shape[len(leading) - len(shape) :]:
            whole = self._times(whole, extent)
        return whole if whole is not None else Code("0", "int64_t")

    def is_inside(self, index: Expr, dim: Dim) -> bool:
        """Whether an index is shown to be one of a dim here, and is made of variables and numbers by what never
        traps."""
        known = self.ranges.analyse(index)
        if isinstance(dim, Expr):
            known |= self.ranges.analyse(dim)
        for node in post_order(index):
            if isinstance(node, Load) or always_traps(node, known) or self.tests(node, known):
                return False
        k = known[id(index)]
        return k.low >= 0 and self.ranges.is_less(k, extent_of(dim, known))

    def is_zero(self, node: Expr) -> bool:
        """Whether a number is shown to be 0 here."""
        known = self.ranges.analyse(node).get(id(node))
        return known is not None and known.range == (0, 0)

    def elements(self, access: Load, count: int) -> Code:
        """How many elements the last `count` dims have."""
        whole: Code | None = None
        for extent in access.buffer.shape[-count:]:
            if whole is None:
                whole = converted(self.extent(extent), "int64_t") if extent != 1 else None
            else:
                whole = self._times(whole, extent)
        return whole if whole is not None else integer_constant(1, INT64, "int64_t")

    def extent(self, dim: Dim) -> Code:
        """The text of a dim of a buffer."""
        if not isinstance(dim, Expr):
            return integer_constant(dim, INT64, "int64_t")
        code = self.variables[dim] if isinstance(dim, Var) and dim in self.variables else self.sizes.get(dim)
        if code is None:
            raise Invalid(f"the size {show(dim)} is not known here", label="scalar.C7")
        self.used.add(code.text)
        return code

    def tests(self, node: Expr, known: dict[int, Known]) -> list[tuple[Expr, str]]:
        """The operands that may make a node trap, which does not always, each with the condition in C under which it
        does; {} is the operand."""
        ranges: list[tuple[Expr, Dim]] = []
        match node:
            case Load():
                ranges += zip(node.indices, node.buffer.shape, strict=True)
            case Apply(args=(_, b)) if operation(node.op).has("divides"):
                return [(b, "{} == 0")] if known[id(b)].low <= 0 <= known[id(b)].high else []
            case Apply(args=(_, b)) if operation(node.op).has("shifts"):
                ranges.append((b, node.dtype.bits))
            case Cast() if node.dtype.is_integer and node.arg.dtype.is_float:
                low, high = cast_bounds(node.dtype)
                return [(node.arg, f"!({{0}} {low} && {{0}} {high})")]
        found: list[tuple[Expr, str]] = []
        for operand, size in ranges:
            tests = ["{0} < 0"] if known[id(operand)].low < 0 else []
            if not self.ranges.is_less(known[id(operand)], extent_of(size, known)):
                tests.append(f"{{0}} >= {self.extent(size).operand}")
            found += [(operand, " || ".join(tests))] if tests else []
        return found


# --- what a node needs -------------------------------------------------------------------------------------------


def _has_bits(node: Expr) -> bool:
    """Whether the value is that of a bitwise operation, as a compiler sees it."""
    while isinstance(node, Cast):
        node = node.arg
    return isinstance(node, Apply) and node.op in ("bitand", "bitor", "bitxor")


def _same_as(node: Apply, known: dict[int, Known]) -> Expr | None:
    """The operand that the node's value is, where what is known decides it."""
    if node.op == "select":
        condition = known[id(node.args[0])]
        return node.args[1 if condition.low else 2] if condition.is_single else None
    if node.dtype.is_float or node.op not in ("and", "or", "min", "max"):
        return None
    (a, x), (b, y) = ((known[id(e)], e) for e in node.args)
    if node.op in ("and", "min"):
        return x if a.high <= b.low else y if b.high <= a.low else None
    return x if a.low >= b.high else y if b.low >= a.high else None


def _kind(node: Expr) -> str:
    if isinstance(node, Load):
        return "out of bounds"
    if isinstance(node, Cast):
        return "cast"
    assert isinstance(node, Apply)
    return operation(node.op).fails


def _is_literal(node: Expr, known: dict[int, Known]) -> bool:
    """Whether the node's text is a constant."""
    return isinstance(node, Const) or (id(node) in known and known[id(node)].is_single) or always_traps(node, known)
