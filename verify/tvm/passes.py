"""Each pass of TVM judged: which one first changed the meaning (specs/verify.md, "Inside a backend")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assay.interp.values import same_bits
from assay.lower.frontends.tvm import ReadModule, read_tvm
from assay.lower.frontends.tvm.function_state import AS_DECLARED
from assay.lower.frontends.tvm.kernels import Kernels, KernelUse
from assay.lower.frontends.tvm.objects import Object, type_key
from assay.lower.frontends.tvm.scalars import VariableTable
from assay.semantics import rules
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.verify.legalize import why_outside
from assay.verify.tvm.intervals import module_bounds
from assay.verify.tvm.kernels import DEADLY
from assay.verify.tvm.meaning import KernelCall, RunOutcome, beyond, mismatched, observed, run_kernel
from assay.verify.tvm.peer import Array
from assay.verify.tvm.watch import Compilation, WatchedPass, outputs, watch

How = Literal["begin", "same", "rounded", "undecided", "changed", "refused", "fails", "claims", "not read"]
"""*begin*: what the others are compared with. *same*: bit for bit. *rounded*: rounded otherwise, inside what is
allowed. *undecided*: other numbers, and no bounds are known. *changed*: another meaning. *refused*: it is ill-formed,
such as a memory plan whose live tensors overlap. *claims*: the same values, but blocks that touch other than what they
say. *fails*: a pass or the compiled code ends with an error. *not read*: our import does not handle it; nothing is
claimed."""

WRONG: tuple[How, ...] = ("changed", "refused", "fails")

UNNOTICED = ("out of bounds", "unwritten read", "unwritten output")
"""Kinds of traps on memory: compiled code goes on."""

MISTYPED = "tvm.C11"
"""A variable that TVM says to be of another type than its value is."""
ILL_FORMED = (MISTYPED, "tvm.C5")
"""What is wrong with a module that no pass has changed, too; a tensor function that changes an operand is another."""

INTERFACE = "tvm.C22"
"""A pass that changes what main takes: nothing of what comes after can be run on the arguments."""

BRANCHES = "tvm.P5"
"""What our import refuses though a run may be right: memory written in a branch and allocated outside of it."""


@dataclass(frozen=True)
class JudgedPass:
    """The verdict on one pass. `function` is the one that changed; `detail` names the worst element."""

    name: str
    how: How
    detail: str = ""
    function: str = ""
    changed: tuple[str, ...] = ()
    why: str = ""
    """The kind of the trap, or the label of the rule, that the detail is about."""

    @property
    def wrong(self) -> bool:
        """Whether the pass changed the meaning."""
        return self.how in WRONG

    def __str__(self) -> str:
        at = f" ({self.function})" if self.function else ""
        return f"{self.name}: {self.how}{at}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class PassReport:
    """The verdicts on the passes that changed the module, in order; the last is on the compiled code."""

    pipeline: str
    verdicts: tuple[JudgedPass, ...]

    @property
    def first(self) -> JudgedPass | None:
        """The first pass that changed the meaning."""
        return next((v for v in self.verdicts if v.wrong), None)

    @property
    def holds(self) -> bool:
        """Whether no pass changed the meaning."""
        return self.first is None


@dataclass
class Judge:
    """Judges one stage after another. `meant` is what the module should mean, where that is known from outside."""

    arguments: Sequence[Any]
    meant: Module | None = None
    allowed: tuple[Any, ...] | None = None
    last: RunOutcome | None = None
    reading: ReadModule | None = None
    """The stage that was read last and did not trap where it must not, and what it gave."""
    trapped: bool = False
    """Whether the stage that was read last traps where it must not."""
    uses: dict[str, tuple[str, KernelUse]] = field(default_factory=dict)
    """How each tensor function is called, since the last stage with graph functions."""
    calls: dict[str, list[KernelCall]] = field(default_factory=dict)
    """The calls of each tensor function, by TVM's name, with what it last gave."""
    interface: str = ""
    """How the last stage of graph functions takes other arguments, if it does."""
    lost: bool = False
    """Whether a stage has lost the trap of the one before, and was told so."""
    ill: str = ""
    """The label of what made the stage before ill-formed: a fault is told once."""
    claims: str = ""
    """What blocks were seen to claim wrongly in the stage before: it is told once."""
    skipped: list[str] = field(default_factory=list)
    """The passes since the last that was judged."""

    def __post_init__(self) -> None:
        if self.meant is not None:
            self.allowed, _ = module_bounds(self.meant, self.arguments)

    def stage(self, stage: WatchedPass) -> JudgedPass:
        """The verdict on one stage."""
        try:
            judged = self.graph(stage) if stage.graph else self.kernels(stage)
            self.ill, self.interface = "", self.interface if not stage.graph else ""
            return judged
        except Invalid as wrong:
            unknown = isinstance(wrong, Unsupported) or self.last is None
            self.interface = str(wrong) if wrong.label == INTERFACE else ""
            if wrong.label in (BRANCHES, INTERFACE) or unknown and wrong.label not in ILL_FORMED:
                self.skipped.append(stage.name)
                return JudgedPass(stage.name, "not read", str(wrong), changed=stage.changed)
            again, self.ill = self.ill == wrong.label, wrong.label
            if again:
                return JudgedPass(stage.name, "same", f"it is ill-formed too: {wrong}", changed=stage.changed)
            return JudgedPass(
                stage.name, "refused", self.after(str(wrong)), self.blamed(stage), stage.changed, wrong.label
            )

    def after(self, detail: str) -> str:
        """`detail`, and which passes before were not judged, so that one of them may be the one."""
        return f"{detail}; not judged just before: {', '.join(self.skipped)}" if self.skipped else detail

    # --- stages with graph functions -----------------------------------------------------------------------------

    def graph(self, stage: WatchedPass) -> JudgedPass:
        """Read the module after a pass, run it, and compare with what it meant before."""
        reading = read_tvm(stage.module)
        rules.check(reading.module)
        got = observed(reading.module, self.arguments)
        if got.trap is not None and AS_DECLARED in str(got.trap.where):
            raise Invalid(got.trap.message, where=got.trap.where, label=MISTYPED)
        before, old, again = self.last, self.reading, self.trapped
        how, detail = self.compare(before, old, got, reading)
        if again and got.trap is not None:
            how = "same"
        function = self.blamed(stage, reading) if how in WRONG else ""
        if how in WRONG:
            detail = self.after(detail)
        elif got.claims and got.claims != self.claims:
            how, detail = "claims", got.claims
        self.claims = got.claims
        self.lost = self.lost or how == "changed" and before is not None and before.trap is not None
        self.trapped = before is not None and before.trap is None and got.trap is not None
        self.skipped = []
        if not self.trapped:
            self.last, self.reading = got, reading
        self.uses = dict(reading.uses)
        self.calls = {}
        for call in got.calls:
            self.calls.setdefault(call.name, []).append(call)
        why = got.trap.kind if how == "changed" and got.trap is not None else ""
        return JudgedPass(stage.name, how, detail, function, stage.changed, why)

    def compare(
        self, before: RunOutcome | None, old: ReadModule | None, got: RunOutcome, reading: ReadModule
    ) -> tuple[How, str]:
        """How an outcome stands to that of the stage before, and to what is meant."""
        if before is None:
            if got.trap is not None:
                return "begin", f"it traps on these inputs: {got.trap}"
            if self.allowed is None and self.meant is None:
                self.allowed, _ = module_bounds(reading.module, self.arguments)
            wrong = self.outside(got.values) if self.meant is not None else None
            return ("changed", wrong) if wrong else ("begin", "")
        if before.trap is not None:
            if got.trap is not None:
                lost = got.trap.kind in UNNOTICED and before.trap.kind not in UNNOTICED
                said = f"it traps: {got.trap}" + (
                    f", where compiled code goes on; before, {before.trap}" if lost else ""
                )
                return "changed" if lost else "same", said if got.trap.kind != before.trap.kind else ""
            return "changed", f"it no longer traps, as it did: {before.trap}"
        if got.trap is not None:
            return "changed", f"it traps: {got.trap}"
        if len(got.values) == len(before.values) and all(map(same_bits, before.values, got.values)):
            return "same", ""
        return self.rounded(before, old, got.values)

    def rounded(self, before: RunOutcome, old: ReadModule | None, got: Sequence[Array]) -> tuple[How, str]:
        """Results that are not bit for bit those before: inside what is allowed, or another meaning."""
        if self.allowed is not None and self.outside(before.values) is None:
            wrong = self.outside(got)
            return ("changed", wrong) if wrong else ("rounded", "")
        assert old is not None
        if (wrong := mismatched(before.values, got)) is not None:
            return "changed", wrong
        allowed, why = module_bounds(old.module, self.arguments)
        if allowed is None:
            return "undecided", f"{beyond(before.values, got)}; no bounds are known: {why}"
        wrong = beyond(allowed, got)
        return ("changed", wrong) if wrong else ("rounded", "")

    def outside(self, got: Sequence[Array]) -> str | None:
        """Where results are outside of what is allowed, if bounds are known."""
        return None if self.allowed is None else beyond(self.allowed, got)

    def blamed(self, stage: WatchedPass, reading: ReadModule | None = None) -> str:
        """The function that a pass made wrong: a tensor function that gives other results on the operands of the calls
        before, else the graph functions that changed."""
        for name, calls in self.calls.items() if reading is not None else ():
            assert reading is not None
            func = reading.module.kernels.get(name)
            if func is not None and self.uses[name][0] in stage.changed and _other(func, calls, reading.module):
                return name
        graphs = [n for n in stage.changed if type_key(_function(stage.module, n)) == "relax.expr.Function"]
        return ", ".join(graphs or stage.changed)

    # --- stages of tensor functions alone ------------------------------------------------------------------------

    def kernels(self, stage: WatchedPass) -> JudgedPass:
        """Each tensor function that changed, alone, on the operands of its calls."""
        functions = {str(g.name_hint): f for g, f in stage.module.functions.items()}
        judged = 0
        missing = [g for g in stage.gone if any(g == of for of, _ in self.uses.values())]
        if missing:
            return JudgedPass(
                stage.name, "changed", f"{', '.join(missing)} is no longer there", missing[0], stage.changed
            )
        kernels = Kernels(functions, VariableTable(), set(functions))
        for name, calls in [*self.calls.items()]:
            of, use = self.uses[name]
            if of not in stage.changed:
                continue
            func = kernels.get(of, use).func
            kernels.pending()
            made = Module({k.func.name: k.func for k in kernels.made.values()})
            rules.check(made)
            for k, call in enumerate(calls):
                judged += 1
                if (wrong := _difference(func, call, made)) is not None:
                    detail, why = f"call {k} of {of}: {wrong}", wrong.kind if isinstance(wrong, Trap) else ""
                    self.calls[name] = list(_again(func, calls, made))
                    return JudgedPass(stage.name, "changed", self.after(detail), of, stage.changed, why)
        called = {self.uses[name][0] for name in self.calls}
        unused = sorted(set(stage.changed) - called)
        said = f"{', '.join(unused)}: changed, and not called on these inputs" if unused and not judged else ""
        return JudgedPass(stage.name, "same", said, changed=stage.changed)

    def compiled(self, got: Sequence[Array]) -> JudgedPass:
        """The verdict on what the compiled code gives."""
        name = "the compiled code"
        if self.last is None or self.reading is None:
            return JudgedPass(name, "not read", "no stage was read")
        if self.last.trap is not None and not (self.lost and self.last.trap.kind in UNNOTICED):
            return JudgedPass(name, "changed", f"it gives a result; must trap: {self.last.trap}")
        if self.last.trap is not None:
            return JudgedPass(name, "same", f"it goes on: {self.last.trap}")
        if len(got) == len(self.last.values) and all(map(same_bits, self.last.values, got)):
            return JudgedPass(name, "same")
        how, detail = self.rounded(self.last, self.reading, got)
        return JudgedPass(name, how, detail)


