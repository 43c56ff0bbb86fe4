"""Constants in memories of their own: placed, proved, run, and in the C (specs/lower.md, "constants")."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from assay.interp import machine, vector
from assay.lower.c import emit
from assay.lower.pool import Memory
from assay.semantics.accounting import account, aligned, laid_out
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid, Trap
from assay.semantics.memory import Pool
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.text.constants_text import house
from assay.semantics.text.module_text import parse
from assay.verify.app.cli import main
from assay.verify.app.report.collect import of_program
from assay.verify.app.report.model import CheckReport
from assay.verify.app.report.page import page
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT, find_compiler
from assay.verify.pool import check_pool
from tests.lower.c.sanitized import run_sanitized
from tests.lower.constants.constant_programs import LANES, X, adding, constants, in_pools, total
from tests.lower.memory.planned import same_bits
from tests.models import model

FLASH = Pool("flash", "constant", read_only=True)
XIP = VirtualDevice(scope="global.flash_xip")


def tcm(limit: int, **more: Any) -> Pool:
    return Pool("tcm", "constant", limit=limit, read_only=True, **more)


def where(module: Module) -> dict[str, list[str]]:
    """The constants in each memory; "" is the table."""
    found: dict[str, list[str]] = {}
    for s in module.program.placed("constant"):
        found.setdefault(s.pool, []).append(s.name)
    return found


# --- placing -----------------------------------------------------------------------------------------------------


def test_without_pools_there_is_one_table() -> None:
    module = in_pools(adding(constants(3)))
    assert where(module) == {"": ["c0", "c1", "c2"]} and list(module.program.sizes) == ["workspace"]
    again = in_pools(in_pools(adding(constants(3)), FLASH)).program.slots
    assert {n: (s.pool, s.offset) for n, s in again.items()} == {
        n: (s.pool, s.offset) for n, s in module.program.slots.items()
    }


@pytest.mark.row("C7")
def test_the_most_wanted_pool_is_filled_first() -> None:
    """Two of three fit; the machine and the C give the same from wherever a constant lies, and z3 proves each pool."""
    arrays = constants(3)
    module = in_pools(adding(arrays), tcm(128), FLASH)
    assert {n: len(c) for n, c in where(module).items()} == {"tcm": 2, "flash": 1}
    assert module.program.sizes["tcm"] <= 128
    proof, queries = check_pool(module)
    assert proof.holds and proof.how == "proved" and len(queries) == 3
    assert same_bits(machine.run(module, {"x": X})["y"], total(list(arrays.values())))
    for limit in (0, 1 << 20):
        source = emit(module, "m", inline_limit=limit)
        assert (source.weights is None) == (limit > 0)
        assert same_bits(
            compile_c(source, reproducible=True, flags=STRICT).run({"x": X})["y"], total(list(arrays.values()))
        )
    assert same_bits(run_sanitized(emit(module, "m"), {"x": X})["y"], total(list(arrays.values())))


@pytest.mark.row("C7")
def test_what_does_not_fit_is_named_with_a_limit_that_would_do() -> None:
    module = adding(constants(3))
    with pytest.raises(
        Invalid, match=r"buffer c\d, 32 bytes, .* a limit of (\d+) bytes for tcm would be enough"
    ) as wrong:
        in_pools(module, tcm(100))
    found = re.search(r"limit of (\d+) bytes", str(wrong.value))
    assert found is not None
    assert in_pools(module, tcm(int(found[1]))).program.sizes["tcm"] == int(found[1])


def test_a_way_is_searched_for_where_the_largest_first_leaves_no_room() -> None:
    """6, 4 and 3 times 64 bytes into 7 and 6: the largest must not go into the first."""
    sizes = {"a": 6, "b": 4, "c": 3}
    arrays = {n: np.zeros(16 * k, np.float32) for n, k in sizes.items()}
    module = adding(constants(1))
    slots = dict(module.program.slots)
    for n, a in arrays.items():
        type_ = replace(slots["c0"].type, shape=a.shape)
        slots[n] = replace(slots["c0"], name=n, type=type_)
    module = replace(module.with_(main=replace(module.program, slots=slots)), constants={**module.constants, **arrays})
    made = in_pools(module, tcm(7 * 64 + 64), replace(FLASH, limit=6 * 64))
    assert check_pool(made)[0].holds and made.program.sizes["flash"] <= 6 * 64


@pytest.mark.row("C7", "C8")
@pytest.mark.parametrize(
    ("info", "pool", "said"),
    [
        (ConstantInfo(section=".slow"), FLASH, "becomes the usual section, the constant .slow"),
        (ConstantInfo(alignment=4096), FLASH, "is aligned to 64, the constant to 4096"),
        (
            ConstantInfo(device=VirtualDevice("cuda", 0)),
            replace(FLASH, device=VirtualDevice("cpu", 0)),
            "is on cpu:0, the constant on cuda:0",
        ),
        (ConstantInfo(), replace(FLASH, device=XIP), "global.flash_xip, for which the constant does not ask"),
    ],
)
def test_a_pool_that_does_not_suit_is_refused(info: ConstantInfo, pool: Pool, said: str) -> None:
    """By the planner, with the reason; and by the checker, which was told nothing of it."""
    module = adding(constants(1), {"c0": info})
    with pytest.raises(Invalid, match=said) as wrong:
        in_pools(module, pool)
    assert wrong.value.label == "constants.C7"
    slot = replace(module.program.slots["c0"], pool="flash", offset=0)
    program = replace(
        in_pools(adding(constants(1)), FLASH).program,
        pools=(Pool("workspace"), pool),
        sizes={"workspace": 0, "flash": 32},
    )
    planted = module.with_(main=replace(program, slots={**program.slots, "c0": slot}))
    assert not check_pool(planted)[0].holds


def test_a_pool_is_one_memory() -> None:
    infos = {"c0": ConstantInfo(device=VirtualDevice("cpu", 0)), "c1": ConstantInfo(device=VirtualDevice("cuda", 0))}
    with pytest.raises(Invalid, match="pool flash would hold constant c0 on cpu:0 and constant c1 on cuda:0") as wrong:
        in_pools(adding(constants(2), infos), FLASH)
    assert wrong.value.label == "constants.C8"


# --- faults ------------------------------------------------------------------------------------------------------


def spoiled(change: Callable[[Any], Any], sizes: dict[str, int] | None = None) -> Module:
    """Three constants in flash, the second one's slot changed."""
    module = in_pools(adding(constants(3)), FLASH)
    program = module.program
    slots = {**program.slots, "c1": change(program.slots["c1"])}
    return module.with_(main=replace(program, slots=slots, sizes={**program.sizes, **(sizes or {})}))


