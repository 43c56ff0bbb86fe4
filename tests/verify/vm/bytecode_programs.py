"""Small programs, compiled to bytecode, in which one thing each can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from assay.lower.devices import default_config
from assay.lower.vm import to_bytecode
from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, Instruction
from assay.semantics.devices import GLOBAL
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.verify.app.stages import lowering_passes

One = TypeVar("One", bound=Instruction)
HEAD = """
n = TypeVar("n")
m = TypeVar("m")
k = TypeVar("k")
@I.ir_module
class Module:
"""
F, FM, B, S = (
    "R.Tensor((n,), 'float32')",
    "R.Tensor((m,), 'float32')",
    "R.Tensor((), 'bool')",
    "R.Tensor((), 'float32')",
)

PROGRAMS = {
    "choice": f"""
    @R.function
    def main(c: {B}, x: {F}, y: {F}) -> {F}:
        if c:
            r = R.exp(R.subtract(x, y))
        else:
            r = R.tanh(R.add(x, y))
        return R.sqrt(r)
""",
    "chain": f"""
    @R.function
    def main(x: {F}, y: {FM}) -> R.Tuple({F}, {FM}):
        a = R.exp(x)
        b = R.tanh(a)
        c = R.sqrt(b)
        d = R.subtract(c, b)
        e = R.exp(y)
        return (d, e)
""",
    "closures": f"""
    @R.function
    def main(x: {F}, y: {F}, z: {F}) -> R.Tuple({F}, {F}):
        @R.function
        def f(t: {F}) -> {F}:
            return R.subtract(R.subtract(x, y), t)
        @R.function
        def g(t: {F}) -> {F}:
            return R.exp(R.subtract(t, x))
        return (f(z), g(f(y)))
""",
    "made": f"""
    @A.data
    class Choice:
        one = ({S},)
        two = ({S}, {S})

    @R.function
    def less(v: Choice) -> {S}:
        match v:
            case Choice.one(a):
                return R.exp(a)
            case Choice.two(a, b):
                return R.subtract(a, b)

    @R.function
    def main(x: {S}, y: {S}) -> R.Tuple({S}, {S}):
        return (less(Choice.two(x, y)), less(Choice.one(y)))
""",
    "sizes": f"""
    @R.function
    def main(x: {F}, y: {FM}) -> R.Tuple(R.Tensor(("n + m",), "float32"), R.Tensor((n, m), "float32")):
        a = R.concat((x, y), axis=0)
        b = R.full(R.shape([n, m]), R.const(1, "float32"), dtype="float32")
        return (a, b)
""",
    "effects": f"""
    @R.function(pure=False)
    def main(x: {S}, y: {S}) -> {S}:
        r = A.ref(x)
        R.print(x, y, format="x {{}} y {{}}")
        R.print(y, format="y {{}}")
        R.assert_op(R.less(x, y), x, format="too large: {{}}")
        a = A.read(r)
        A.write(r, y)
        b = A.read(r)
        return R.subtract(a, b)
""",
    "calls": f"""
    @R.function
    def down(i: {S}, x: {F}) -> {F}:
        if R.less(i, R.const(2, "float32")):
            r = R.exp(x)
        else:
            r = down(R.subtract(i, R.const(1, "float32")), x)
        return r

    @R.function
    def up(i: {S}, x: {F}) -> {F}:
        return R.tanh(x)

    @R.function
    def main(x: {F}, i: {S}) -> {F}:
        return R.exp(down(i, up(i, x)))
""",
    "casts": f"""
    @R.function
    def main(x: {F}, y: {FM}) -> R.Tuple({F}, R.Tensor((k, "n * 2"), "float32")):
        a = R.match_cast(y, {F})
        b = R.add(x, a)
        z = R.full(R.shape([n, n * 2]), R.const(1, "float32"), dtype="float32")
        c = R.match_cast(z, R.Tensor((k, "n * 2"), "float32"))
        d = R.exp(c)
        return (b, d)
