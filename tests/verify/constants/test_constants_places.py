"""Each constant of a planned program lies where it asks to lie: every rejection (specs/verify.md, "pool")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assay.semantics.devices import VirtualDevice
from assay.semantics.memory import Pool
from assay.semantics.module import ConstantInfo, Module, Slot
from assay.verify.constants.places import check_constant_places
from tests.lower.constants.constant_programs import adding, constants, in_pools

FLASH = Pool("flash", "constant", read_only=True)
CUDA, CPU, XIP = VirtualDevice("cuda", 0), VirtualDevice("cpu", 0), VirtualDevice(scope="global.flash_xip")


def slot(module: Module, **fields: Any) -> Module:
    """The slot of c1 changed."""
    program = module.program
    slots: dict[str, Slot] = {**program.slots, "c1": replace(program.slots["c1"], **fields)}
    return module.with_(main=replace(program, slots=slots))


def pool(module: Module, **fields: Any) -> Module:
    """The pool of constants changed."""
    program = module.program
    return module.with_(
        main=replace(program, pools=tuple(replace(p, **fields) if p.name == "flash" else p for p in program.pools))
    )


def told(module: Module, info: ConstantInfo) -> Module:
    return replace(module, infos={**module.infos, "c1": info})


def lost(module: Module) -> Module:
    return replace(module, constants={n: a for n, a in module.constants.items() if n != "c1"})


FAULTS: dict[str, tuple[Callable[[Module], Module], str]] = {
    "not in the table": (lost, "slot c1 is a constant, and the module's table has none of that name"),
    "less aligned": (lambda m: told(m, ConstantInfo(128)), "constant c1 asks for the alignment 128, its slot has 64"),
    "not a pool for constants": (lambda m: slot(m, pool="workspace"),
        "lies in the pool workspace, which is no pool for constants"),
    "on another device": (lambda m: told(pool(m, device=CPU), ConstantInfo(device=CUDA)),
        "is on cuda:0, the pool flash on cpu:0"),
    "its slot on another device": (lambda m: told(slot(m, device=CPU), ConstantInfo(device=CUDA)),
        "is on cuda:0, the pool flash on anywhere"),
    "in a scope of which nobody spoke": (lambda m: pool(m, device=XIP),
        "asks for no scope, the pool flash is in global.flash_xip"),
    "in no section": (lambda m: told(m, ConstantInfo(section=".slow")),
        "asks for the section .slow, the pool flash becomes the usual one"),
    "in another section": (
        lambda m: told(pool(m, section=".fast"), ConstantInfo(section=".slow")),
            "the section .slow, the pool flash becomes .fast",
    ),
}  # fmt: skip


@pytest.mark.row("C7", "C8")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused(name: str) -> None:
    right = in_pools(adding(constants(2)), FLASH)
    assert check_constant_places(right).detail == "2 constants lie in pools that suit them"
    damage, said = FAULTS[name]
    wrong = check_constant_places(damage(right))
    assert not wrong.holds and said in wrong.detail, wrong.detail


@pytest.mark.row("C7")
def test_in_the_table_it_is_where_the_table_has_it() -> None:
    module = adding(constants(2))
    assert check_constant_places(module).detail == "0 constants lie in pools that suit them"
    wrong = check_constant_places(slot(module, offset=128))
    assert not wrong.holds and "constant c1 is sought at another offset" in wrong.detail


@pytest.mark.row("C7", "C8")
def test_what_suits_is_not_refused() -> None:
    """More aligned than asked for; in the asked device, scope and section; in a named section nobody asked for."""
    module = in_pools(adding(constants(2)), FLASH)
    for right in (
        slot(module, alignment=256),
        told(pool(module, device=CUDA), ConstantInfo(device=CUDA)),
        slot(told(module, ConstantInfo(device=XIP)), device=XIP),
        pool(replace(module, infos={n: ConstantInfo(device=XIP) for n in module.constants}), device=XIP),
        pool(module, device=VirtualDevice(scope="global")),
        pool(module, section=".fast"),
    ):
        assert check_constant_places(right).holds, check_constant_places(right).detail
