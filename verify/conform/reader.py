"""Reads a program with its cases; nothing of it is run (specs/verify.md, "Programs with cases").

Whatever is wrong is Invalid with file, line and column, the line itself and a caret.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.interp.graph.boundary import bind, given as as_value
from assay.interp.values import Value
from assay.lower.frontends.onnx.containers import any_dtype, inside_option
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, evaluate_dim, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.module_text import entry_name, parse
from assay.semantics.text.source import Source
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.verify.border.values import inside_list, to_arrays, to_value
from assay.verify.conform.claims import CLAIMS, case_name, read_claim, read_failure, read_rules
from assay.verify.conform.literals import require_plain, tensor
from assay.verify.conform.programs import (
    ExpectedResults,
    Likeness,
    ProgramCase,
    ProgramText,
    RefusedText,
    input_types,
    result_types,
)

FORM = 'A.case("name", inputs={"x": ...}, expect={"y": ...})'
KEYWORDS = ("inputs", "expect", "meaning", "function", "source", "rules", "prints", "externs", "offsets")


def read_program(path: Path) -> ProgramText:
    """The program in a file. Invalid where it is wrong."""
    source = Source.read(path)
    return parse_program(source.text, source.file)


def parse_program(text: str, file: str = "<string>") -> ProgramText:
    """The program that a text holds. Invalid: its module is wrong, or a case is: of another form (case.C1), of the name
    of another (case.C2), without an input or result or with one that there is not (case.C3), with a value that is not
    of its type (case.C4), with a kind of trap that there is not (case.C5)."""
    source = Source.of(text, file)
    tree = source.parse()
    module = parse(text, file)
    check(module)
    calls = [s.value for s in tree.body if isinstance(s, ast.Expr) and _member(s.value) is not None]
    _require_top(source, tree, calls)
    cases: dict[str, ProgramCase] = {}
    claims: dict[str, RefusedText | Likeness] = {}
    for call in calls:
        assert isinstance(call, ast.Call)
        made = _Reader(source, module).case(call) if _member(call) == "case" else read_claim(source, call, module)
        if made.name in cases or made.name in claims:
            raise source.error(call.args[0], f"two cases are called {made.name}", "case.C2")
        if isinstance(made, ProgramCase):
            cases[made.name] = made
        else:
            claims[made.name] = made
    title = ast.get_docstring(tree) or ""
    return ProgramText(module, cases, title, file, claims)


def _member(node: ast.AST) -> str | None:
    """`case` for a call of `A.case`; None for what is no call of a member of A."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="A"), attr=name)):
            return name
        case _:
            return None


def _require_top(source: Source, tree: ast.Module, calls: list[ast.expr]) -> None:
    """Invalid (case.C1): a case is not at the top, or something else of A stands there as if it were one."""
    top = {id(c) for c in calls}
    for call in calls:
        if _member(call) not in ("case", *CLAIMS):
            raise source.error(call, f"A.{_member(call)} has no place here; a case is {FORM}", "case.C1")
    for node in ast.walk(tree):
        if _member(node) in ("case", *CLAIMS) and id(node) not in top:
            raise source.error(node, "a case is a statement of its own, beneath the module", "case.C1")


