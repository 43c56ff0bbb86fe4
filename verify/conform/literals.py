"""Tensors as people write them in cases: numbers in nested lists, and short forms (specs/verify.md, "Programs with
cases").

Nothing is computed but what the short forms say. A number that the element type does not have is refused where it was
hardly meant, and rounded to nearest where decimals cannot be avoided.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from fractions import Fraction
from math import isinf, prod
from typing import Any

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.text.source import Source

Array = np.ndarray[Any, Any]

LABEL = "case.C4"
ROUNDED = ("float16", "float32", "float64")
"""The float types to which a decimal number is rounded; of the others it must be a number already."""
RANKS = 32
MOST = 1 << 24
"""Elements of a tensor in a case."""


class OpenElement:
    """An element of a result that the definition leaves open."""


OPEN = OpenElement()


def tensor(source: Source, node: ast.expr, of: DType, ndim: int, results: bool) -> tuple[Array, Array]:
    """The tensor that `node` says, and where its elements are open: nowhere but in `results`. Invalid (case.C4)."""
    short = _house(node)
    if short in ("full", "arange", "cycle"):
        assert isinstance(node, ast.Call)
        return _short(source, node, short, of, ndim, results)
    shape, items = _nested(source, node, ndim)
    flat = [element(source, item, of, results) for item in items]
    return _filled(flat, of).reshape(shape), np.array([x is OPEN for x in flat], bool).reshape(shape)


def _filled(flat: Sequence[Any], of: DType) -> Array:
    made = np.zeros(len(flat), of.numpy)
    for i, x in enumerate(flat):
        if x is not OPEN:
            made[i] = x
    return made


def _house(node: ast.AST) -> str:
    """`full` where the node is `A.full` or a call of it; "" where it is nothing of the kind."""
    inner = node.func if isinstance(node, ast.Call) else node
    match inner:
        case ast.Attribute(value=ast.Name(id="A"), attr=name):
            return name
        case _:
            return ""


def _nested(source: Source, node: ast.expr, ndim: int) -> tuple[tuple[int, ...], list[ast.expr]]:
    """The shape of nested lists, and their elements in row-major order."""
    shape: list[int] = []
    items = [node]
    for axis in range(ndim):
        inner: list[ast.expr] = []
        for item in items:
            if not isinstance(item, ast.List):
                raise source.error(item, f"a list is wanted here: the tensor has {_axes(ndim)}", LABEL)
            if len(shape) == axis:
                shape.append(len(item.elts))
            elif len(item.elts) != shape[axis]:
                raise source.error(item, f"{len(item.elts)} elements where the lists before have {shape[axis]}", LABEL)
            inner += item.elts
        if len(shape) == axis:  # no list is here: the axis before is of size 0
            raise source.error(
                node, f"the sizes behind an empty axis are unknown: write A.full(({'0, ' * ndim}), 0)", LABEL
            )
        items = inner
    for item in items:
        if isinstance(item, (ast.List, ast.Tuple)):
            raise source.error(item, f"a number is wanted here: the tensor has {_axes(ndim)}", LABEL)
    return tuple(shape), items


def _axes(count: int) -> str:
    return f"{count} ax{'i' if count == 1 else 'e'}s" if count else "no axes"


# --- numbers ----------------------------------------------------------------------------------------------------------


def element(source: Source, node: ast.expr, of: DType, results: bool) -> Any:
    """An element of a tensor: a number of its type, or OPEN in results."""
    if _house(node) == "open" and isinstance(node, ast.Attribute):
        if not results:
            raise source.error(node, "an input is given whole: only an element of a result is open", LABEL)
        return OPEN
    value, exact = _number(source, node, of)
    try:
        return converted(value, of, exact)
    except ValueError as wrong:
        raise source.error(node, str(wrong), LABEL) from None


def _number(source: Source, node: ast.expr, of: DType) -> tuple[int | float | bool, bool]:
    """What a number says, and whether it must be one of the type."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value, exact = _number(source, inner, of)
            if not isinstance(value, bool):
                return -value, exact
        case ast.Constant(value=bool() | int() as value):
            return value, True
        case ast.Constant(value=float() as value) if not isinf(value):
            return value, of.name not in ROUNDED
        case ast.Constant(value=str(text)):
            try:
                return float.fromhex(_hex(text)), True
            except (ValueError, OverflowError):
                raise source.error(node, f"{text[:40]!r} is no hexadecimal float such as '0x1.8p-3'", LABEL) from None
        case (
            ast.Name(id="nan" | "inf" as name)
            | ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="nan" | "inf" as name)], keywords=[])
        ):
            return float(name), True
        case ast.Attribute() if (named := _named(_house(node), of)) is not None:
            return named, True
    if _house(node):
        raise source.error(node, f"there is no {ast.unparse(node)[:40]} of {of}", LABEL)
    raise source.error(node, f"a number of {of} is wanted", LABEL)


def _hex(text: str) -> str:
    if not text.lower().lstrip("-").startswith("0x"):
        raise ValueError
    return text


def _named(name: str, of: DType) -> int | float | None:
    """A number that is called by what it is for a type: A.max, A.min, and of floats A.normal, A.subnormal."""
    if name == "max":
        return of.max
    if name == "min":
        return of.min
    if of.is_float and name in ("normal", "subnormal"):
        return of.smallest_normal if name == "normal" else of.smallest_subnormal
    return None