@pytest.mark.row("C7")
@pytest.mark.parametrize(
    ("module", "trap", "said"),
    [
        (lambda: spoiled(lambda s: replace(s, offset=0)), "clobbered", "overwritten by"),
        (lambda: spoiled(lambda s: replace(s, offset=8)), "misaligned", "not aligned"),
        (lambda: spoiled(lambda s: s, {"flash": 64}), "out of bounds", "flash"),
        (lambda: spoiled(lambda s: replace(s, offset=1 << 62)), "out of bounds", "flash"),
    ],
)
def test_a_wrong_place_is_refuted_traps_and_gets_no_c(module: Callable[[], Module], trap: str, said: str) -> None:
    """Overlapping, misaligned, over the pool's size, and so far off that a sum in 63 bits would wrap: by the proof, by
    the run and by the C, each on its own."""
    verdict = check_pool(module())[0]
    assert not verdict.holds and said in verdict.detail
    with pytest.raises(Trap) as raised:
        machine.run(module(), {"x": X})
    assert raised.value.kind == trap
    with pytest.raises(Invalid):
        emit(module(), "m")


def test_a_pool_over_its_limit_is_refuted() -> None:
    module = in_pools(adding(constants(3)), tcm(1 << 10))
    program = module.program
    small = module.with_(main=replace(program, pools=(program.pools[0], tcm(64))))
    assert not check_pool(small)[0].holds
    with pytest.raises(Trap, match="its limit is 64"):
        machine.run(small, {"x": X})