def _function(mod: Object, name: str) -> Object:
    return next(f for g, f in mod.functions.items() if str(g.name_hint) == name)


def _other(func: PrimFunc, calls: Sequence[KernelCall], module: Module) -> bool:
    """Whether a tensor function gives other results than those calls did."""
    for call in calls:
        try:
            if _difference(func, call, module) is not None:
                return True
        except Invalid:
            return False
    return False


def _again(func: PrimFunc, calls: Sequence[KernelCall], module: Module) -> Iterator[KernelCall]:
    """Those calls with what a tensor function gives now, which the next stage is compared with; those of which it gives
    results."""
    for call in calls:
        with suppress(Trap):
            results = run_kernel(func, call.inputs, scalars=call.scalars, functions=module.kernels)
            yield replace(call, results=tuple(results))


def _difference(func: PrimFunc, call: KernelCall, module: Module) -> str | Trap | None:
    """Where a tensor function does not give, bit for bit, what a call gave, or how it traps."""
    if len(func.inputs) != len(call.inputs) or len(func.scalars) != len(call.scalars):
        raise Unsupported(f"{func.name} takes other operands than before", label="tvm.C14")
    try:
        results = run_kernel(func, call.inputs, scalars=call.scalars, functions=module.kernels)
    except Trap as trap:
        return trap
    for want, got in zip(call.results, results, strict=True):
        shaped = got.reshape(want.shape) if got.size == want.size else got
        if not same_bits(want, shaped):
            return why_outside(want, shaped) or "the signs of zeros differ"
    return None