class _Reader:
    """Reads one case."""

    def __init__(self, source: Source, module: Module) -> None:
        self.source = source
        self.module = module
        self.symbols: dict[Symbol, int] = {}

    def case(self, call: ast.Call) -> ProgramCase:
        given: dict[str, ast.expr] = {}
        for k in call.keywords:
            if k.arg not in KEYWORDS or k.arg in given:
                said = "twice" if k.arg in given else f"and a case takes {', '.join(KEYWORDS)}"
                raise self.source.error(k.value, f"{k.arg or '**'} is given, {said}", "case.C1")
            given[k.arg] = k.value
        if len(call.args) != 1 or "inputs" not in given or "expect" not in given:
            raise self.source.error(call.func, f"a case is {FORM}", "case.C1")
        name = case_name(self.source, call.args[0])
        function = require_plain(self.source, given["function"], str, "a name") if "function" in given else ""
        with self.source.at(given.get("function", call.func)):
            entry = entry_name(self.module, function or None)
            types, wanted = input_types(self.module, entry), result_types(self.module, entry)
        refused = _member(given["expect"]) == "invalid"
        inputs = self.inputs(given["inputs"], types, refused)
        meaning = require_plain(self.source, given["meaning"], bool, "True or False") if "meaning" in given else False
        text = require_plain(self.source, given["source"], str, "a text") if "source" in given else ""
        expected = self.expected(given["expect"], wanted)
        if meaning and (expected.within or (expected.fails and not expected.refuted)):
            raise self.source.error(
                given["meaning"], "meaning is said of results that are given bit for bit", "case.C1"
            )
        more: dict[str, Any] = {}
        if "rules" in given:
            more["rules"] = read_rules(self.source, given["rules"])
        if "prints" in given:
            more["prints"] = self.texts(given["prints"])
        if "externs" in given:
            more["externs"] = self.externs(given["externs"])
        if "offsets" in given:
            more["offsets"] = self.named(given["offsets"], int, "the bytes before the slot")
        return ProgramCase(name, inputs, expected, meaning, function, text, self.source.span(call), **more)

    def texts(self, node: ast.expr) -> tuple[str, ...]:
        if not isinstance(node, ast.List):
            raise self.source.error(node, 'the printed texts are wanted, as in ["x is 3"]', "case.C1")
        return tuple(require_plain(self.source, e, str, "a text") for e in node.elts)

    def named(self, node: ast.expr, kind: type, what: str) -> dict[str, Any]:
        if not isinstance(node, ast.Dict):
            raise self.source.error(node, f"{what} by name is wanted, as in {{'x': ...}}", "case.C1")
        return {
            require_plain(self.source, k or v, str, "a name"): require_plain(self.source, v, kind, what)
            for k, v in zip(node.keys, node.values, strict=True)
        }

    def externs(self, node: ast.expr) -> dict[str, str]:
        found = self.named(node, str, "the function of the module that stands for an extern")
        for name in found.values():
            with self.source.at(node):
                entry_name(self.module, name)
        return found

    # --- inputs

    def inputs(self, node: ast.expr, types: Mapping[str, Type], refused: bool) -> dict[str, Any]:
        """The inputs of a case; sizes of those that are to be `refused` are not looked at."""
        parts = self.entries(node, types, "input")
        found: dict[str, Any] = {}
        values: dict[str, Value] = {}
        for name, of in types.items():
            found[name] = run_task(self.read(parts[name], of, name, None))
            if refused:
                continue
            with self.source.at(parts[name]):
                values[name] = as_value(to_value(found[name], of, f"input {name!r}"), of, f"input {name!r}")
        if refused:
            return found
        try:
            bind([(types[n], v, f"input {n!r}") for n, v in values.items()], self.symbols, {})
        except (Invalid, Trap) as wrong:
            at = next((parts[n] for n in parts if f"input {n!r}" in wrong.message), node)
            raise self.source.error(at, wrong.message, "case.C4") from None
        return found

    def entries(self, node: ast.expr, types: Mapping[str, Type], what: str) -> dict[str, ast.expr]:
        """The values of a dict by name. Invalid (case.C1, case.C3): it is none, or its names are others."""
        if not isinstance(node, ast.Dict):
            raise self.source.error(node, f"the {what}s by name are wanted, as in {{'x': [1, 2]}}", "case.C1")
        found: dict[str, ast.expr] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = require_plain(self.source, key or value, str, f"the name of an {what}")
            if name not in types or name in found:
                why = "is given twice" if name in found else f"is no {what}; there are {', '.join(types) or 'none'}"
                raise self.source.error(key or value, f"{name!r} {why}", "case.C3")
            found[name] = value
        missing = [n for n in types if n not in found]
        if missing:
            raise self.source.error(node, f"the {what} {missing[0]!r} is missing", "case.C3")
        return found

    # --- results

    def expected(self, node: ast.expr, types: Mapping[str, Type]) -> ExpectedResults:
        if (failure := read_failure(self.source, node, _member(node))) is not None:
            return failure
        if _member(node) == "wrong":
            assert isinstance(node, ast.Call)
            if len(node.args) != 1 or node.keywords:
                raise self.source.error(node, "A.wrong takes the planted results by name", "case.C1")
            return replace(self.expected(node.args[0], types), refuted=True)
        parts = self.entries(node, types, "result")
        within: set[str] = set()
        is_open: dict[str, Any] = {}
        found: dict[str, Any] = {}
        for name, of in types.items():
            part = parts[name]
            if _member(part) == "within":
                assert isinstance(part, ast.Call)
                if len(part.args) != 1 or part.keywords:
                    raise self.source.error(part, "A.within takes the result", "case.C1")
                within.add(name)
                part = part.args[0]
            found[name] = run_task(self.read(part, of, name, is_open))
            with self.source.at(part):
                to_value(found[name], of, f"result {name!r}")
            self.require_sizes(part, of, found[name], name)
        with self.source.at(node):
            to_arrays(found)
        return ExpectedResults(found, is_open, frozenset(within))

    def require_sizes(self, node: ast.expr, of: Type, value: Any, name: str) -> None:
        """Invalid (case.C4): a result has another size than its type says of these inputs."""
        if not isinstance(of, TensorType):
            return
        for axis, (dim, size) in enumerate(zip(of.shape, np.shape(value), strict=True)):
            known = isinstance(dim, int) or all(v in self.symbols for v in variables(dim))
            try:
                want = evaluate_dim(dim, self.symbols) if known else size
            except Trap:
                want = size
            if want != size:
                raise self.source.error(node, f"axis {axis} of result {name!r} is {size}, expected {want}", "case.C4")

    # --- values

    def read(self, node: ast.expr, of: Type, path: str, is_open: dict[str, Any] | None) -> Task[Any]:
        """A value of a type, in Python's form. `is_open`, where open elements are put by the names of the parts, is
        None for what is an input."""
        if (inside := inside_option(of)) is not None:
            if isinstance(node, ast.Constant) and node.value is None:
                return None
            held: Any = yield self.read(node, inside, path, is_open)
            return held
        if (inside := inside_list(of)) is not None:
            if not isinstance(node, ast.List):
                raise self.source.error(node, f"a list of values is wanted: {of}", "case.C4")
            items: list[Any] = []
            for i, item in enumerate(node.elts):
                items.append((yield self.read(item, inside, f"{path}.{i}", is_open)))
            return items
        match of:
            case TensorType():
                array, mask = tensor(self.source, node, of.dtype, of.ndim, is_open is not None)
                if is_open is not None and mask.any():
                    is_open[path] = mask
                return array
            case ShapeType():
                sizes, _ = tensor(self.source, node, INT64, 1, False)
                return tuple(int(n) for n in sizes)
            case TupleType():
                if not isinstance(node, ast.Tuple) or len(node.elts) != len(of.fields):
                    raise self.source.error(node, f"a tuple of {len(of.fields)} values is wanted: {of}", "case.C4")
                fields: list[Any] = []
                for i, (item, t) in enumerate(zip(node.elts, of.fields, strict=True)):
                    fields.append((yield self.read(item, t, f"{path}.{i}", is_open)))
                return tuple(fields)
        what = "a tensor of unknown rank" if any_dtype(of) is not None else str(of)
        raise self.source.error(node, f"no text holds a value of this type: {what}", "case.C4")
