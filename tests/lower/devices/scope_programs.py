"""Programs with open memory scopes (rule M6.23)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Expr, Function, Let, Var
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.semantics.walk import post_order

DOUBLE = """
    @T.prim_func(private=True)
    def double(x: T.Buffer((4,), "float32", scope=""), y: T.Buffer((4,), "float32", scope="")):
        flat = T.decl_buffer((2, 2), "float32", data=x.data)
        for i in range(4):
            y[i] = flat[i // 2, i % 2] * T.float32(2)
"""

TWICE = """
    @T.prim_func(private=True)
    def twice(a: T.Buffer((4,), "float32", scope=""), b: T.Buffer((4,), "float32", scope="global.texture"), c: \
T.Buffer((4,), "float32", scope="")):
        T.func_attr({"num_outputs": 1})
        with T.sblock("root"):
            t = T.alloc_buffer((4,), "float32", scope="")
            row = T.decl_buffer((2, 2), "float32", data=a.data)
            part = T.decl_buffer((4,), "float32", data=row.data)
            Module.double(part.data, t.data)
            for i in range(4):
                with T.sblock("sum"):
                    vi = T.axis.spatial(4, i)
                    T.reads(t[vi], b[vi], a[vi])
                    T.writes(c[vi])
                    z = T.match_buffer(part[vi], (1,), "float32")
                    c[vi] = t[vi] + b[vi] + z[0]
"""

TAKES = """
    @T.prim_func(private=True)
    def takes(x: T.Buffer((4,), "float32", scope="A"), y: T.Buffer((4,), "float32", scope="")):
        for i in range(4):
            y[i] = x[i] + T.float32(1)
"""


def functions(*texts: str) -> Module:
    """A module of tensor functions."""
    return parse("@I.ir_module\nclass Module:\n" + "\n".join(t.strip("\n") for t in texts))


def buffer(name: str, scope: str | None = "", shape: str = "(4,)") -> str:
    """A parameter; None says no scope, as TVM prints it."""
    said = "" if scope is None else f', scope="{scope}"'
    return f'{name}: T.Buffer({shape}, "float32"{said})'


def function(name: str, params: list[str], body: str, outputs: int = 1) -> str:
    """A tensor function; lines of `body` begin at no depth."""
    lines = [f'T.func_attr({{"num_outputs": {outputs}}})', *body.strip("\n").split("\n")]
    return "\n".join(
        ["    @T.prim_func(private=True)", f"    def {name}({', '.join(params)}):", *(f"        {x}" for x in lines)]
    )


def main(*lines: str, params: str = "x y") -> str:
    """A graph function of tensors of four numbers; `f(a, b)` calls the tensor function f, the last line is the
    result."""
    of = 'R.Tensor((4,), "float32")'
    text = ["    @R.function", f"    def main({', '.join(f'{p}: {of}' for p in params.split())}):"]
    for line in lines[:-1]:
        name, call = line.split(" = ")
        func, args = call.rstrip(")").split("(")
        text.append(f"        {name} = R.call_tir(Module.{func}, ({args},), out_ty={of})")
    return "\n".join([*text, f"        return {lines[-1]}"])


def placed(module: Module, scopes: dict[str, str]) -> Module:
    """The module as if planned: in `main` each variable, and what it names, is on one device in the scope of its name,
    or in the main memory."""
    d = module.main
    new: dict[Expr, Expr] = {}

    def on(node: Any, name: str) -> Any:
        return replace(node, device=VirtualDevice("cuda", 0, "cuda", scopes.get(name, "global")))

    for p in d.params:
        new[p] = on(p, p.name)
    for node in post_order(d.body):
        if isinstance(node, Let):
            new[node.var] = on(node.var, node.var.name)
    names = {id(n.value): n.var.name for n in post_order(d.body) if isinstance(n, Let)}
    for node in post_order(d.body):
        if not isinstance(node, Var):
            made = node.with_children([new[c] for c in node.children])
            if isinstance(made, Let):
                var = new[made.var]
                assert isinstance(var, Var)
                made = replace(made, var=var)
            new[node] = on(made, names.get(id(node), ""))
    params = tuple(p for q in d.params if isinstance(p := new[q], Var))
    made = replace(d, params=params, body=new[d.body])
    assert isinstance(made, Function)
    return module.with_(main=made)


def random_module(seed: int) -> Module:
    """A few tensor functions with open scopes that view what they get and hand it on, and a graph that calls them."""
    rng = random.Random(seed)
    texts: list[str] = []
    names: list[tuple[str, list[str]]] = []
    for k in range(rng.randint(1, 5)):
        scopes = [rng.choice(["", "", "", "global", "A"]) for _ in range(2)]
        lines = [f't = T.alloc_buffer((4,), "float32", scope="{rng.choice(["", "", "global"])}")']
        reads = ["x"]
        for v in range(rng.randint(0, 3)):
            lines.append(f'v{v} = T.decl_buffer((4,), "float32", data={rng.choice(reads)}.data)')
            reads.append(f"v{v}")
        source = rng.choice(reads)
        usable = [n for n, s in names if s[0] in ("", scopes[0]) and s[1] in ("", "global")]
        if usable:
            lines.append(f"Module.{rng.choice(usable)}({source}.data, t.data)")
        else:
            lines += ["for i in range(4):", f"    t[i] = {source}[i] * T.float32({k + 2})"]
        out = "y"
        if rng.random() < 0.5:
            lines.append('w = T.decl_buffer((4,), "float32", data=y.data)')
            out = "w"
        lines += ["for i in range(4):", f"    {out}[i] = t[i] + {rng.choice(reads)}[3 - i]"]
        texts.append(function(f"f{k}", [buffer("x", scopes[0]), buffer("y", scopes[1])], "\n".join(lines)))
        names.append((f"f{k}", scopes))
    calls, made = [], ["x", "y"]
    for k in range(rng.randint(1, 6)):
        calls.append(f"u{k} = {rng.choice(names)[0]}({rng.choice(made)})")
        made.append(f"u{k}")
    return functions(*texts, main(*calls, made[-1]))