def verdicts(trace: Compilation, judge: Judge) -> Iterator[JudgedPass]:
    """The verdicts on the stages of a compilation, one after the other, and on the compiled code."""
    deadly = ""
    for stage in trace.stages():
        judged = judge.stage(stage)
        if judged.how == "refused" and judged.why in DEADLY:
            deadly = stage.name
        yield judged
    if trace.failed is not None:
        yield JudgedPass(trace.failed.culprit, "fails", trace.failed.said)
        return
    if deadly:
        yield JudgedPass(
            "the compiled code", "not read", f"it is not run: by {deadly} it uses memory that is not there"
        )
        return
    if judge.interface:
        yield JudgedPass("the compiled code", "not read", judge.interface)
        return
    try:
        got = outputs(trace, list(judge.arguments))
        judged = judge.compiled(got)
        yield judged if judged.wrong else repeated(judged, got, outputs(trace, list(judge.arguments)))
    except Invalid as failed:
        trapped = judge.last is not None and judge.last.trap is not None
        yield JudgedPass("the compiled code", *(("same", "it fails too") if trapped else ("fails", str(failed))))


def repeated(judged: JudgedPass, got: Sequence[Array], again: Sequence[Array]) -> JudgedPass:
    """The verdict on the compiled code, after it ran once more on the same arguments: nothing is kept from run to
    run."""
    if len(got) == len(again) and all(map(same_bits, got, again)):
        return judged
    return JudgedPass(judged.name, "changed", f"a second run gives other results: {beyond(got, again) or 'other bits'}")


def judge_passes(
    mod: Object, arguments: Sequence[Any], pipeline: Any = "default", meant: Module | None = None
) -> PassReport:
    """Compile a `tvm.IRModule` and judge it after each pass, on `arguments` (arrays, or shapes as tuples of sizes).

    `pipeline` is passes and pipelines by their names, or a pass of TVM. `meant` says what the module means where it is
    more than the module itself: the ONNX model that it was imported from; then the import is judged too. A pass that
    fails is the last verdict.
    """
    trace = watch(mod, pipeline)
    return PassReport(
        pipeline if isinstance(pipeline, str) else "given", tuple(verdicts(trace, Judge(arguments, meant)))
    )
