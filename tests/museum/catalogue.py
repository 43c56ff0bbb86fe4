"""Every exhibit of the museum in one list, whatever its file calls it (specs/museum.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from assay.interp import machine, tensor, vector
from assay.interp.graph.observation import observe
from assay.semantics.errors import AssayError, Trap
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.verify.anf import check_anf
from assay.verify.app.stages import STAGES, Context
from assay.verify.constants.made import check_made
from assay.verify.devices import broken_plans
from assay.verify.devices.scopes_check import check_scopes
from assay.verify.equivalence import BIT_EXACT, UNKNOWN, equivalent
from assay.verify.liveness.devices import check_devices
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.loops import check_schedule
from assay.verify.memory import check_plan, prove_plan
from assay.verify.shapes import check_shapes
from assay.verify.simplify import check_simplified
from assay.verify.symbolic import prove_accesses
from tests.lower.constants import test_made_constants as made_constants
from tests.lower.devices.placed_programs import X, planned
from tests.lower.fuse.fusing import legalized
from tests.lower.loops import test_loops_constants as laid_out
from tests.museum import (
    anf_faults,
    aot_faults,
    constant_faults,
    dce_faults,
    device_faults,
    dynamic_faults,
    fuse_faults,
    kernel_faults,
    liveness_faults,
    memory_faults,
    numeric_faults,
    pass_faults,
    placed_faults,
    planner_faults,
    sanitizer_faults,
    schedule_primitive_faults,
    scope_faults,
    shape_faults,
    symbolic_faults,
)
from tests.museum.exhibits import NOTHING, Exhibit, Fault, Found, Patch, caught, size

LONG = ("conv", "flatten", "fused", "matmul_blocks", "row_view", "softmax", "tiled_matmul")
"""Makers of `symbolic_faults` whose proofs take long: `tests/verify/symbolic/test_symbolic.py` alone has them."""
Runs = Callable[[Patch], Found]
(FUSE,) = (s for s in STAGES if s.name == "fuse")


def words(table: Mapping[str, str], otherwise: str) -> Callable[[str], str]:
    """The layer that says so."""
    return lambda detail: next((layer for part, layer in table.items() if part in detail), otherwise)


SIMPLIFY = words(
    {
        "is it so": "simplify: places",
        "another value": "simplify: values",
        "in the same order": "simplify: events",
        "[graph.": "well-formed",
    },
    "simplify",
)
MEMORY = words(
    {
        "is between uses at": "lives",
        "is loaded after it has been stored to": "in place",
        "is overwritten by": "sweep",
        "bytes of the pool": "sweep",
        "does not get its value": "steps: values",
        "the pool host is on": "devices",
        "in int64": "plan: int64",
    },
    "plan: z3",
)
CONSTANTS = words({"[": "well-formed", "no array": "two arrays compared"}, "constants")


def _anf(e: anf_faults.Exhibit) -> Runs:
    def run(patch: Patch) -> Found:
        source = e.program()
        evidence = check_anf(source, e.transform(source))
        return Found(caught(evidence, f"anf: {e.caught_by}", e.says), size(source))

    return run


def _constants(f: constant_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        evidence = f.wrong(patch)
        return Found(caught(evidence, CONSTANTS(evidence.detail), f.said), size(*f.programs()) or "2 arrays")

    return run


def _dead_code(f: dce_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source, inputs = f.program()
        wrong = f.transform(source)
        try:
            check(wrong)
            seen = observe(source, inputs).difference(observe(wrong, inputs)) is not None
        except AssayError:
            return Found("well-formed", size(source))
        return Found("run" if seen else NOTHING, size(source))

    return run


def _devices(f: device_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source, config = f.module, device_faults.CONFIG
        broken = broken_plans(source, f.wrong(source, config), config, f.again)
        return Found(f"devices: {f.verdict}" if any(b.verdict == f.verdict for b in broken) else NOTHING, size(source))

    return run


def _fused(f: fuse_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = legalized(*f.program())
        return Found(caught(FUSE.check(source, f.transform(source), Context()), "fuse", f.said), size(source))

    return run


def _lives(f: liveness_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = f.program()
        f.plant(patch)
        made = f.wrong(source)
        if f.lasting:
            return Found(caught(check_lives(made.program, made.kernels), "lives"), size(source))
        return Found(caught(check_program(source, made), "steps: values"), size(source))

    return run


def _memory(f: memory_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        evidence = f.wrong(patch)
        return Found(caught(evidence, MEMORY(evidence.detail), f.said), evidence.data["size"])

    return run


def _pass(f: pass_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = f.program()
        wrong = f.wrong(source)
        try:
            check(wrong)
            evidence = check_simplified(source, wrong)
        except AssayError as ill:
            return Found(SIMPLIFY(str(ill)), size(source))
        return Found(caught(evidence, SIMPLIFY(evidence.detail)), size(source))

    return run


@cache
def _right() -> Any:
    return planned()


def _trapped(made: Any, said: str) -> bool:
    """Whether the machine stops one run, and says so."""
    for flag in (True, False):
        try:
            machine.run(made, {"x": X, "flag": np.bool_(flag)}, execute=vector.run)
        except Trap as trap:
            return said in trap.message
    return False


def _placed(f: placed_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        made = f.wrong(_right())
        stands = check_devices(made.program, made.kernels)
        both = _trapped(made, f.trap) and not stands.holds and f.said in stands.detail
        return Found("trap: wrong device; devices of steps" if both else NOTHING, size(_right()))

    return run


def _placed_pass(wrong: Callable[[Patch], Any], said: str) -> Runs:
    def run(patch: Patch) -> Found:
        made = wrong(patch)
        return Found("trap: wrong device" if _trapped(made, said) else NOTHING, size(made))

    return run


def _planner(f: planner_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        made = f.planner(f.problem)
        both = not check_plan(f.problem, made).holds and not prove_plan(f.problem, made).evidence.holds
        return Found("plan: definition, z3" if both else NOTHING, size(f.problem))

    return run


def _climbing(patch: Patch) -> Found:
    of = planner_faults.ROUGH
    last, best = (planner_faults.last_accepted(of, seed=1, best=b).sizes["workspace"] for b in (False, True))
    return Found("sizes compared" if last > best else NOTHING, size(of))


def _sanitizer(kind: str, bodies: Sequence[str]) -> Runs:
    """All ten programs of a kind of trap."""

    def run(patch: Patch) -> Found:
        seen, sizes = set(), []
        inputs = [
            np.arange(8, dtype=np.float32),
            np.arange(16, dtype=np.float32).reshape(4, 4),
            np.arange(8, dtype=np.int32),
        ]
        for body in bodies:
            lines = ("" if kind in ("unwritten read", "unwritten output") else sanitizer_faults.FILL) + body
            (func,) = parse(
                sanitizer_faults.HEAD + "".join(f"    {n}\n" for n in lines.splitlines()), "fault.py"
            ).kernels.values()
            sizes.append(int(size(func).split()[0]))
            try:
                tensor.run(func, inputs)
                seen.add(NOTHING)
            except Trap as trap:
                seen.add(trap.kind)
        return Found(f"trap: {kind}" if seen == {kind} else NOTHING, f"{min(sizes)} to {max(sizes)} statements")

    return run


def _schedule(f: schedule_primitive_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = f.program()
        verdict = equivalent(source, f.transform(source), weakest=BIT_EXACT)
        seen = verdict.notion is UNKNOWN and verdict.witness is not None and verdict.witness.replayed
        return Found("equivalence" if seen else NOTHING, size(source))

    return run


def _scopes(f: scope_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = scope_faults.program()
        return Found(caught(check_scopes(source, f.plant(scope_faults.right(source))), "scopes", f.said), size(source))

    return run


def _shapes(f: shape_faults.Fault) -> Runs:
    def run(patch: Patch) -> Found:
        source = f.module
        return Found(caught(check_shapes(source, f.lower(source)), "shapes"), size(source))

    return run


def _symbolic(e: symbolic_faults.Exhibit, given: Mapping[str, Any], kind: str) -> Runs:
    def run(patch: Patch) -> Found:
        func = e.make(**given)
        kinds = {g.kind for g in prove_accesses(func, e.bounds).of("refuted")}
        return Found(f"accesses, z3: {kind}" if kind in kinds else NOTHING, size(func))

    return run


def _laid_out(name: str) -> Runs:
    def run(patch: Patch) -> Found:
        change, layouts = laid_out.WRONG[name]
        source = laid_out.matmul()
        return Found(caught(check_schedule(source, change(source), layouts), "loops"), size(source))

    return run


def _made(name: str) -> Runs:
    def run(patch: Patch) -> Found:
        source, result, made, packed = made_constants.packed_product()
        evidence = check_made(source, *made_constants.FAULTS[name][0](result, made), packed)
        return Found(caught(evidence, "made constants"), size(source))

    return run


def _shared(file: str, faults: Mapping[str, Fault]) -> list[Exhibit]:
    return [Exhibit(file, name, f.known, f.layer, f.run) for name, f in faults.items()]


@cache
def exhibits() -> tuple[Exhibit, ...]:
    """All of them, in the order of the page."""
    return (
        *(Exhibit("anf_faults", e.name, e.upstream, "anf: ", _anf(e)) for e in anf_faults.EXHIBITS),
        *_shared("aot_faults", aot_faults.FAULTS),
        *(Exhibit("liveness_faults", n, "", "", _lives(f)) for n, f in liveness_faults.FAULTS.items()),
        *(Exhibit("memory_faults", n, f.upstream, "", _memory(f)) for n, f in memory_faults.FAULTS.items()),
        *(Exhibit("planner_faults", f.name, "", "plan: definition, z3", _planner(f)) for f in planner_faults.FAULTS),
        Exhibit("planner_faults", "hill climbing that returns the last", "", "sizes compared", _climbing),
        *(Exhibit("device_faults", f.name, f.known, f"devices: {f.verdict}", _devices(f)) for f in device_faults.FAULTS),
        *(Exhibit("scope_faults", f.name, "", "scopes", _scopes(f)) for f in scope_faults.FAULTS),
        *(Exhibit("placed_faults", n, "", "trap: wrong device; devices of steps", _placed(f)) for n, f in placed_faults.FAULTS.items()),
        *(Exhibit("placed_faults", n, "", "trap: wrong device", _placed_pass(*f)) for n, f in placed_faults.PASSES.items()),
        *(Exhibit("pass_faults", f.name, f.known, "", _pass(f)) for f in pass_faults.FAULTS),
        *(Exhibit("dce_faults", f.name, "", "", _dead_code(f)) for f in dce_faults.FAULTS),
        *(Exhibit("constant_faults", n, f.known, "", _constants(f)) for n, f in constant_faults.FAULTS.items()),
        *(Exhibit("test_loops_constants", n, "", "loops", _laid_out(n)) for n in laid_out.WRONG),
        *(Exhibit("test_made_constants", n, "", "made constants", _made(n)) for n in made_constants.FAULTS),
        *_shared("numeric_faults", numeric_faults.FAULTS),
        *_shared("dynamic_faults", dynamic_faults.FAULTS),
        *(Exhibit("shape_faults", f.name, "", "shapes", _shapes(f)) for f in shape_faults.FAULTS),
        *_shared("kernel_faults", kernel_faults.FAULTS),
        *(
            Exhibit("symbolic_faults", f"{name}: {fault}", "", f"accesses, z3: {kind}", _symbolic(e, given, kind))
            for name, e in symbolic_faults.EXHIBITS.items() if name not in LONG
            for fault, (given, kind) in e.faults.items()
        ),
        *(Exhibit("fuse_faults", f.name, "", "fuse", _fused(f)) for f in fuse_faults.FAULTS),
        *(
            Exhibit("schedule_primitive_faults", f.name, "", "equivalence", _schedule(f))
            for f in schedule_primitive_faults.FAULTS
        ),
        *(
            Exhibit("sanitizer_faults", f"{kind}, ten programs", "", f"trap: {kind}", _sanitizer(kind, bodies))
            for kind, bodies in sanitizer_faults.FAULTS.items()
        ),
    )  # fmt: skip


@cache
def found() -> Mapping[str, Found]:
    """What caught each of them, by key."""
    return {e.key: e.found() for e in exhibits()}
