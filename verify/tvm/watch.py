"""What a pipeline of TVM's passes makes of a module, pass by pass (specs/verify.md, "Inside a backend").

TVM calls an instrument after each pass, nested ones too. Modules are told apart by their structural hash, so a pass
that changes nothing costs one hash. Passes over tensor functions alone are shown as *kernel stages*: the graph
functions have been compiled apart by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp.graph.kernel_calls import flat
from assay.lower.frontends.tvm.objects import Object, handle, type_key
from assay.verify.backends.tvm_pipelines import WHOLE, CompileFailed, PassPlan, compile_plan, innermost
from assay.verify.tvm.peer import Array, as_numpy, call, pipeline_of, structural_hash, tvm, tvm_target

FINAL = "tirx.MakePackedAPI"
"""From this pass on a tensor function is a function of handles: what it means as TVM's tensors is no longer said."""

NESTED = ("FoldConstant",)
"""Passes that compile functions of their own: what happens inside is theirs."""


@dataclass(frozen=True, eq=False)
class Passed:
    """One pass that ran: its name, the passes around it, and the modules before and after."""

    name: str
    around: tuple[str, ...]
    before: Object
    after: Object
    mutated: bool
    """Whether the module that it was given is another one now."""


@dataclass(frozen=True, eq=False)
class WatchedPass:
    """A module that a pass left, as it differs from the one before."""

    name: str
    module: Object
    changed: tuple[str, ...]
    """The functions that are new or another than before."""
    gone: tuple[str, ...]
    graph: bool
    """Whether it has graph functions; else it is tensor functions alone."""


@dataclass
class Compilation:
    """The passes of one compilation, in the order in which they ended, and the machine that it made, or what failed."""

    source: Object
    passed: list[Passed] = field(default_factory=list)
    machine: Any = None
    failed: CompileFailed | None = None

    def idle(self) -> list[str]:
        """The passes of the plan that changed nothing, as it names them."""
        return [
            p.name
            for p in self.passed
            if p.around == (WHOLE,) and structural_hash(p.before) == structural_hash(p.after)
        ]

    def stages(self) -> Iterator[WatchedPass]:
        """The module itself, and what each pass that changed it made of it, up to what is read."""
        last: dict[str, tuple[int, int]] = {}
        kernels: set[str] = set()
        names: dict[str, int] = {}
        for name, module in [
            ("the module", self.source),
            *((p.name, p.after) for p in self.passed if not set(NESTED) & {*p.around}),
        ]:
            functions = {str(g.name_hint): f for g, f in module.functions.items()}
            graph = any(type_key(f) == "relax.expr.Function" for f in functions.values())
            if not graph and not (functions and functions.keys() >= kernels):
                continue  # a function that is compiled apart
            if name == FINAL:
                return
            now = dict(_hashes(functions, last))
            changed = tuple(n for n, (_, key) in now.items() if n not in last or last[n][1] != key)
            gone = tuple(n for n in last if n not in now and (graph or n in kernels))
            if not changed and not gone:
                continue
            names[name] = names.get(name, 0) + 1
            yield WatchedPass(name if names[name] == 1 else f"{name} #{names[name]}", module, changed, gone, graph)
            last = {**({} if graph else last), **now}
            kernels = {n for n, f in functions.items() if type_key(f) == "tirx.PrimFunc"}


def _hashes(
    functions: Mapping[str, Object], last: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """The identity and the hash of each function; the hash of the very same object is known."""
    for name, f in functions.items():
        known = last.get(name)
        yield name, (handle(f), known[1] if known is not None and known[0] == handle(f) else structural_hash(f))


def watch(mod: Object, pipeline: Any = "default", mutations: bool = False) -> Compilation:
    """Compile a module and keep what each pass made of it. `pipeline` is passes and pipelines by their names, or a pass
    of TVM.

    With `mutations` each module that a pass is given is hashed before and after. Where TVM does not compile the module,
    what was made until then is kept, and what failed.
    """
    trace = Compilation(mod)
    open_: list[tuple[str, Object, int]] = []

    class Watch:
        def run_before_pass(self, before: Any, info: Any) -> None:
            open_.append((str(info.name), before, structural_hash(before) if mutations else 0))

        def run_after_pass(self, after: Any, info: Any) -> None:
            at = innermost([n for n, _, _ in open_], str(info.name))
            name, before, key = open_[at]
            del open_[at:]  # those inside of it have failed, and it went on after
            mutated = mutations and structural_hash(before) != key
            trace.passed.append(Passed(name, tuple(n for n, _, _ in open_), before, after, mutated))

    instrument = tvm().ir.instrument.pass_instrument(Watch)()
    plan = pipeline_of(pipeline) if isinstance(pipeline, str) else PassPlan((pipeline,))
    try:
        trace.machine = compile_plan(mod, plan, tvm_target(), [instrument])
    except CompileFailed as failed:
        trace.failed = failed
    return trace


def outputs(trace: Compilation, arguments: list[Any]) -> tuple[Array, ...]:
    """What the compiled code computes: the tensors of its result, left to right. CompileFailed (backend.C2) where there
    is none."""
    if trace.failed is not None:
        raise trace.failed
    return tuple(np.asarray(v) for v in flat([as_numpy(call(trace.machine, arguments))]))