def converted(value: int | float | bool, of: DType, exact: bool) -> Any:
    """A number of the type. ValueError: there is none; with `exact`, the value is not one itself."""
    if of.kind == "bool" or isinstance(value, bool):
        if of.kind != "bool" or not isinstance(value, bool):
            raise ValueError(
                f"{value!r} where {'True or False' if of.kind == 'bool' else f'a number of {of}'} is wanted"
            )
        return value
    if of.is_integer:
        if isinstance(value, float):
            raise ValueError(f"{value!r} where a whole number of {of} is wanted")
        if not of.min <= value <= of.max:
            raise ValueError(f"{value} does not fit {of}, which goes from {of.min} to {of.max}")
        return np.asarray(value, np.int8 if of.bits < 8 and of.kind == "int" else None).astype(of.numpy)[()]
    try:
        wide = float(value)
        with np.errstate(all="ignore"):
            made = np.asarray(wide).astype(of.numpy)[()]
    except OverflowError:
        raise ValueError(f"{value} does not fit {of}") from None
    back = float(made)
    if isinf(back) != isinf(wide) or (back != back) != (wide != wide):
        raise ValueError(f"{value!r} is no number of {of}, which goes from {of.min:g} to {of.max:g}")
    if exact and wide == wide and (back != value or np.signbit(back) != np.signbit(wide)):
        raise ValueError(f"{value!r} is no number of {of}; the nearest is {back!r}")
    return made


# --- short forms ------------------------------------------------------------------------------------------------------


def _short(source: Source, node: ast.Call, name: str, of: DType, ndim: int, results: bool) -> tuple[Array, Array]:
    """A tensor by A.full, A.arange or A.cycle."""
    forms = {
        "full": ("shape", "value"), "cycle": ("shape", "values"), "arange": ("shape", "start", "step"),
    }  # fmt: skip
    given = _arguments(source, node, forms[name], 1 if name == "arange" else 2)
    shape = _shape(source, given["shape"], ndim)
    if prod(shape) > MOST:
        raise source.error(node, f"{prod(shape)} elements; a tensor of a case has at most {MOST}", LABEL)
    none = np.zeros(shape, bool)
    if name == "arange":
        return _arange(source, node, given, of, shape), none
    values = given.get("values", given.get("value"))
    assert values is not None
    items = [values]
    if name == "cycle":
        if not isinstance(values, ast.List) or not values.elts:
            raise source.error(values, "A.cycle takes the list of the elements that come again and again", LABEL)
        items = values.elts
    flat = [element(source, item, of, results) for item in items]
    is_open = np.array([x is OPEN for x in flat], bool)
    return np.resize(_filled(flat, of), shape), np.resize(is_open, shape)


def _arguments(source: Source, node: ast.Call, names: Sequence[str], least: int) -> dict[str, ast.expr]:
    """The arguments of a short form by name."""
    given: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    for k in node.keywords:
        if k.arg is not None and k.arg in names and k.arg not in given:
            given[k.arg] = k.value
        else:
            given = {}
            break
    if len(node.args) > len(names) or len(given) < least or any(n not in given for n in names[:least]):
        want = ", ".join(n if i < least else f"{n}=" for i, n in enumerate(names))
        raise source.error(node, f"{ast.unparse(node.func)} takes ({want})", LABEL)
    return given


def _shape(source: Source, node: ast.expr, ndim: int) -> tuple[int, ...]:
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    sizes = [e.value for e in elements if isinstance(e, ast.Constant) and type(e.value) is int and e.value >= 0]
    if len(sizes) != len(elements) or not isinstance(node, (ast.Tuple, ast.List)) or len(sizes) > RANKS:
        raise source.error(node, "a shape is wanted, such as (2, 3)", LABEL)
    if len(sizes) != ndim:
        raise source.error(node, f"{len(sizes)} sizes; the tensor has {_axes(ndim)}", LABEL)
    return tuple(sizes)


def _arange(source: Source, node: ast.Call, given: dict[str, ast.expr], of: DType, shape: tuple[int, ...]) -> Array:
    """start, start + step and so on, each of which is a number of the type."""
    if of.kind == "bool":
        raise source.error(node, "A.arange counts, and the elements are truths", LABEL)
    start, step = (_number(source, given[n], of)[0] if n in given else k for k, n in enumerate(("start", "step")))
    count = prod(shape)
    try:
        first, each = Fraction(start), Fraction(step)
    except (ValueError, OverflowError):
        raise source.error(node, "A.arange counts from a finite number in finite steps", LABEL) from None
    scale = max(first.denominator, each.denominator)
    ends = [first * scale, (first + each * max(count - 1, 0)) * scale]
    if max(map(abs, ends)) >= 1 << (53 if of.is_float else 63) and not of.name == "uint64":
        raise source.error(node, f"A.arange would not be exact in {of}: give the elements, or smaller steps", LABEL)
    try:
        for end in ends:
            value = end / scale
            converted(int(value) if value.denominator == 1 else float(value), of, True)
    except ValueError as wrong:
        raise source.error(node, f"A.arange: {wrong}", LABEL) from None
    whole = (
        (np.arange(count) * int(each * scale) + int(first * scale))
        if of.name != "uint64"
        else np.array([int(first + each * i) for i in range(count)], np.uint64)
    )
    if of.is_integer:
        return whole.astype(np.int8 if of.bits < 8 else of.numpy).astype(of.numpy).reshape(shape)
    exact = whole / scale
    with np.errstate(all="ignore"):
        made = exact.astype(of.numpy)
    if not np.array_equal(made.astype(np.float64), exact):
        odd = exact[int(np.argmin(made.astype(np.float64) == exact))]
        raise source.error(node, f"A.arange: {float(odd)!r} is no number of {of}", LABEL)
    return made.reshape(shape)


def require_plain(source: Source, node: ast.expr, kind: type, what: str) -> Any:
    """The constant that a node is, of this kind. Invalid (case.C1)."""
    if isinstance(node, ast.Constant) and type(node.value) is kind:
        return node.value
    raise source.error(node, f"{what} is wanted", "case.C1")
