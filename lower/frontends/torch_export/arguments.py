"""Arguments of nodes, as the schema of torch.export says them (specs/lower.md, "torch.export")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.lower.frontends.torch_export.archive import Json, broken, element
from assay.lower.frontends.torch_export.cells import TensorCell
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr

PLAIN = ("as_int", "as_ints", "as_bool", "as_bools", "as_string", "as_strings")
WORDS = ("as_memory_format", "as_layout", "as_device", "as_operator", "as_complex")
NAMED = ("as_sym_int", "as_sym_bool", "as_sym_float")


def tensor_name(said: Json) -> str:
    """The name in {"as_tensor": {"name": ...}}."""
    return str(said["as_tensor"]["name"])


def read_argument(arg: Json, names: Mapping[str, Any]) -> Any:
    """What an argument stands for: a cell for a tensor, a number, a size, a dtype, a graph, a list of these, None."""
    if not isinstance(arg, dict) or len(arg) != 1:
        raise broken(f"an argument is {str(arg)[:80]}")
    ((kind, said),) = arg.items()
    if kind in ("as_float", "as_floats"):  # what JSON has no word for is a text, such as "-Infinity"
        return [float(v) for v in said] if kind == "as_floats" else float(said)
    if kind in PLAIN:
        return said
    if kind in NAMED:
        return one_of(said, names)
    match kind:
        case "as_none":
            return None
        case "as_tensor":
            return found(said["name"], names)
        case "as_tensors":
            return [found(t["name"], names) for t in said]
        case "as_optional_tensors":
            return [None if "as_none" in t else found(tensor_name(t), names) for t in said]
        case "as_optional_tensor":
            return None if "as_none" in said else found(tensor_name(said), names)
        case "as_sym_ints" | "as_sym_bools" | "as_sym_floats":
            return [one_of(s, names) for s in said]
        case "as_scalar_type":
            return element(said)
        case "as_graph":
            return said["graph"]
        case _ if kind in WORDS:
            return said
    raise Unsupported(f"an argument of the kind {kind.removeprefix('as_')} is not handled", label="torch_export.C7")


def one_of(said: Json, names: Mapping[str, Any]) -> Any:
    """A number, or what has a name: {"as_int": 3}, {"as_name": "sym_size"}."""
    if "as_name" in said:
        return found(said["as_name"], names)
    ((_, value),) = said.items()
    if not isinstance(value, (bool, int, float)):
        raise broken(f"a number is {str(value)[:80]}")
    return value


def found(name: str, names: Mapping[str, Any]) -> Any:
    """What a name stands for."""
    if name not in names:
        raise broken(f"{name} is used and is not defined")
    return names[name]


def plain(value: Any) -> Any:
    """A value with the tensors in place of their cells."""
    if isinstance(value, TensorCell):
        return value.get()
    if isinstance(value, list):
        return [plain(v) if not isinstance(v, list) else v for v in value]
    assert not isinstance(value, tuple) or not any(isinstance(v, Expr) for v in value)
    return value
