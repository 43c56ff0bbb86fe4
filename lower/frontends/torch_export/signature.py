"""Which inputs and outputs of a program are whose (specs/lower.md, "torch.export")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assay.lower.frontends.torch_export.archive import Archive, Array, Json, broken
from assay.semantics.errors import Unsupported


@dataclass(frozen=True)
class Input:
    """An input of the graph: what a user gives, a parameter, a buffer or a constant, or a fixed value."""

    name: str
    kind: str
    """user, parameter, buffer, constant or value."""
    target: str = ""
    """The name of the parameter, the buffer or the constant in the module."""
    value: Any = None
    is_size: bool = False
    """Whether it is a whole number that sizes hang on."""
    size: Json = field(default_factory=dict)

    @property
    def written_as(self) -> str:
        """What its value is called as a result, where the program writes to it."""
        return self.target or f"{self.name}_written"


@dataclass(frozen=True)
class ProgramInterface:
    """The inputs of a program, and the names of its outputs; in the order of the graph."""

    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    mutations: frozenset[str]
    """The buffers that an output is the new value of."""
    names_written: frozenset[str]
    """The names of tensors that a node of the graph may write to."""

    @property
    def written(self) -> frozenset[str]:
        """The buffers and parameters that a program may write to, by name in the module."""
        own = frozenset(i.target for i in self.inputs if i.name in self.names_written)
        return self.mutations | own


def own_name(name: str) -> str:
    """A name of the program as one of ours."""
    plain = re.sub(r"\W", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) else f"v{plain}"


def interface(program: Json) -> ProgramInterface:
    """The inputs and outputs of a program."""
    graph, signature = program["graph"], program["signature"]
    if len(graph["inputs"]) != len(signature["input_specs"]) or len(graph["outputs"]) != len(signature["output_specs"]):
        raise broken("its signature has another number of inputs or outputs than its graph")
    pairs = zip(graph["inputs"], signature["input_specs"], strict=True)
    inputs = tuple(_input(arg, spec, graph) for arg, spec in pairs)
    outputs, mutations = [], set()
    for arg, spec in zip(graph["outputs"], signature["output_specs"], strict=True):
        name, mutated = _output(arg, spec)
        outputs.append(name)
        mutations |= {mutated} if mutated else set()
    nodes = graph["nodes"]
    written = {i["arg"]["as_tensor"]["name"] for n in nodes for i in written_by(n) if "as_tensor" in i["arg"]}
    if written:  # a view of one may be written to
        written |= {i["arg"]["as_tensor"]["name"] for n in nodes for i in n["inputs"] if "as_tensor" in i["arg"]}
    return ProgramInterface(inputs, tuple(outputs), frozenset(mutations), frozenset(written))


DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
UNCHANGING = frozenset({"detach", *DROPOUTS})
"""Operators that write nothing in inference, though they are in place: the result is the operand."""


STATISTICS = frozenset({"batch_norm", "native_batch_norm", "_native_batch_norm_legit"})
"""Operators that in training write to their running statistics, which their names do not say."""


def written_by(node: Json) -> list[Json]:
    """The inputs of a node among which those are that it writes to."""
    target, inputs = str(node["target"]), list(node["inputs"])
    if is_in_place(target):
        return [] if name_of(target) in UNCHANGING else inputs
    if target.startswith("torch.ops.aten.") and target.split(".")[3] in STATISTICS:
        trained = any(i["name"] == "training" and i["arg"].get("as_bool") for i in inputs)
        return [i for i in inputs if trained and i["name"] in ("running_mean", "running_var")]
    return []


def is_in_place(target: str) -> bool:
    """Whether an operator may write to its first operand: its name ends with one `_`."""
    name = target.removeprefix("torch.ops.").split(".")
    return len(name) > 1 and name[1].endswith("_") and not name[1].endswith("__")


def name_of(target: str) -> str:
    """The name of an operator in place, as the one that is not has it."""
    return target.removeprefix("torch.ops.").split(".")[1].removesuffix("_")


def _input(arg: Json, spec: Json, graph: Json) -> Input:
    ((kind, said),) = spec.items()
    if kind == "constant_input":
        ((_, value),) = said["value"].items() if said["value"] else (("as_none", None),)
        return Input(str(said["name"]), "value", value=None if "as_none" in said["value"] else value)
    if kind == "user_input":
        ((form, of),) = arg.items()
        if form == "as_tensor":
            return Input(str(of["name"]), "user")
        if form == "as_sym_int":
            return Input(str(of["as_name"]), "user", is_size=True, size=graph["sym_int_values"][of["as_name"]])
        raise Unsupported(f"an input that is {form.removeprefix('as_')} is not handled", label="torch_export.C2")
    if kind == "token":  # what orders effects
        return Input(str(said["arg"]["name"]), "value")
    names = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
    if kind not in names:
        raise Unsupported(f"an input that is {kind} is not handled", label="torch_export.C2")
    return Input(str(said["arg"]["name"]), kind.removeprefix("tensor_"), str(said[names[kind]]))


def _output(arg: Json, spec: Json) -> tuple[str, str]:
    """The name of an output, and the buffer that it is the new value of."""
    ((kind, said),) = spec.items()
    match kind:
        case "user_output":
            ((form, of),) = arg.items()
            if form == "as_tensor":
                return str(of["name"]), ""
            if form in ("as_sym_int", "as_sym_float", "as_sym_bool"):
                return str(of.get("as_name", "number")), ""
            return "value", ""
        case "buffer_mutation":
            return str(said["buffer_name"]), str(said["buffer_name"])
        case "parameter_mutation":
            return str(said["parameter_name"]), str(said["parameter_name"])
        case "user_input_mutation":
            return f"{said['user_input_name']}_written", ""
        case "token":
            return "value", ""
    raise Unsupported(f"an output that is {kind} is not handled", label="torch_export.C2")


def with_values(archive: Archive, values: Mapping[str, Array]) -> Archive:
    """The archive with these elements for the buffers of these names. Unsupported (`torch_export.C7`): a name is that
    of several of its tensors."""
    weights, constants = dict(archive.weights), dict(archive.constants)
    for name, value in values.items():
        found = [(t, n) for t in (weights, constants) for n in t if own_name(n) == name]
        if len(found) != 1:
            message = f"another value for {name} cannot be given: {len(found)} tensors of the program have this name"
            raise Unsupported(message, label="torch_export.C7")
        ((table, target),) = found
        table[target] = value
    return replace(archive, weights=weights, constants=constants)
