"""Where constants stand in the C: tables of the source, a structure for each pool, or the blob (specs/lower.md, "c").

A constant is aligned as its `ConstantInfo` says, and stands in the section that it or its pool names. One in a scope
that is not the main memory gets the macro ASSAY_SCOPE_<scope in capitals>, which you may define as what your compiler
wants, such as an attribute; it is empty unless you do. The entry checks every address, so what a compiler cannot align
is reported, and not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.lower.c.names import ScopeNames, comment, quote, string_literal
from assay.lower.c.tables import Array, element_rows, has_payload, static_table, table_declaration
from assay.semantics.accounting import account, aligned
from assay.semantics.devices import GLOBAL
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program, Slot


@dataclass(frozen=True)
class StaticTable:
    """A constant that stands in the source by itself: its slot, its name in C, and how it is stored."""

    slot: Slot
    c: str
    section: str
    scope: str


@dataclass(frozen=True)
class PoolText:
    """A pool that stands in the source: a structure called `c` with a member for each of its constants, by slot
    name."""

    pool: Pool
    c: str
    nbytes: int
    slots: tuple[Slot, ...]
    members: Mapping[str, str]
    scope: str


@dataclass(frozen=True)
class Constants:
    """All constants of a program: what stands in the source, and the places of the others in the blob."""

    tables: tuple[StaticTable, ...]
    pools: tuple[PoolText, ...]
    blob: Mapping[str, int]
    in_blob: tuple[tuple[Pool, int], ...]
    """The pools inside the blob, and where they begin."""
    as_bits: Collection[str] = ()
    """Those whose numbers only bits can say: what names them is the union of both."""

    @property
    def names(self) -> dict[str, str]:
        """What names a constant of the source in C, by slot; an empty one of a pool is no member."""
        found = {t.slot.name: t.c for t in self.tables}
        for p in self.pools:
            found.update({s.name: f"{p.c}.{p.members[s.name]}" if s.nbytes else "NULL" for s in p.slots})
        found.update({n: f"{found[n]}.numbers" for n in self.as_bits if n in found})
        return found

    def only(self, used: Collection[str]) -> Constants:
        """Without the tables that no kernel reads."""
        return replace(self, tables=tuple(t for t in self.tables if t.slot.name in used))

    @property
    def scopes(self) -> list[str]:
        """The special scopes, each once."""
        found = [t.scope for t in self.tables] + [p.scope for p in self.pools]
        return list(dict.fromkeys(filter(None, found)))


def place(module: Module, limit: int, top: Callable[[str, str], str], inner: Collection[str]) -> Constants:
    """Which constants stand where. Those that ask for a section stand in the source; if the others have more than
    `limit` bytes they are in the blob, but for those in `inner`, which only kernels name. `top` gives names at the top
    of the file.

    Invalid: a constant has no offset (c.C8). Unsupported: more than `limit` bytes ask for sections (c.C24).
    """
    program, sums = module.program, account(module)
    here = {n: b for n, b in sums.sections.items() if n}
    if here and sum(here.values()) > max(limit, 1 << 20):
        raise Unsupported(
            f"{sum(here.values())} bytes of constants ask for the sections {', '.join(here)}; what stands in a section"
            f" stands in the source, where at most {max(limit, 1 << 20)} bytes may be: a larger inline_limit allows it",
            label="c.C24",
        )
    large = sums.sections.get("", 0) > limit
    tables: list[StaticTable] = []
    pools: list[PoolText] = []
    outside: list[tuple[Pool | None, list[Slot]]] = []
    for pool in (None, *(p for p in program.pools if p.kind == "constant")):
        inside = [s for s in program.placed("constant") if (program.pool_of(s) if s.is_pooled else None) is pool]
        if pool is None:
            own = [s for s in inside if not large or module.info(s.name).section or s.name in inner]
            tables += [
                StaticTable(s, top("c", s.name), module.info(s.name).section, special(s.device.scope)) for s in own
            ]
            outside.append((None, [s for s in inside if s not in own]))
        elif large and not pool.section:
            outside.append((pool, inside))
        elif inside:
            pools.append(_pool(program, pool, inside, top("pool", pool.name)))
    as_bits = frozenset(
        s.name for s in program.placed("constant") if has_payload(module.constants[s.name], s.type.dtype)
    )
    return Constants(tuple(tables), tuple(pools), *_in_blob(outside), as_bits)


def special(scope: str) -> str:
    """The scope, if it is not the main memory."""
    return "" if scope == GLOBAL else scope


def scope_macro(scope: str) -> str:
    """The macro before the constants of a scope."""
    return "ASSAY_SCOPE_" + re.sub(r"[^A-Za-z0-9]", "_", scope).upper()


def _pool(program: Program, pool: Pool, inside: Sequence[Slot], c: str) -> PoolText:
    members = ScopeNames()
    slots = tuple(sorted(inside, key=lambda s: (s.offset or 0, s.nbytes)))
    scope = next((x for s in slots if (x := special(pool.device.scope or s.device.scope))), "")
    return PoolText(
        pool, c, program.sizes.get(pool.name, 0), slots, {s.name: members.fresh(s.name) for s in slots}, scope
    )


def _in_blob(
    outside: Sequence[tuple[Pool | None, Sequence[Slot]]],
) -> tuple[dict[str, int], tuple[tuple[Pool, int], ...]]:
    """Where each constant lies in the blob: the table first, then one pool after another."""
    found: dict[str, int] = {}
    starts: list[tuple[Pool, int]] = []
    end = 0
    for pool, inside in outside:
        first = end if pool is None else aligned(end, pool.alignment)
        if pool is not None and inside:
            starts.append((pool, first))
        for s in inside:
            if s.offset is None:
                raise Invalid(f"constant {s.name!r} has no offset in the table; run the stage constants", label="c.C8")
            found[s.name] = first + s.offset
            end = max(end, found[s.name] + s.nbytes)
    return found, tuple(starts)


# --- text --------------------------------------------------------------------------------------------------------


def attribute_macros(constants: Constants, macro: str) -> Iterator[str]:
    """The macros before definitions of constants."""
    if not (constants.tables or constants.pools):
        return
    yield f"""
