"""What the proofs say of a changed emitter or kernel, and what a run says (specs/verify.md, "Mutants").

This runs in a process that has the change. A *claim* is the C of one program, held against the plan, or one example of
an operator, whose kernel is held against the operator. Which claims a change reaches is seen by their texts beside
those of the code as it is; one of them is put to its proof, and then run by the definition on special values, ties and
extremes, whatever the proof says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np

from assay.interp import machine
from assay.lower.c import CSource, emit
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.ops import OPERATORS
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.all_sizes.for_operator import general_proof
from assay.verify.all_sizes.symbols import symbolic_use
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.reading import read_back
from assay.verify.legalize import check_claim
from assay.verify.operator_terms.examples import prove_example
from assay.verify.trials.data import KINDS, draw, ordinary
from assay.verify.trials.helpers import HelperTrials
from assay.verify.trials.native import Trials
from tests.all_sizes import table
from tests.lower.c.test_c_rows import CASES, lone, made as made_input
from tests.lower.memory.planned import alone, same_bits
from tests.verify.c.reading_programs import odd, small, texts
from tests.verify.c.test_reading_sizes import entries

End: TypeAlias = Literal["unreached", "unmade", "refused", "same", "unrun", "wrong"]
ENDS: tuple[End, ...] = ("unreached", "unmade", "same", "refused", "unrun", "wrong")
"""What may become of a change, the gravest last."""


@dataclass(frozen=True)
class Said:
    """What became of a claim: its end, why the proof refuses it, and what a run finds."""

    end: End
    proof: str = ""
    run: str = ""
    claim: str = ""


Tell: TypeAlias = Callable[[Said], None]
ENDLESS = "a run did not end"


@dataclass(frozen=True)
class Claim:
    """Something of which a text is made that a proof takes."""

    name: str
    text: Callable[[], str]
    judge: Callable[[Tell], Said]
    """The verdict; what the proof says is told before anything is run, which may never end."""


def claims(part: str) -> Iterator[Claim]:
    """Those of the emitter, or those of kernels."""
    if part == "kernels":
        for name, row in table().items():
            for k in range(len(OPERATORS[name].examples) if row["for"] == "all sizes" else 0):
                yield Claim(f"{name} {k}", partial(_kernel_text, name, k), partial(_judge_kernel, name, k))
        return
    for name, make in _programs().items():
        yield Claim(name, partial(_c_text, make), partial(_judge_c, name, make))


def digest(claim: Claim) -> str:
    """What is compared of a claim's text; where none is made, that."""
    try:
        return hashlib.sha256(claim.text().encode()).hexdigest()
    except Exception as wrong:  # noqa: BLE001  (a changed emitter fails in any way)
        return f"not made: {type(wrong).__name__}"


def before_change(part: str) -> dict[str, str]:
    """The digest of each claim's text, of those that are proved; for a process without a change."""
    found = {c.name: digest(c) for c in claims(part)}
    for name, make in _programs().items() if part == "C" else ():
        module, source = make()
        if not read_back(source, module).holds:
            del found[name]
    return found


def judged(part: str, before: dict[str, str], tell: Tell, seed: str, most: int = 1) -> Said:
    """What becomes of a change of this process, by the claims that it reaches: some by the seed, and the gravest
    end."""
    found: list[Said] = []
    unmade = ""
    for claim in sorted(claims(part), key=lambda c: hashlib.sha256(f"{seed} {c.name}".encode()).digest()):
        now = digest(claim)
        if now == before.get(claim.name, now):
            continue
        if now.startswith("not made"):
            unmade = now
            continue
        said = claim.judge(lambda s, n=claim.name: tell(_gravest([*found, replace(s, claim=n)])))  # type: ignore[misc]
        found.append(replace(said, claim=claim.name))
        if said.end == "wrong" or len(found) == most:
            break
    return _gravest(found) if found else Said("unmade" if unmade else "unreached", unmade)


def _gravest(found: list[Said]) -> Said:
    return max(found, key=lambda s: ENDS.index(s.end))


# ---- C

COUNTED = ("n", "m")
"""Inputs that say how often a loop is run."""


@cache
def _programs() -> dict[str, Callable[[], tuple[Module, CSource]]]:
    """Programs by name with their C: each operator's kernel alone, whole programs, sizes that are symbols, loops."""
    made: dict[str, Callable[[], tuple[Module, CSource]]] = {
        "net": lambda: texts()["net"],
        "weights": lambda: _emitted(texts()["net"][0], inline_limit=16),
        "odd": lambda: _emitted(odd(plane=7)),
        "large": lambda: texts()["odd"],
        "sizes": lambda: entries()["net"],
        "loops": lambda: entries()["loops"],
    }
    made |= {name: partial(_of_module, partial(small, name)) for name in ("twice", "kept", "counted", "tabled")}
    made |= {name: partial(_of_module, partial(lone, kernel)) for name, (kernel, _) in CASES.items()}
    for name, op in OPERATORS.items():
        if not op.view:
            made[f"operator {name}"] = partial(_of_operator, name)
    return made


def _emitted(module: Module, **how: Any) -> tuple[Module, CSource]:
    return module, emit(module, "m", **how)


def _of_module(make: Callable[[], Module]) -> tuple[Module, CSource]:
    return _emitted(make())