@pytest.mark.row("C2")
def test_nothing_is_written_into_a_pool_of_constants() -> None:
    """Not even through the array that a kernel is handed."""

    def writes(func: Any, inputs: Any, **more: Any) -> None:
        inputs[1][0] = 7

    for module in (in_pools(adding(constants(1))), in_pools(adding(constants(1)), replace(FLASH, read_only=False))):
        with pytest.raises(ValueError, match="read-only"):
            machine.run(module, {"x": X}, execute=writes)
    program = in_pools(adding(constants(2)), FLASH).program
    slots = {**program.slots, "t0": replace(program.slots["t0"], pool="flash", offset=256)}
    module = adding(constants(2))
    with pytest.raises(Trap, match="read-only pool flash"):
        machine.run(module.with_(main=replace(program, slots=slots, sizes={**program.sizes, "flash": 512})), {"x": X})


# --- bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.row("C13")
def test_bytes_are_the_sum_of_aligned_sizes() -> None:
    infos = {"c0": ConstantInfo(8), "c1": ConstantInfo(4096, ".slow"), "c2": ConstantInfo(device=XIP)}
    module = adding(constants(4, 3), infos)
    found = account(module)
    assert (found.count, found.payload) == (4, 48)
    assert found.total == aligned(12, 8) + 4096 + 64 + 64 == 16 + 4096 + 128
    assert found.sections == {"": 16 + 128, ".slow": 4096} and found.pools == {"": found.total}
    assert found.devices == {"anywhere": 16 + 4096 + 64, "any global.flash_xip": 64}
    rows = [(n, a.nbytes, module.info(n).alignment) for n, a in module.constants.items()]
    offsets, end = laid_out(rows)
    assert end == found.total and all(offsets[n] % of == 0 for n, _, of in rows)
    spans = sorted((offsets[n], offsets[n] + size) for n, size, _ in rows)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)) and spans[-1][1] <= end


def test_bytes_by_pool_are_at_least_the_size_of_the_pool() -> None:
    module = in_pools(adding(constants(5, 7)), tcm(128), FLASH)
    found = account(module).pools
    assert set(found) == {"tcm", "flash"} and sum(found.values()) == account(module).total
    assert all(module.program.sizes[p] <= n for p, n in found.items())


@pytest.mark.row("C7", "C13")
def test_the_report_shows_the_pools() -> None:
    report = of_program(CheckReport("m", 0, ()), in_pools(adding(constants(3)), tcm(128), FLASH).program)
    assert {p.name: (p.nbytes, p.limit) for p in report.pools if p.name != "workspace"} == {
        "tcm": (96, 128),
        "flash": (32, None),
    }
    text = page(report)
    assert "pool flash" in text and "pool tcm" in text and "192 bytes in 3" in text


def test_memories_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built, proved and run with the weights in two memories, and checked again from the certificate."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
    onnx.save(model(nodes, {"x": (a.dtype, (8, 8))}, {"y": (a.dtype, (8, 8))}, {"a": a, "b": b}), tmp_path / "m.onnx")

    def assay(*args: object) -> int:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0)

    out = tmp_path / "out"
    assert assay("build", tmp_path / "m.onnx", "-o", out, "--constant-pools", "tcm@.tcm=256,flash") == 0
    header = (out / "m.h").read_text()
    assert 'called "tcm": 256 bytes, aligned to 64, in the section ".tcm"' in header and 'called "flash"' in header
    assert (out / "certificate" / "pool2.smt2").is_file() and assay("verify", out) == 0
    assert assay("check", tmp_path / "m.onnx", "--constant-pools", "tcm=300") == 2
    assert assay("check", tmp_path / "m.onnx", "--constant-pools", "tcm@=x") == 2