/* How constants are stored; define these yourself where your compiler has other words. */
#ifndef {macro}_ALIGNED
#if defined(__GNUC__) || defined(__TINYC__)
#define {macro}_ALIGNED(n) __attribute__((aligned(n)))
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define {macro}_ALIGNED(n) _Alignas(n)
#elif defined(_MSC_VER)
#define {macro}_ALIGNED(n) __declspec(align(n))
#else
#define {macro}_ALIGNED(n)
#endif
#endif
"""
    if any(t.section for t in constants.tables) or any(p.pool.section for p in constants.pools):
        yield f"""#ifndef {macro}_SECTION
#if defined(__GNUC__) || defined(__TINYC__)
#define {macro}_SECTION(name) __attribute__((section(name)))
#else
#error "constants ask for sections: define {macro}_SECTION(name) as what your compiler wants before a definition"
#endif
#endif
"""
    for scope in constants.scopes:
        yield (
            f"#ifndef {scope_macro(scope)}\n#define {scope_macro(scope)} /* before what is in {comment(scope)}"
            " */\n#endif\n"
        )


def before(macro: str, alignment: int, section: str, scope: str) -> str:
    """What stands before the definition of a constant."""
    words = [f"{macro}_ALIGNED({alignment})"]
    words += [f"{macro}_SECTION({string_literal(section)})"] if section else []
    words += [scope_macro(scope)] if scope else []
    return " ".join(words) + " "


def table_text(table: StaticTable, array: Array, macro: str) -> Iterator[str]:
    """The definition of a constant by itself."""
    yield "\n" + before(macro, table.slot.alignment, table.section, table.scope)
    yield from static_table(table.c, array, table.slot.type.dtype)


def pool_text(text: PoolText, constants: Mapping[str, Array], prefix: str, macro: str) -> Iterator[str]:
    """A pool with its contents: a structure whose members lie at the offsets of the plan, which the compiler checks."""
    fill: list[Iterator[str]] = []
    yield (
        f"\n/* Constants in the pool {comment(text.pool.name)}: {text.nbytes} bytes. */\nstruct {text.c}_contents {{\n"
    )
    end = 0
    for i, s in enumerate(text.slots):
        array, at = constants[s.name], s.offset or 0
        if at < end:
            raise Invalid(
                f"constant {s.name!r} begins at byte {at} of the pool {text.pool.name!r}, inside another", label="c.C2"
            )
        if at > end:
            yield f"    unsigned char gap_{i}_[{at - end}];\n"
            fill.append(iter(["    {0},\n"]))
        if s.nbytes:
            yield f"    {table_declaration(text.members[s.name], array, s.type.dtype)}; /* {comment(s.name)} */\n"
            fill.append(_braced(array, s))
        end = at + s.nbytes
    if not fill:
        yield "    unsigned char none_[1];\n"
        fill.append(iter(["    {0},\n"]))
    yield "};\n"
    yield (
        f"{before(macro, text.pool.alignment, text.pool.section, text.scope)}static const struct {text.c}_contents"
        f" {text.c} = {{\n"
    )
    for part in fill:
        yield from part
    yield "};\n"
    for i, s in enumerate(text.slots):
        if s.nbytes:
            where = f"offsetof(struct {text.c}_contents, {text.members[s.name]})"
            yield f"typedef char {prefix}_assert_{text.c}_{i}[({where} == {s.offset or 0}u) ? 1 : -1];\n"


def _braced(array: Array, slot: Slot) -> Iterator[str]:
    yield "    {\n"
    yield from element_rows(array, slot.type.dtype)
    yield "    },\n"


def listing(constants: Constants) -> Iterator[str]:
    """Lines of the header's comment about pools of constants."""
    for p in constants.pools:
        section = f", in the section {quote(p.pool.section)}" if p.pool.section else ""
        scope = f", behind {scope_macro(p.scope)}" if p.scope else ""
        yield (
            f" * Constants {p.c}, called {quote(p.pool.name)}: {p.nbytes} bytes, aligned to"
            f" {p.pool.alignment}{section}{scope}.\n"
        )
    for pool, first in constants.in_blob:
        yield (
            f" * Constants called {quote(pool.name)}: from byte {first} of the weights on, aligned to"
            f" {pool.alignment}.\n"
        )
