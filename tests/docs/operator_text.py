"""An operator's value as the text of its record, and how others spell the operator (specs/verify.md, "Generated
pages")."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from assay.lower.frontends.relay.operators import ROWS as RELAY
from assay.lower.frontends.stablehlo.operators import RULES as STABLEHLO
from assay.lower.onnx_export import UNSAID, export_onnx
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.text.relax.ops import to_relax
from assay.semantics.types import TensorType
from tests.places import ROOT
from tests.trees import nodes, parsed

LONGEST = 60
"""Lines of a value that are shown."""
NO_FUNCTIONS = ("torch.linalg", "torch.dtype", "torch.int64", "torch.tensor", "torch.bool", "torch.float32")


def value_text(op: Operator) -> str:
    """The value as it stands in the record, with the functions of the same file that it calls."""
    pieces: list[str] = []
    for one in _value_functions(op.value):
        held = inspect.getclosurevars(one).nonlocals
        words = [f"# here {n} is {v!r}" for n, v in held.items() if isinstance(v, str | int | float)]
        text = "\n".join([*words, _source(one)])
        if text not in pieces:
            pieces.append(text)
    lines = "\n\n".join(pieces).splitlines()
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"# ... {len(lines) - LONGEST} lines more"]
    return "\n".join(lines)


def _value_functions(value: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The function that is the value, what it is made with, and what it calls of its own file."""
    held = inspect.getclosurevars(value).nonlocals
    inner = [v for v in held.values() if inspect.isfunction(v) and v.__module__.startswith("assay.")]
    if value.__qualname__.startswith("_own."):
        yield from (f for v in inner for f in _value_functions(v))
        return
    yield value
    for name in (
        *value.__code__.co_names,
        *(n for c in value.__code__.co_consts if inspect.iscode(c) for n in c.co_names),
    ):
        called = value.__globals__.get(name)
        if inspect.isfunction(called) and called.__module__ == value.__module__:
            yield called
    for v in inner:
        yield from _value_functions(v)


@cache
def _parsed(file: str) -> tuple[str, ast.Module]:
    text = Path(file).read_text(encoding="utf-8")
    return text, parsed(text)


def _source(function: Callable[..., Any]) -> str:
    """The text of a function: of a lambda the lambda alone; without its docstring."""
    code = function.__code__
    text, tree = _parsed(code.co_filename)
    name = code.co_name
    if name != "<lambda>":
        found = next(n for n in nodes(tree) if isinstance(n, ast.FunctionDef) and n.name == name and _starts(n, code))
        if ast.get_docstring(found) is not None and len(found.body) > 1:
            found = ast.FunctionDef(**{**{f: getattr(found, f) for f in found._fields}, "body": found.body[1:]})
        return textwrap.dedent(ast.unparse(ast.fix_missing_locations(found)))
    same = [n for n in nodes(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    names = [n for n in same if [a.arg for a in n.args.args] == list(code.co_varnames[: code.co_argcount])]
    return ast.get_source_segment(text, (names or same)[0], padded=False) or ""


def _starts(node: ast.FunctionDef, code: Any) -> bool:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return bool(first == code.co_firstlineno)


# --- spelling ---------------------------------------------------------------------------------------------------------


def spellings(op: Operator) -> dict[str, str]:
    """How the operator is called elsewhere, by the tables that import, export and judge."""
    return {
        "ONNX": _onnx(op),
        "Relax": _relax(op),
        "Relay": f"`{op.name}`" if op.name in RELAY else "-",
        "StableHLO": ", ".join(f"`stablehlo.{n}`" for n in _stablehlo().get(op.name, []))
        or "[by several rules](../lower.md#stablehlo), or none",
        "PyTorch": _torch().get(op.name, "not in the table (verify/backends/torch_table.py)"),
        "TensorIR": f"`{op.scalar}` at each element" if op.scalar else "its kernel",
    }


def _onnx(op: Operator) -> str:
    if op.name in UNSAID:
        return f"none: {UNSAID[op.name]}"
    for e in op.examples:
        params = [var(f"x{i}", TensorType(s, dtype(d))) for i, (s, d) in enumerate(e.operands)]
        try:
            model = export_onnx(Module({"main": function(params, call(op, *params, **e.attrs))}))
        except (Invalid, Unsupported):
            continue
        names = [n.op_type for n in model.graph.node if n.op_type not in ("Constant", "Identity")]
        return ", ".join(f"`{n}`" for n in dict.fromkeys(names)) or "the value itself, no node"
    return "-"


def _relax(op: Operator) -> str:
    for e in op.examples:
        operands = [var(n.strip("*?") or "x", TensorType(s, dtype(d))) for n, (s, d) in _named(op, e)]
        try:
            found = to_relax(call(op, *operands, **e.attrs))
        except (Invalid, Unsupported, TypeError, ValueError):
            continue
        if found is not None:
            return f"`R.{found.name}`"
    return f"`A.{op.name}`, a word of ours"


def _named(op: Operator, example: Any) -> list[tuple[str, Any]]:
    names = [*op.operands, *([op.operands[-1]] * len(example.operands) if op.operands else [])]
    return list(zip(names, example.operands, strict=False))


@cache
def _stablehlo() -> dict[str, list[str]]:
    """The operations of StableHLO that are read as one operator of ours, by that."""
    found: dict[str, list[str]] = {}
    for name, rule in STABLEHLO.items():
        if not inspect.isfunction(rule) or name.startswith(("chlo.", "check.")):
            continue
        held = inspect.getclosurevars(rule).nonlocals
        for key in ("op", "logical", "whole"):
            if isinstance(held.get(key), str) and held[key]:
                found.setdefault(held[key], []).append(name.removeprefix("stablehlo."))
    return found


@cache
def _torch() -> dict[str, str]:
    """PyTorch's functions, read as text: the table needs PyTorch to be imported. Of a rule those that it calls."""
    tree = ast.parse((ROOT / "verify" / "backends" / "torch_table.py").read_text(encoding="utf-8"))
    rules = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                named = [rules[n.id] for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in rules]
                calls = [t for part in (value, *named) for n in ast.walk(part) if (t := _torch_name(n))]
                if calls:
                    made = "by " if named else ""  # a function of the table's own, which calls these
                    found.setdefault(key.value, made + ", ".join(f"`{c}`" for c in dict.fromkeys(calls)))
    return found


def _torch_name(node: ast.AST) -> str:
    """`torch.nn.functional.relu` of `F.relu`; "" for what is no function of PyTorch."""
    if not isinstance(node, ast.Attribute):
        return ""
    text = re.sub(r"^F\.", "torch.nn.functional.", ast.unparse(node))
    return text if re.fullmatch(r"torch(\.\w+)+", text) and text not in NO_FUNCTIONS else ""


def record_module(op: Operator) -> str:
    """The file, without its ending, that has the record under semantics/ops, and the kernel under lower/."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("assay.semantics.ops.") and op in getattr(module, "TABLE", ()):
            return name.rpartition(".")[2]
    raise KeyError(op.name)
