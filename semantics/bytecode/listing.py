"""Bytecode as text for people: it reads like assembly, with the names of the source (specs/semantics.md;
specs/vm.md, "Listing").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from assay.semantics import bytecode as vm
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.scalar import Dim, Var as Size, show


def listing(code: vm.Bytecode) -> Iterator[str]:
    """The lines of an executable."""
    yield f"inputs {', '.join(code.inputs) or 'none'}; outputs {', '.join(code.outputs) or 'none'}"
    yield from (f"late constant {name}: {of}" for name, of in code.late.items())
    for function in code.functions.values():
        yield ""
        yield from function_listing(function)


def function_listing(function: vm.BytecodeFunction) -> Iterator[str]:
    """The lines of a function: its head, then each instruction with its number; > stands where one jumps to."""
    text = Words(function)
    params = [f"{text.register(i)}: {of}" for i, of in enumerate(function.parameters)]
    captured = f"[{', '.join(params[: function.captured])}]" if function.captured else ""
    inherited = function.sizes[: function.inherited]
    over = f" over {', '.join(v.name for v in inherited)}" if inherited else ""
    yield f"function {function.name}{captured}({', '.join(params[function.captured :])}) -> {function.result}{over}"
    yield from (f"  {told_limit(*limit)}" for limit in function.limits)
    targets = {vm.target(i) for i in function.body}
    width = len(str(len(function.body)))
    for number, instruction in enumerate(function.body):
        mark = ">" if number in targets else " "
        where = f"  # {instruction.span}" if instruction.span is not None else ""
        yield f"{mark} {number:>{width}}  {text.instruction(instruction)}{where}"


class Words:
    """The words for the instructions of one function."""

    def __init__(self, function: vm.BytecodeFunction) -> None:
        self.names = function.names

    def register(self, r: vm.Register) -> str:
        """A register: its number, and its name in the source if it has one."""
        return f"%{r} {self.names[r]}" if r in self.names else f"%{r}"

    def registers(self, some: Iterable[vm.Register]) -> str:
        """Registers, with commas."""
        return ", ".join(map(self.register, some))

    def instruction(self, i: vm.Instruction) -> str:
        """One instruction, without its place in the source."""
        found = self._value(i) or self._call(i) or self._control(i)
        if found is None:
            raise TypeError(f"{type(i).__name__} is no instruction")
        return found

    def _value(self, i: vm.Instruction) -> str | None:
        r, rs = self.register, self.registers
        match i:
            case vm.LoadConstant():
                return f"{r(i.to)} = constant {i.name}"
            case vm.LoadExtern():
                return f"{r(i.to)} = extern {i.name}: {i.type}"
            case vm.LoadConstructor():
                return f"{r(i.to)} = constructor {i.data}.{i.constructor}"
            case vm.Move():
                return f"{r(i.to)} = {r(i.of)}"
            case vm.MakeTuple():
                return f"{r(i.to)} = tuple ({rs(i.fields)})"
            case vm.GetField():
                return f"{r(i.to)} = field {i.index} of {r(i.of)}"
            case vm.MakeData():
                return f"{r(i.to)} = make {i.type.name}.{i.constructor} ({rs(i.fields)}): {i.type}"
            case vm.MakeClosure():
                own = f" itself {i.itself}" if i.itself is not None else ""
                return f"{r(i.to)} = closure {i.function} [{rs(i.captured)}]{own}{_over(i.sizes)}"
            case vm.MakeShape():
                return f"{r(i.to)} = shape ({_dims(i.dims)}){' of any sign' if i.any_sign else ''}"
            case vm.ShapeOfTensor():
                return f"{r(i.to)} = shape of {r(i.of)}"
            case vm.ReadShape():
                return f"{r(i.to)} = read shape {r(i.of)}{' of any sign' if i.any_sign else ''}"
            case vm.MakeReference():
                return f"{r(i.to)} = reference {r(i.of)}"
            case vm.ReadReference():
                return f"{r(i.to)} = read {r(i.of)}"
            case vm.WriteReference():
                return f"write {r(i.of)} = {r(i.value)}"
            case vm.Kill():
                return f"kill {rs(i.registers)}"
            case vm.AllocateStorage():
                return f"{r(i.to)} = storage {show(i.nbytes)} bytes, align {i.alignment}{_on(i.device)}"
            case vm.AllocateTensor():
                return f"{r(i.to)} = tensor {i.type} in {r(i.storage)} at {show(i.offset)}"
            case vm.ViewTensor():
                return f"{r(i.to)} = view {r(i.of)} as {i.type}"
            case _:
                return None

    def _call(self, i: vm.Instruction) -> str | None:
        r, rs = self.register, self.registers
        match i:
            case vm.InvokeKernel():
                scalars = f", scalars ({_dims(i.scalars)})" if i.scalars else ""
                hidden = f", sizes ({_dims(i.hidden)})" if i.hidden else ""
                scratch = f", scratch ({rs(i.scratch)})" if i.scratch else ""
                more = f"{scalars}{hidden}{scratch}{_on(i.device)}"
                return f"invoke kernel {i.kernel} ({rs(i.reads)}) -> ({rs(i.writes)}){more}"
            case vm.InvokeFunction():
                return f"{r(i.to)} = invoke {i.function} ({rs(i.arguments)}): {i.type}"
            case vm.InvokeClosure():
                acts = " acts" if i.acts else ""
                return f"{r(i.to)} = invoke closure {r(i.closure)} ({rs(i.arguments)}): {i.type}{acts}"
            case vm.InvokeExtern():
                acts = " acts" if i.acts else ""
                return f"{r(i.to)} = invoke extern {i.name} ({rs(i.arguments)}): {i.type}{acts}"
            case vm.ReturnCall():
                return f"return invoke {i.function} ({rs(i.arguments)}): {i.type}"
            case vm.ReturnCallClosure():
                acts = " acts" if i.acts else ""
                return f"return invoke closure {r(i.closure)} ({rs(i.arguments)}): {i.type}{acts}"
            case _:
                return None

    def _control(self, i: vm.Instruction) -> str | None:
        r, rs = self.register, self.registers
        match i:
            case vm.MatchType():
                binds = f" binds {', '.join(v.name for v in i.binds)}" if i.binds else ""
                return f"match {r(i.of)}: {i.type}{binds}, else {i.label} ({i.what})"
            case vm.Jump():
                return f"jump {i.target}"
            case vm.JumpUnless():
                return f"jump {i.target} unless {r(i.condition)}"
            case vm.JumpUnlessMade():
                return f"jump {i.target} unless {r(i.of)} is {i.constructor}"
            case vm.Return():
                return f"return {r(i.of)}"
            case vm.Fail():
                return f"fail {i.kind} {i.label}: {i.message}"
            case vm.RequireTrue():
                shown = f", else {i.format!r} ({rs(i.shown)})" if i.shown or i.format else ""
                return f"require {r(i.condition)}{shown}"
            case vm.PrintRegisters():
                return f"print {i.format!r} ({rs(i.shown)})"
            case _:
                return None


def told_limit(size: Size, least: int, most: int | None) -> str:
    """A limit of a size: "n from 0 to 8"."""
    return f"{size.name} from {least}{'' if most is None else f' to {most}'}"


def _dims(some: Sequence[Dim]) -> str:
    return ", ".join(map(show, some))


def _over(sizes: Sequence[Dim]) -> str:
    return f" over {_dims(sizes)}" if sizes else ""


def _on(device: VirtualDevice) -> str:
    return f" on {device}" if device != ANYWHERE else ""
