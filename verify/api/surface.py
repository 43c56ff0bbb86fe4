"""How Python code calls the functions of `assay`: options are checked, and errors name them as Python does
(specs/verify.md, "From Python").

The command line calls the same functions without this: it has checked its options, and its messages name flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any

from assay.semantics.errors import AssayError, Invalid, Trap
from assay.verify.api.how import DEFAULTS, How

FLAGS = {"dim": "dims", "bound": "bounds", "backend": "backends", "extern": "externs", "report": "page"}
"""Flags of the command line whose parameter has another name."""


def for_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as `assay` offers it.

    TypeError: an option that it does not have. Invalid (cli.C3): an argument is not of the type that is declared. One
    text stands for a list of one, and NumPy's integers for Python's.
    """
    own = _all_named(signature(function))

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        _require_known(function.__name__, options, list(own.parameters))
        bound = own.bind(*args, **options)
        for name, value in bound.arguments.items():
            kind = str(own.parameters[name].annotation)
            if value is not None or not (kind.endswith("| None") or kind == "Inputs"):
                bound.arguments[name] = TAKEN[kind.removesuffix(" | None")](name, value)
        try:
            return function(*bound.args, **bound.kwargs)
        except Trap:
            raise
        except AssayError as wrong:
            wrong.message = in_python(wrong.message, own.parameters)
            raise

    call.__module__ = "assay"  # where pickle and help find it
    call.__signature__ = own  # type: ignore[attr-defined]
    return call


def in_python(message: str, parameters: Iterable[str]) -> str:
    """A message that names parameters, and not the flags of the command line for them."""
    known = set(parameters)
    if "dims" in known:
        message = re.sub(r"--dim (\w+)=(\d+)", r'dims={"\1": \2}', message)

    def named(flag: re.Match[str]) -> str:
        name = FLAGS.get(flag[1], flag[1].replace("-", "_"))
        return f"{name}=" if name in known else flag[0]

    return re.sub(r"--([a-z]+(?:-[a-z]+)*)\b", named, message)


def _all_named(own: Signature) -> Signature:
    """A signature with the options of `How` by name in place of `**how`."""
    parameters: list[Parameter] = []
    for p in own.parameters.values():
        if p.kind is not Parameter.VAR_KEYWORD:
            parameters.append(p)
            continue
        for name, kind in How.__annotations__.items():
            said = getattr(kind, "__forward_arg__", kind)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=dict(DEFAULTS)[name], annotation=said))
    return own.replace(parameters=parameters)


def _require_known(function: str, options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            near = get_close_matches(name, known)
            there = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise TypeError(f"assay.{function} has no option {name!r}; {there}")


# --- what is taken for each declared type -----------------------------------------------------------------------------


def _wrong(name: str, value: Any, wanted: str) -> Invalid:
    return Invalid(f"{name}= takes {wanted}, not {repr(value)[:100]}", label="cli.C3")


def _anything(name: str, value: Any) -> Any:
    return value


def _path(name: str, value: Any, wanted: str = "a path") -> Any:
    try:
        Path(value)
    except TypeError:
        raise _wrong(name, value, wanted) from None
    return value


def _directory(name: str, value: Any) -> Any:
    from assay.verify.app.certificate import Stored

    return value if isinstance(value, Stored) else _path(name, value)


def _program(name: str, value: Any) -> Any:
    import onnx

    from assay.semantics.module import Module

    taken = isinstance(value, Module | onnx.ModelProto) or _is_exported(value)
    return value if taken else _path(name, value, "a path, an ONNX model or a Module")


def _is_exported(value: Any) -> bool:
    from assay.verify.api.programs import Exported

    return isinstance(value, Exported)


def _file(name: str, value: Any) -> Any:
    return value if _is_exported(value) else _path(name, value)


def _inputs(name: str, value: Any) -> Any:
    return value if isinstance(value, Mapping) else _path(name, value, "arrays by name, or the path of an .npz file")


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise _wrong(name, value, "a whole number") from None


def _seed_or_whole(name: str, value: Any) -> int:
    number = _whole(name, value)
    if name == "seed" and number < 0:
        raise _wrong(name, value, "a whole number of at least 0")
    return number


def _number(name: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise _wrong(name, value, "a number")
    return float(value) if not isinstance(value, int) else value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def _texts(name: str, value: Any) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
        raise _wrong(name, value, "a name, or a list of names")
    found = list(found)
    if not all(isinstance(v, str) for v in found):
        raise _wrong(name, value, "a name, or a list of names")
    return found


def _recorded(name: str, value: Any) -> Any:
    several = [value] if isinstance(value, str | Path | Mapping) else value
    if not isinstance(several, Iterable) or isinstance(several, bytes):
        raise _wrong(name, value, "paths of .npz files, or arrays by name")
    return [_inputs(name, each) for each in several]


def _backends(name: str, value: Any) -> list[Any]:
    found = [value] if isinstance(value, str) or hasattr(value, "prepare") or callable(value) else value
    if not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
        raise _wrong(name, value, "a backend, or a list of backends")
    return list(found)


def _dims(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(isinstance(n, str) for n in value):
        raise _wrong(name, value, 'numbers by name, such as {"n": 4}')
    return {n: _whole(f"{name}[{n!r}]", v) for n, v in value.items()}


def _bounds(name: str, value: Any) -> dict[str, tuple[int | None, int | None]]:
    if not isinstance(value, Mapping) or not all(isinstance(n, str) for n in value):
        raise _wrong(name, value, 'pairs by name, such as {"n": (1, 64)}')
    found: dict[str, tuple[int | None, int | None]] = {}
    for n, ends in value.items():
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise _wrong(f"{name}[{n!r}]", ends, "the least and the most, such as (1, 64), with None for no bound")
        least, most = (None if v is None else _whole(f"{name}[{n!r}]", v) for v in ends)
        found[n] = least, most
    return found


def _buffers(name: str, value: Any) -> Any:
    from assay.semantics.memory import BufferInfo

    wanted = "the path of a CSV file, or a list of BufferInfo"
    if isinstance(value, str | Path) or not isinstance(value, Iterable):
        return _path(name, value, wanted)
    found = list(value)
    odd = next((b for b in found if not isinstance(b, BufferInfo)), None)
    if odd is not None:
        raise _wrong(name, odd, wanted)
    return found


def _interface(name: str, value: Any) -> Any:
    from assay.lower.interfaces import Interface

    try:
        return Interface(value)
    except ValueError:
        raise _wrong(name, value, f"one of {', '.join(Interface)}") from None


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise _wrong(name, value, "a function")
    return value


TAKEN: Mapping[str, Callable[[str, Any], Any]] = {
    "Program": _program,
    "Inputs": _inputs,
    "str | Path": _path,
    "str | Path | Exported": _file,
    "str | Path | certificate.Stored": _directory,
    "str | Path | Iterable[BufferInfo]": _buffers,
    "int": _seed_or_whole,
    "float": _number,
    "str": _text,
    "bool": _anything,
    "str | Sequence[str]": _texts,
    "Backends": _backends,
    "Recorded": _recorded,
    "Mapping[str, int]": _dims,
    "Bounds": _bounds,
    "Mapping[str, tuple[int | None, int | None]]": _bounds,
    "Externs": _anything,
    "Progress": _function,
    "Callable[[Line], None]": _function,
    "Callable[[Judgement], None]": _function,
    "Callable[[BackendVerdict], None]": _function,
    "Interface | str": _interface,
}
"""How an argument is taken, by the type that its parameter is declared with."""