# --- in C --------------------------------------------------------------------------------------------------------


def sections(source: Any, directory: Path, *flags: str) -> dict[str, tuple[int, int]]:
    """Size and alignment of each section of the compiled object."""
    source.write(directory)
    command = [*find_compiler(), *STRICT, *flags, "-c", f"{source.name}.c", "-o", "m.o"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    text = subprocess.run(["objdump", "-h", "m.o"], cwd=directory, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*\d+ (\S+)\s+([0-9a-f]+) .* 2\*\*(\d+)$", text, re.MULTILINE)
    return {name: (int(size, 16), 1 << int(power)) for name, size, power in rows}


@pytest.mark.row("C7", "C9")
@pytest.mark.parametrize("alignment", [8, 16, 32, 64, 4096])
def test_alignment_and_section_reach_the_object(alignment: int, tmp_path: Path) -> None:
    """As a table of its own and as a pool. A run finds the addresses right."""
    info = ConstantInfo(alignment, ".assay_slow")
    pool = replace(FLASH, alignment=alignment, section=".assay_slow")
    for module in (adding(constants(2), {"c1": info}), in_pools(adding(constants(1), {"c0": info}), pool)):
        source = emit(module, "m")
        assert f'M_ALIGNED({alignment}) M_SECTION(".assay_slow") static const' in source.source
        assert sections(source, tmp_path)[".assay_slow"] == (32, alignment)
        assert "y" in compile_c(source, reproducible=True, flags=STRICT).run({"x": X})


@pytest.mark.row("C7")
def test_what_a_compiler_does_not_align_is_reported() -> None:
    """Where the macro does nothing, the entry says so and reads nothing: it does not depend on the compiler's word."""
    source = emit(in_pools(adding(constants(2), {"c1": ConstantInfo(4096)}), replace(FLASH, alignment=4096)), "m")
    weak = replace(
        source,
        source=(
            f"#define M_ALIGNED(n)\nstatic const char before = 1;\n{source.source}\nchar after(void); char after(void)"
            " { return before; }\n"
        ),
    )
    with pytest.raises(Invalid, match="M_MISALIGNED"):
        compile_c(weak, reproducible=True, flags=("-std=c99", "-O0", "-Wl,-z,max-page-size=4096")).run({"x": X})


@pytest.mark.row("C8", "C9")
def test_a_scope_is_a_macro_that_you_define(tmp_path: Path) -> None:
    info = ConstantInfo(device=XIP)
    module = adding(constants(2), {"c1": info})
    source = emit(module, "m")
    macro = "ASSAY_SCOPE_GLOBAL_FLASH_XIP"
    assert source.source.count(f"M_ALIGNED(64) {macro} static const") == 1
    assert ".assay_xip" not in sections(source, tmp_path)
    defined = f'-D{macro}=__attribute__((section(".assay_xip")))'
    assert sections(source, tmp_path, defined)[".assay_xip"] == (32, 64)


@pytest.mark.row("C9")
def test_a_pool_in_c_has_its_contents_at_the_offsets_of_the_plan() -> None:
    module = in_pools(adding(constants(3), {"c1": ConstantInfo(16)}), FLASH)
    source = emit(module, "m")
    text = source.source[source.source.index("struct m_pool_flash_contents {") :]
    offsets = {int(n) for n in re.findall(r"offsetof\(struct m_pool_flash_contents, \w+\) == (\d+)u", text)}
    assert offsets == {s.offset for s in module.program.placed("constant")}
    at = module.program.slots["c2"].offset
    wrong = source.source.replace(f"c2) == {at}u", f"c2) == {(at or 0) + 64}u")
    with pytest.raises(Exception, match="refused"):
        compile_c(replace(source, source=wrong), reproducible=True)
    assert (
        f'Constants m_pool_flash, called "flash": {module.program.sizes["flash"]} bytes, aligned to 64' in source.header
    )


@pytest.mark.row("C9")
def test_headers_are_included_only_where_they_are_needed() -> None:
    """<math.h> for constants that have no other literal, and the system's in the file that maps weights."""
    plain = emit(adding(constants(2)), "m")
    odd = emit(adding({"c0": np.full(LANES, np.inf, np.float32)}), "m")
    assert "#include <math.h>" not in plain.source and "#include <math.h>" in odd.source
    large = emit(adding(constants(2)), "m", inline_limit=0)
    assert "<sys/mman.h>" in large.loader and "<sys/mman.h>" not in large.source + large.header and plain.loader == ""
    for source in (plain, odd, large):
        assert re.findall(r"#include <(\w+)\.h>", source.header) == ["stddef", "stdint"]


@pytest.mark.row("C9")
@pytest.mark.parametrize("pools", [(), (FLASH,)])
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_model_that_is_nothing_but_constants_has_a_header(pools: tuple[Pool, ...], limit: int) -> None:
    """No step, no kernel: header and source are there all the same (apache/tvm#12061)."""
    module = adding(constants(2))
    program = module.program
    slots = {n: s for n, s in program.slots.items() if n in ("c0", "c1")}
    alone = module.with_(main=replace(program, slots=slots, steps=(), inputs=(), outputs=("c1",)))
    source = emit(in_pools(alone, *pools), "m", inline_limit=limit)
    assert (
        "int m_run(float *c1, void *workspace" in source.header
        and f"M_WEIGHTS_BYTES {source.weights.nbytes if source.weights else 0}u" in source.header
    )
    assert same_bits(compile_c(source, reproducible=True, flags=STRICT).run({})["c1"], constants(2)["c1"])


def test_too_much_for_the_source_in_a_section_is_refused() -> None:
    arrays = {"c0": np.zeros(1 << 19, np.float32)}
    module = adding(constants(1))
    slot = module.program.slots["c0"]
    slot = replace(slot, type=replace(slot.type, shape=arrays["c0"].shape))
    program = replace(module.program, slots={**module.program.slots, "c0": slot}, steps=())
    huge = replace(module.with_(main=program), constants=arrays, infos={"c0": ConstantInfo(section=".slow")})
    with pytest.raises(Invalid, match=r"ask for the sections \.slow") as wrong:
        emit(huge, "m")
    assert wrong.value.label == "c.C24"


@pytest.mark.row("C7", "C9")
@pytest.mark.parametrize("pools", [(), (FLASH,)])
def test_a_constant_that_only_a_kernel_names_is_in_the_pools_too(pools: tuple[Pool, ...]) -> None:
    """It has a place like any other; in C the kernel reads that place, and there is no second copy."""
    data = np.arange(LANES, dtype=np.float32) + 5
    text = f"""
@I.ir_module
class Module:
    w = {house(data)}
    @T.prim_func(private=True)
    def add(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
        b = T.allocate_const(None, "float32", (8,), index="w")
        for i in range(8):
            c[i] = a[i] + b[i]
    @R.function
    def main(x: R.Tensor((8,), dtype="float32")):
        y = R.call_tir(Module.add, (x,), out_ty=R.Tensor((8,), dtype="float32"))
        return y
"""
    module = parse(text)
    for stage in lowering_passes(vector.run, Memory(pools)).values():
        module = stage(module)
    (slot,) = module.program.placed("constant")
    assert slot.pool == (pools[0].name if pools else "") and check_pool(module)[0].holds
    assert same_bits(machine.run(module, {"x": X})["output_0"], X + data)
    source = emit(module, "m")
    assert source.source.count("12.0f") == 1
    assert same_bits(compile_c(source, reproducible=True, flags=STRICT).run({"x": X})["output_0"], X + data)
    large = emit(module, "m", inline_limit=0)
    assert same_bits(compile_c(large, reproducible=True, flags=STRICT).run({"x": X})["output_0"], X + data)