def _of_operator(name: str) -> tuple[Module, CSource]:
    return _emitted(alone(_kernel(name, 0)))


def _c_text(make: Callable[[], tuple[Module, CSource]]) -> str:
    source = make()[1]
    return f"{source.header}\0{source.source}"


def _judge_c(name: str, make: Callable[[], tuple[Module, CSource]], tell: Tell) -> Said:
    module, source = make()
    found = read_back(source, module)
    refused = found.entry or next((r or "" for r in found.kernels.values() if r != ""), "")
    if name == "large":  # 5 GB: it is not run
        return Said("unrun" if found.holds else "refused", refused)
    tell(Said("wrong" if found.holds else "refused", refused, ENDLESS))
    helpers = HelperTrials(source)
    try:
        compiled = compile_c(source, reproducible=True, trace=True, beside=helpers.text())
    except Crash as wrong:
        return Said("unmade", refused, str(wrong))
    run = helpers.run(compiled.loaded) or _c_differs(module, source, compiled, name != "counted")
    if found.holds:
        return Said("wrong" if run else "same", "", run)
    return Said("refused", refused, run)


def _c_differs(module: Module, source: CSource, compiled: Compiled, stepwise: bool) -> str:
    """Where the compiled text gives something else than the plan, step by step on telling operands too, if it does."""
    for given in _inputs(module, source, np.random.default_rng(7)):
        if wrong := _differs(compiled.run, lambda x: machine.run(module, x), given):
            return wrong
    return (Trials(module, compiled, given, 7).run() or "") if stepwise and not source.sizes else ""


def _inputs(module: Module, source: CSource, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    program = module.program
    if source.sizes and not isinstance(program.slots[program.inputs[0]].type.shape[0], int):
        for n in (0, 1, 5):
            yield {
                i: draw(s.dtype, [d if isinstance(d, int) else n for d in s.shape], rng, "specials")
                for i in program.inputs
                if (s := program.slots[i].type)
            }
        return
    if source.sizes:
        kernel = next(iter(module.kernels.values()))
        for n, m in ((1, 1), (3, 5), (0, 4), (7, 16)):
            yield {b.name: made_input(b, n, m, rng) for b in kernel.inputs}
        return
    types = {i: program.slots[i].type for i in program.inputs}
    counts = {i: np.array(rng.integers(0, 4), t.dtype.numpy) for i, t in types.items() if i in COUNTED}
    for kind in KINDS:
        yield {i: draw(t.dtype, t.static_shape, rng, kind) for i, t in types.items()} | counts
    yield {i: ordinary(t.dtype, t.static_shape, rng) for i, t in types.items()} | counts


def _differs(run: Callable[..., Any], wanted: Callable[..., Any], given: dict[str, Any]) -> str | None:
    def outcome(of: Callable[..., Any]) -> Any:
        try:
            with np.errstate(all="ignore"):
                return of(given)
        except Trap as trap:
            return trap.kind
        except Invalid as wrong:
            return f"invalid {wrong.label}"

    a, b = outcome(run), outcome(wanted)
    if isinstance(a, str) or isinstance(b, str):
        return None if isinstance(a, str) and isinstance(b, str) else f"{a!r:.60} instead of {b!r:.60}"
    return next((f"{n} differs" for n in b if not same_bits(a[n], b[n])), None)


# ---- kernels

POINTS = 16
"""Small sizes at which the notation is held against the definition, of which no change here changes anything."""


def _kernel(name: str, example: int) -> PrimFunc:
    op = OPERATORS[name]
    given = op.examples[example]
    operands = tuple(TensorType(shape, dtype(d)) for shape, d in given.operands)
    attrs = op.check_attrs(given.attrs)
    return build(name, attrs, operands, op.type_rule(attrs, operands), "kernel")


def _kernel_text(name: str, example: int) -> str:
    general = symbolic_use(OPERATORS[name], OPERATORS[name].examples[example])
    return f"{_kernel(name, example)}\0{general.kernel()}"


def _judge_kernel(name: str, example: int, tell: Tell) -> Said:
    """Both claims: that the kernel is its operator at its sizes, and that it is for all."""
    op = OPERATORS[name]
    given, general = prove_example(op, op.examples[example]), general_proof(op, op.examples[example], POINTS)
    kernels = (_kernel(name, example), general.use.kernel())
    try:
        emit(alone(kernels[0]), "m")
    except Exception as wrong:  # noqa: BLE001  (no C is made)
        return Said("unmade", "", f"{type(wrong).__name__}: {wrong}")
    runs = []
    tell(Said("wrong" if general.holds or given.proof.holds else "refused", general.reason, ENDLESS))
    attrs = (op.check_attrs(op.examples[example].attrs), general.use.attrs)
    for kernel, own, holds in zip(kernels, attrs, (given.proof.holds, general.holds), strict=True):
        try:
            evidence = check_claim(replace(kernel, attrs={"operator": name, "attrs": own}), 7)
            runs.append("" if evidence.holds else evidence.detail)
        except (Invalid, Trap, Crash) as wrong:
            runs.append(f"{type(wrong).__name__}: {wrong}")
        if holds and runs[-1]:
            return Said("wrong", "", runs[-1])
    if general.holds:
        return Said("same", "", "")
    return Said("refused", general.reason, runs[0] or runs[1])
