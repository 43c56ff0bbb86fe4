"""What PyTorch runs: a subject's graph as calls of its functions, or the program of torch.export that it was read from
(specs/verify.md, "Backends").
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeAlias

from assay.lower.frontends.torch_export.signature import own_name
from assay.semantics.names import unused
from assay.verify.backends.protocol import Subject, cannot

Compiled: TypeAlias = Callable[..., Any]
"""A module of PyTorch, or what was compiled of one: from tensors to tensors."""

QUANTIZED = b"torch.ops.quantized_decomposed."
"""What a program names whose operators are defined by a module that PyTorch does not import itself."""


class OriginalProgram:
    """A program of torch.export, on its inputs by name, in the order in which its graph has them."""

    def __init__(self, torch: Any, subject: Subject, name: str) -> None:
        self.torch = torch
        if QUANTIZED in subject.original:
            with suppress(ImportError):  # what defines its operators; without them PyTorch says which are missing
                import_module("torch.ao.quantization.fx._decomposed")
        self.exported = torch.export.load(with_no_inputs(torch, subject.original))
        if self.exported.example_inputs == ((), {}):
            self.exported._example_inputs = None  # else PyTorch asks these for the names of the inputs
        self.names = [i.name for i in subject.model.graph.input]
        self.outputs = subject.outputs
        self.name = name

    def decompose(self) -> None:
        """The same program in PyTorch's core operators."""
        self.exported = self.exported.run_decompositions()

    def move(self, device: str) -> None:
        """The same program on a device: its parameters, its constants, and the tensors that it makes."""
        from torch.export.passes import move_to_device_pass  # type: ignore[import-not-found,unused-ignore]

        self.exported = move_to_device_pass(self.exported, device)

    def module(self) -> Any:
        """The program as a module of PyTorch."""
        return self.exported.module()

    def arguments(self, tensors: Mapping[str, Any]) -> tuple[Any, Any]:
        """Positional and named arguments: what a user gives, in the trees in which the program takes it."""
        spec = self.torch.export.graph_signature
        given = iter(self.names)
        leaves: list[Any] = []
        for s in self.exported.graph_signature.input_specs:
            if s.kind is not spec.InputKind.USER_INPUT:
                continue
            if isinstance(s.arg, spec.ConstantArgument):
                leaves.append(s.arg.value)
            elif isinstance(s.arg, spec.SymIntArgument):
                leaves.append(int(tensors[next(given)]))
            else:
                leaves.append(tensors[next(given)])
        args, named = self.torch.utils._pytree.tree_unflatten(leaves, self.exported.call_spec.in_spec)
        return args, named

    def results(self, given: Any, module: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The results by the names that the subject has for them: what the program gives and what it writes to."""
        spec = self.torch.export.graph_signature
        leaves = iter(self.torch.utils._pytree.tree_leaves(given, is_leaf=lambda x: x is None))
        found: dict[str, Any] = {}

        def add(name: str, value: Any) -> None:
            found[unused(own_name(name), found, self.names)] = value

        for s in self.exported.graph_signature.output_specs:
            match s.kind:
                case spec.OutputKind.USER_OUTPUT:
                    value = next(leaves)
                    if not isinstance(s.arg, spec.ConstantArgument):
                        add(s.arg.name, value)
                case spec.OutputKind.BUFFER_MUTATION | spec.OutputKind.PARAMETER_MUTATION:
                    add(s.target, self.state(module, s.target))
                case spec.OutputKind.USER_INPUT_MUTATION:
                    add(f"{s.target}_written", inputs[s.target])
        for name in self.outputs:
            if name not in found:
                found[name] = self.written(name, module, inputs)
        return found

    def state(self, module: Any, target: str) -> Any:
        """A buffer or a parameter of the module."""
        return module.state_dict(keep_vars=True).get(target, getattr(module, target, None))

    def written(self, name: str, module: Any, inputs: Mapping[str, Any]) -> Any:
        """What a program that is not functional has written to: a buffer, or an input."""
        if name.endswith("_written") and name.removesuffix("_written") in inputs:
            return inputs[name.removesuffix("_written")]
        for target, value in [*module.named_buffers(), *module.named_parameters()]:
            if own_name(target) == name:
                return value
        raise cannot(self.name, f"the program has no {name}")


def with_no_inputs(torch: Any, archive: bytes) -> io.BytesIO:
    """An archive with a place for the inputs that its program was made with, which PyTorch asks for: they are none."""
    out = io.BytesIO(archive)
    with zipfile.ZipFile(out, "a") as file:
        root = file.namelist()[0].partition("/")[0]
        name = f"{root}/data/sample_inputs/model.pt"
        if name not in file.namelist():
            empty = io.BytesIO()
            torch.save(((), {}), empty)
            file.writestr(name, empty.getvalue())
    out.seek(0)
    return out


def original_run(
    torch: Any, subject: Subject, name: str, core: bool, compiled: Callable[[Any], Compiled], device: str = "cpu"
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A run of the program that a subject was read from, on a device: from tensors by name to results by name. What it
    writes to is as it was before the next run."""
    program = OriginalProgram(torch, subject, name)
    if device != "cpu":
        program.move(device)
    if core:
        program.decompose()
    module = program.module()
    call = compiled(module)
    first = {n: v.detach().clone() for n, v in [*module.named_buffers(), *module.named_parameters()]}

    def run(tensors: Mapping[str, Any]) -> dict[str, Any]:
        own = {n: t.clone() for n, t in tensors.items()}
        with torch.no_grad():
            for n, v in [*module.named_buffers(), *module.named_parameters()]:
                v.copy_(first[n])
            args, named = program.arguments(own)
            return program.results(call(*args, **named), module, own)

    return run


def torch_tensor(torch: Any, value: Any) -> Any:
    """A result as a tensor: a size is a whole number."""
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)