""",
    "itself": f"""
    @R.function
    def main(i: {S}, x: {F}, y: {F}) -> {F}:
        if R.less(i, R.const(1, "float32")):
            r = R.exp(x)
        else:
            r = main(R.subtract(i, R.const(1, "float32")), y, x)
        return r
""",
    "ways": f"""
    @R.function
    def main(d: {B}, c: {B}, x: {F}, z: {FM}) -> {FM}:
        if d:
            if c:
                p = R.match_cast(x, {FM})
            else:
                p = z
            r = R.exp(R.match_cast(p, {FM}))
        else:
            if c:
                q = x
            else:
                q = z
            r = R.tanh(R.match_cast(q, {FM}))
        return r
""",
    "devices": f"""
    @R.function
    def main(x: {F}) -> {F}:
        a = A.on(R.exp(x), "cuda:0")
        return A.on(R.sqrt(a), "cpu:0")
""",
    "views": """
    @R.function
    def main(x: R.Tensor((n, 4), "float32")) -> R.Tuple(R.Tensor((n, 2, 2), "float32"), R.Tensor((n, 4), "float32")):
        a = R.reshape(R.exp(x), R.shape([n, 2, 2]))
        b = R.tanh(x)
        c = R.sqrt(b)
        return (a, c)
""",
}


def lowered(module: Module) -> Module:
    """A module as the stage gets it, each call by itself."""
    for name, run in lowering_passes().items():
        if name in ("devices", "anf", "legalize", "constants"):
            module = run(module)
    return module


@cache
def program(name: str) -> Module:
    """A program as the stage gets it."""
    return lowered(parse(HEAD + PROGRAMS[name], name))


@cache
def compiled(name: str) -> Module:
    """What the stage makes of it."""
    return made_of(program(name))


def made_of(module: Module) -> Module:
    """Bytecode, for the host that the module asks for."""
    config = default_config(module)
    return to_bytecode(module) if config is None else to_bytecode(module, replace(config.host, scope=GLOBAL))


# --- changes ---------------------------------------------------------------------------------------------------------


Change = Callable[[Bytecode], Bytecode]


def places(code: Bytecode, function: str, kind: type[Instruction]) -> list[int]:
    """The numbers of the instructions of a kind in a function."""
    return [k for k, i in enumerate(code.functions[function].body) if isinstance(i, kind)]


def put(code: Bytecode, function: str, body: list[Instruction]) -> Bytecode:
    """The code with another text of a function."""
    return replace(code, functions={**code.functions, function: replace(code.functions[function], body=tuple(body))})


def edited(kind: type[One], change: Callable[[One], Any], which: int = 0, function: str = "main") -> Change:
    """One instruction of a kind is another, several, or none."""

    def apply(code: Bytecode) -> Bytecode:
        at = places(code, function, kind)[which]
        body = list(code.functions[function].body)
        made = change(body[at])  # type: ignore[arg-type]
        new = list(made) if isinstance(made, (list, tuple)) else [made]
        return put(
            code, function, [*_moved(body[:at], at, len(new) - 1), *new, *_moved(body[at + 1 :], at, len(new) - 1)]
        )

    return apply


def _moved(body: list[Instruction], at: int, by: int) -> list[Instruction]:
    jumps = (vm.Jump, vm.JumpUnless, vm.JumpUnlessMade)
    return [replace(i, target=i.target + by) if isinstance(i, jumps) and i.target > at else i for i in body]


def exchanged(
    first: tuple[type[Instruction], int], second: tuple[type[Instruction], int], function: str = "main"
) -> Change:
    """Two instructions have changed places."""

    def apply(code: Bytecode) -> Bytecode:
        a, b = (places(code, function, kind)[which] for kind, which in (first, second))
        body = list(code.functions[function].body)
        body[a], body[b] = body[b], body[a]
        return put(code, function, body)

    return apply


def without_kills(code: Bytecode) -> Bytecode:
    """The code without its kills, so that nothing but what is planted is wrong with its registers."""
    for name in code.functions:
        while found := places(code, name, vm.Kill):
            body = list(code.functions[name].body)
            at = found[0]
            code = put(code, name, [*_moved(body[:at], at, -1), *_moved(body[at + 1 :], at, -1)])
    return code
