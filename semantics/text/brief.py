"""Modules and functions as people see them in messages: their text, of bounded length (specs/semantics.md, "Text").

`repr` of a module or function is this. It costs little on large programs, and never raises: what has no text is shown
with the reason.
"""

from __future__ import annotations

from itertools import islice

from assay.semantics.bytecode import Bytecode
from assay.semantics.bytecode.listing import listing
from assay.semantics.graph import Function
from assay.semantics.module import Module, Program
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.graph.printer import INDENT
from assay.semantics.text.module_printer import show, show_function
from assay.semantics.types import DataDef
from assay.semantics.walk import post_order

MOST_NODES = 10_000
"""Nodes of a graph function whose body is shown."""
MOST_LINES = 160
"""Lines that are shown; the last TAIL of them are the end of the text."""
TAIL = 40
WIDEST = 500
"""Characters of a line that are shown."""


def text_for_people(value: Module | Function) -> str:
    """What `repr` of a module or a graph function is."""
    return brief(value) if isinstance(value, Module) else brief_function(value)


def brief(module: Module) -> str:
    """The module's text, of bounded length: constants that do not stand where they are used are left out, and so is the
    middle of a long text; a comment says how much. Where there is no text for all of it, each definition stands alone,
    with the reason. It never raises."""
    try:
        if large := [n for n, d in module.graphs.items() if _is_large(d)]:
            return _apart(module, f"{', '.join(large)}: more than {MOST_NODES:,} nodes")
        return shortened(show(module, brief=True))
    except Exception as wrong:  # noqa: BLE001  what is shown may be ill-formed in any way; the reason is said
        return _apart(module, _reason(wrong))


def brief_function(function: Function, name: str = "function") -> str:
    """One graph function's text in the same way."""
    try:
        if _is_large(function):
            return f"# {name}: {function.type}: more than {MOST_NODES:,} nodes"
        return shortened(show_function(function, name, brief=True))
    except Exception as wrong:  # noqa: BLE001  as above
        return f"# {name}: {getattr(function, 'type', None)}: no text: {_reason(wrong)}"


def shortened(text: str) -> str:
    """A text without its middle and without the ends of its lines, where it is long; a comment says how much is gone.
    The imports at its head are left out too."""
    lines = text.rstrip("\n").split("\n")
    while lines and (lines[0].startswith("# from ") or not lines[0]):
        del lines[0]
    if len(lines) > MOST_LINES:
        gone = len(lines) - MOST_LINES
        lines[MOST_LINES - TAIL : len(lines) - TAIL] = [f"{INDENT}# ... {gone:,} lines are left out here ..."]
    return "\n".join(x if len(x) <= WIDEST else f"{x[:WIDEST]} # ... {len(x) - WIDEST:,} characters" for x in lines)


def _is_large(function: Function) -> bool:
    return next(islice(post_order(function), MOST_NODES, None), None) is not None


def _apart(module: Module, why: str) -> str:
    """The definitions of a module one by one."""
    try:
        parts = [_definition(n, d) for n, d in islice(module.definitions.items(), MOST_LINES)]
        left = len(module.definitions) - len(parts)
        more = [f"# ... {left:,} definitions are left out here ..."] if left > 0 else []
        return shortened("\n".join([f"# a module, one by one: {why}", *parts, *more]))
    except Exception as wrong:  # noqa: BLE001  as above
        return f"# a module without a text: {why}; {_reason(wrong)}"


def _definition(name: str, definition: object) -> str:
    match definition:
        case Function():
            return brief_function(definition, name)
        case PrimFunc():
            return shortened(repr(definition))
        case Program():
            bytes_ = f"{definition.workspace_bytes:,} bytes of workspace"
            return (
                f"# {name}: a planned program, {len(definition.steps)} steps, {len(definition.slots)} slots, {bytes_}"
            )
        case Bytecode():
            return shortened(f"# {name}: bytecode\n" + "\n".join(f"# {line}" for line in listing(definition)))
        case DataDef():
            return f"# {name}: a data type with {', '.join(definition.constructors) or 'no constructors'}"
        case _:
            return f"# {name}: {type(definition).__name__}, which is no definition"


def _reason(wrong: Exception) -> str:
    return f"{type(wrong).__name__}: {str(wrong)[:WIDEST]}"
