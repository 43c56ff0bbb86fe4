"""The form of a program's JSON (specs/lower.md, "torch.export"; PyTorch: torch/_export/serde/schema.py).

What the translation reads is looked at once, here, so that a damaged file is said to be one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay.lower.frontends.torch_export.archive import Json, broken, inner_graphs
from assay.semantics.walk import pre_order

Check = Callable[[Any], bool]


def _dict(x: Any) -> bool:
    return isinstance(x, dict)


def _list(x: Any) -> bool:
    return isinstance(x, list)


def _text(x: Any) -> bool:
    return isinstance(x, str)


def _whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _number(x: Any) -> bool:
    return isinstance(x, (int, float)) or x in ("Infinity", "-Infinity", "NaN")


def _limit(x: Any) -> bool:
    return x is None or _whole(x)


def _size(x: Any) -> bool:
    if not _dict(x) or len(x) != 1:
        return False
    return _whole(x.get("as_int")) or _expression(x.get("as_expr"))


def _expression(x: Any) -> bool:
    return _dict(x) and _text(x.get("expr_str"))


def _sizes(x: Any) -> bool:
    return _list(x) and all(map(_size, x))


def _named(x: Any) -> bool:
    return _dict(x) and _text(x.get("name"))


def _sym(x: Any) -> bool:
    return _dict(x) and len(x) == 1 and (_text(x.get("as_name")) or isinstance(next(iter(x.values())), (int, float)))


def _each(check: Check) -> Check:
    return lambda x: _list(x) and all(map(check, x))


def _maybe_tensor(x: Any) -> bool:
    return _dict(x) and len(x) == 1 and ("as_none" in x or _named(x.get("as_tensor")))


def _bool(x: Any) -> bool:
    return isinstance(x, bool)


ARGUMENTS: Mapping[str, Check] = {
    "as_none": lambda x: True, "as_tensor": _named, "as_tensors": _each(_named), "as_int": _whole,
    "as_ints": _each(_whole), "as_float": _number, "as_floats": _each(_number), "as_string": _text,
    "as_strings": _each(_text), "as_bool": _bool, "as_bools": _each(_bool), "as_sym_int": _sym,
    "as_sym_ints": _each(_sym), "as_sym_bool": _sym, "as_sym_bools": _each(_sym), "as_sym_float": _sym,
    "as_sym_floats": _each(_sym), "as_scalar_type": _whole, "as_memory_format": _whole, "as_layout": _whole,
    "as_device": _dict, "as_optional_tensors": _each(_maybe_tensor), "as_optional_tensor": _maybe_tensor,
    "as_operator": _text, "as_complex": _dict, "as_graph": lambda x: _named(x) and _dict(x.get("graph")),
}  # fmt: skip
"""What stands in each kind of argument; other kinds are refused by name."""


def _argument(x: Any) -> bool:
    if not _dict(x) or len(x) != 1:
        return False
    ((kind, said),) = x.items()
    return kind not in ARGUMENTS or ARGUMENTS[kind](said)


def _input(x: Any) -> bool:
    return _dict(x) and _text(x.get("name", "")) and _argument(x.get("arg"))


def _node(x: Any) -> bool:
    return (
        _dict(x)
        and _text(x.get("target"))
        and _each(_input)(x.get("inputs"))
        and _each(_argument)(x.get("outputs"))
        and (x.get("name") is None or _text(x["name"]))
    )


def _meta(x: Any) -> bool:
    return (
        _dict(x)
        and _whole(x.get("dtype"))
        and _whole(x.get("layout"))
        and _sizes(x.get("sizes"))
        and _sizes(x.get("strides"))
        and _size(x.get("storage_offset"))
    )


def _value(x: Any) -> bool:
    if not _dict(x) or len(x) != 1:
        return False
    return _expression(x["as_expr"]) if "as_expr" in x else isinstance(next(iter(x.values())), (int, float))


def _values(check: Check) -> Check:
    return lambda x: _dict(x) and all(map(check, x.values()))


FIELDS: Mapping[str, Check] = {
    "inputs": _each(_argument), "outputs": _each(_argument), "nodes": _each(_node), "tensor_values": _values(_meta),
    "sym_int_values": _values(_value), "sym_bool_values": _values(_value), "sym_float_values": _values(_value),
}  # fmt: skip
"""The parts of a graph."""

SPECS: Mapping[str, Check] = {
    "user_input": lambda x: _argument(x.get("arg")),
    "parameter": lambda x: _named(x.get("arg")) and _text(x.get("parameter_name")),
    "buffer": lambda x: _named(x.get("arg")) and _text(x.get("buffer_name")),
    "tensor_constant": lambda x: _named(x.get("arg")) and _text(x.get("tensor_constant_name")),
    "constant_input": lambda x: _text(x.get("name")) and _dict(x.get("value")),
    "user_output": lambda x: _argument(x.get("arg")),
    "buffer_mutation": lambda x: _text(x.get("buffer_name")),
    "parameter_mutation": lambda x: _text(x.get("parameter_name")),
    "user_input_mutation": lambda x: _text(x.get("user_input_name")),
}


def _spec(x: Any) -> bool:
    if not _dict(x) or len(x) != 1:
        return False
    ((kind, said),) = x.items()
    return _dict(said) and (kind not in SPECS or SPECS[kind](said))


def _range(x: Any) -> bool:
    return _dict(x) and _limit(x.get("min_val")) and _limit(x.get("max_val"))


def require_form(program: Json) -> None:
    """Invalid (`torch_export.C1`): a part of the program that is read is not of its form."""
    module = program.get("graph_module")
    signature = module.get("signature") if isinstance(module, dict) else None
    if not isinstance(module, dict) or not isinstance(signature, dict):
        raise broken("its graph or its signature is missing")
    for name in ("input_specs", "output_specs"):
        if not _each(_spec)(signature.get(name)):
            raise broken(f"{name} of its signature is not of its form")
    if not _values(_range)(program.get("range_constraints", {})):
        raise broken("its range constraints are not of their form")
    if not _each(_text)(program.get("guards_code") or []):
        raise broken("its guards are not of their form")
    if not isinstance(module.get("graph"), dict):
        raise broken("its graph is missing")
    for graph in pre_order(module["graph"], inner_graphs):
        for name, check in FIELDS.items():
            if not check(graph.get(name, {} if name.startswith("sym_") else None)):
                raise broken(f"the part {name} of a graph is not of its form")
        _require_types(graph)


def _require_types(graph: Json) -> None:
    """Invalid: the type of a tensor, or the value of a size, that a graph defines is not said."""
    defined = [*graph["inputs"], *(o for n in graph["nodes"] for o in n["outputs"])]
    for said in defined:
        names = [said["as_tensor"]["name"]] if "as_tensor" in said else [t["name"] for t in said.get("as_tensors", ())]
        for name in names:
            if name not in graph["tensor_values"]:
                raise broken(f"the type of {name} is not said")
        size = said.get("as_sym_int", {}).get("as_name")
        if size is not None and size not in graph.get("sym_int_values", {}):
            raise broken(f"the value of the size {size} is not said")
