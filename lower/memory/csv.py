"""Problems and plans as CSV, in the form of the public allocation benchmarks (specs/lower.md).

The columns of the set of google/minimalloc, in any order, with the names that its reader knows:

    id (buffer, buffer_id)   the buffer's name
    lower (begin, start)     the first position at which it is live
    upper                    the position after the last one; or `end`, the last one
    size                     bytes: a number, or an expression of symbols such as `4*n + 64`
    alignment                if there is such a column; 1 if it is empty
    gaps                     positions at which it is not live, such as `7-9 12-14`: like lower and upper
    offset                   if it has been placed by hand; such a column may be empty; with symbols as a size is
    pool                     the pools that may hold it, such as `fast slow`, the most wanted first; empty: any

Other columns are kept and mean nothing. A plan adds `offset`, and `pool` where there are several.

A number is decimal digits with a sign before them at most, and in int64: positions, sizes and offsets are counted in
it. Expressions are those of scalars in the text (specs/semantics.md, "Text").
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.lower.memory.problem import check_buffer
from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.digits import is_digits
from assay.semantics.dtypes import INT64
from assay.semantics.errors import AssayError, Invalid, Unsupported
from assay.semantics.files import read_text
from assay.semantics.memory import BufferInfo, Interval, Plan, Pool, Problem, arrangements
from assay.semantics.scalar import Dim, Expr, Var, cast, variables

NAMES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}
REQUIRED = ("id", "lower", "upper", "size")
GAP = re.compile(r"(-?[0-9]+)-(-?[0-9]+)")
MOST = int(INT64.max)
SHOWN = 40
"""So many characters of what somebody wrote are said again."""


@dataclass(frozen=True)
class BufferTable:
    """A file: its columns as they are called there, its rows, and the buffer of each row. `lines` are line numbers,
    `offsets` what stands in that column, by the buffers' names; a buffer has its own if that is a number."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    buffers: tuple[BufferInfo, ...]
    offsets: Mapping[str, Dim] = field(default_factory=dict)

    def problem(self, pools: Sequence[Pool] = (), deadline: Deadline = NEVER) -> Problem:
        """The problem of placing these buffers in pools; by default in one without a limit. Late: the time is up."""
        given = tuple(pools) or (Pool("workspace"),)
        known = {p.name for p in given}
        for b, line in zip(self.buffers, self.lines, strict=True):
            deadline.turn()
            for k, name in enumerate(b.pools):
                if name in b.pools[:k]:
                    what = f"buffer {short(b.name)} wants pool {short(name)!r} twice"
                    raise Invalid(what, where=f"{self.source}:{line}", label="csv.C3")
                if name not in known:
                    raise Invalid(
                        f"buffer {short(b.name)} wants pool {short(name)!r}; the pools are {', '.join(sorted(known))}",
                        where=f"{self.source}:{line}",
                        label="csv.C3",
                    )
        placed = (
            replace(b, pools=(given[0].name,)) if b.offset is not None and not b.pools else b for b in self.buffers
        )
        return Problem(tuple(placed), given)

    def written(self, plan: Plan, several: bool = False) -> str:
        """The file with the offsets of a plan, and with their pools where there are several. Those of arrangements
        behind the first have columns of their own, `offset_1` and so on, which are not read again."""
        made = {"pool": [plan.places[b.name].pool for b in self.buffers]} if several else {}
        for k, one in enumerate(arrangements(plan)):
            made[f"offset_{k}" if k else "offset"] = [dim_text(one.places[b.name].offset) for b in self.buffers]
        columns = [*(c for c in self.columns if c not in made), *made]
        at = {c: k for k, c in enumerate(self.columns)}
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for k, row in enumerate(self.rows):
            writer.writerow([made[c][k] if c in made else row[at[c]] for c in columns])
        return out.getvalue()


def dim_text(dim: Dim) -> str:
    """A size or an offset, as it is read again."""
    if isinstance(dim, int):
        return str(dim)
    from assay.semantics.text.scalars.printer import ScalarPrinter

    return ScalarPrinter({v: v.name for v in variables(dim)}, INT64).text(dim)


def read_table(path: Path, deadline: Deadline = NEVER, symbols: Mapping[str, Var] | None = None) -> BufferTable:
    """The table of a file. Invalid: it cannot be read, or is not of this form. Late: the time is up."""
    try:
        text = read_text(path, "utf-8-sig")
    except OSError as wrong:
        raise Invalid(f"cannot read: {wrong.strerror}", where=str(path), label="csv.C1") from None
    except UnicodeDecodeError as wrong:
        line = wrong.object.count(b"\n", 0, wrong.start) + 1
        raise Invalid(f"is not text in UTF-8: byte {wrong.start}", where=f"{path}:{line}", label="csv.C1") from None
    return parse(text, str(path), deadline, symbols)


def parse(
    text: str, source: str = "", deadline: Deadline = NEVER, symbols: Mapping[str, Var] | None = None
) -> BufferTable:
    """The table of a text; `source` is for messages. `symbols` may stand in sizes and offsets."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Invalid("there is a NUL byte, which is no text", where=f"{source}:{line}", label="csv.C1")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] | None = None
    rows: list[tuple[str, ...]] = []
    lines: list[int] = []
    buffers: list[BufferInfo] = []
    offsets: dict[str, Dim] = {}
    seen: dict[str, int] = {}
    try:
        for cells in reader:
            deadline.turn()
            row = tuple(c.strip() for c in cells)
            line, where = reader.line_num, f"{source}:{reader.line_num}"
            if not any(row):
                continue
            if columns is None:
                columns = _header(row, where)
                continue
            if len(row) != len(columns):
                raise Invalid(
                    f"has {len(row)} fields, but the header has {len(columns)}: {short(','.join(columns))}",
                    where=where,
                    label="csv.C2",
                )
            buffer, offset = _buffer(dict(zip(columns, row, strict=True)), where, symbols or {})
            if buffer.name in seen:
                raise Invalid(
                    f"a second buffer called {short(buffer.name)!r}; the first is in line {seen[buffer.name]}",
                    where=where,
                    label="memory.C1",
                )
            seen[buffer.name] = line
            if offset is not None:
                offsets[buffer.name] = offset
            rows.append(row)
            lines.append(line)
            buffers.append(buffer)
    except csv.Error as wrong:
        raise Invalid(f"is not CSV: {wrong}", where=f"{source}:{reader.line_num}", label="csv.C1") from None
    if columns is None:
        raise Invalid(f"is empty; the first line names the columns: {','.join(REQUIRED)}", where=source, label="csv.C1")
    return BufferTable(source, tuple(columns), tuple(rows), tuple(lines), tuple(buffers), offsets)


def table_of(buffers: Iterable[BufferInfo]) -> BufferTable:
    """The table of buffers that stand in no file. Invalid: a buffer cannot be, memory.C3 to C5."""
    given = tuple(buffers)
    rows: list[tuple[str, ...]] = []
    for b in given:
        check_buffer(b)
        ends = [end for interval in b.live for end in interval] or [0, 0]
        gaps = " ".join(f"{a}-{z}" for a, z in zip(ends[1:-1:2], ends[2:-1:2], strict=True))
        rows.append(
            (b.name, str(ends[0]), str(ends[-1]), dim_text(b.nbytes), str(b.alignment), gaps, " ".join(b.pools))
        )
    offsets = {b.name: b.offset for b in given if b.offset is not None}
    columns = (*REQUIRED, "alignment", "gaps", "pool")
    return BufferTable("", columns, tuple(rows), tuple(range(1, len(given) + 1)), given, offsets)


def _header(row: Sequence[str], where: str) -> list[str]:
    known = [NAMES.get(c, c) for c in row]
    for name in REQUIRED:
        if name not in known:
            raise Invalid(
                f"there is no column {name!r}; the first line names the columns, at least {','.join(REQUIRED)}, not"
                f" {short(','.join(row))}",
                where=where,
                label="csv.C1",
            )
    if twice := [c for c in known if known.count(c) > 1]:
        raise Invalid(f"there are two columns {short(twice[0])!r}", where=where, label="csv.C1")
    return list(row)


def _buffer(row: dict[str, str], where: str, symbols: Mapping[str, Var]) -> tuple[BufferInfo, Dim | None]:
    """The buffer of a row, by the columns' names in the file, and where it lies if that is said."""
    last = 1 if "end" in row else 0
    cells = {NAMES.get(c, c): text for c, text in row.items()}
    if not cells["id"]:
        raise Invalid("the buffer has no name: id is empty", where=where, label="csv.C2")
    lower = _number(cells["lower"], "lower", where)
    upper = _number(cells["upper"], "end" if last else "upper", where) + last
    if upper > MOST:
        raise Invalid(f"end is {upper - 1}, and the position after it must be in int64", where=where, label="csv.C4")
    if lower >= upper:
        raise Invalid(
            f"buffer {short(cells['id'])} is live from {lower} up to, and not including, {upper}: never",
            where=where,
            label="memory.C5",
        )
    pools = tuple(cells.get("pool", "").split())
    offset = _dim(cells["offset"], "offset", where, symbols) if cells.get("offset") else None
    buffer = BufferInfo(
        cells["id"],
        _dim(cells["size"], "size", where, symbols),
        _without(lower, upper, _gaps(cells.get("gaps", ""), last, where), where),
        _number(cells.get("alignment") or "1", "alignment", where),
        pools=pools,
        offset=offset if isinstance(offset, int) else None,
    )
    if buffer.offset is not None and isinstance(buffer.nbytes, int) and buffer.offset + buffer.nbytes > MOST:
        end = buffer.offset + buffer.nbytes
        raise Invalid(
            f"buffer {short(buffer.name)} ends at byte {end}, which must be in int64", where=where, label="csv.C4"
        )
    try:
        check_buffer(buffer)
    except AssayError as wrong:
        raise wrong.at(where) from None
    return buffer, offset


def _dim(text: str, column: str, where: str, symbols: Mapping[str, Var]) -> Dim:
    """A number, or an expression in int64 where there are symbols."""
    if not symbols or is_digits(text.lstrip("+-")):
        return _number(text, column, where)
    from assay.semantics.text.scalars import ScalarParser  # most files have numbers alone
    from assay.semantics.text.source import Source

    reader = ScalarParser(Source.of(text, where), symbols, integer=INT64)
    try:
        found = reader.dim(ast.Constant(text, lineno=1, col_offset=0))
    except Invalid as wrong:
        known = f"; the symbols are those of --bound: {', '.join(symbols)}" if wrong.label == "text.C3" else ""
        what = f"{column} is {short(text)!r}: {short(wrong.message.splitlines()[0], 100)}{known}"
        raise Invalid(what, where=where, label="csv.C2") from None
    return cast(found, INT64) if isinstance(found, Expr) else _number(str(found), column, where)


def _number(text: str, column: str, where: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not is_digits(digits):
        what = f"{column} is {short(text)!r}, and must be a whole number"
        more = ", or an expression of symbols that --bound gives" if column in ("size", "offset") else ""
        raise Invalid(f"{what}{more}", where=where, label="csv.C2")
    number = int(text) if len(digits.lstrip("0")) < 20 else MOST + 1
    if not -MOST - 1 <= number <= MOST:
        what = f"{column} is {short(text)}, and must be in int64: no less than {-MOST - 1} and no more than {MOST}"
        raise Invalid(what, where=where, label="csv.C4")
    return number


def short(text: str, most: int = SHOWN) -> str:
    """A text of the user's for a message: the middle is left out where it is long."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 4 :]} ({len(text)} characters)"


def _gaps(text: str, last: int, where: str) -> list[Interval]:
    found: list[Interval] = []
    for gap in text.split():
        if "@" in gap:
            raise Unsupported(
                f"the gap {short(gap)!r} keeps a part of the buffer in use, which no planner here knows; give the parts"
                " as buffers, or the gap without @",
                where=where,
                label="csv.C2",
            )
        parts = GAP.fullmatch(gap)
        if parts is None:
            raise Invalid(
                f"the gap {short(gap)!r} must be two numbers with a dash, such as 7-9", where=where, label="csv.C2"
            )
        found.append((_number(parts[1], "a gap", where), _number(parts[2], "a gap", where) + last))
    return found


def _without(lower: int, upper: int, gaps: Sequence[Interval], where: str) -> tuple[Interval, ...]:
    """[lower, upper) without the gaps, which lie in it in order and part from one another."""
    live: list[Interval] = []
    at = lower
    for a, z in gaps:
        if not at < a < z < upper:
            raise Invalid(
                f"the gap {a}-{z} must lie inside the life from {lower} up to {upper}, after the gaps before it, and"
                " leave something between",
                where=where,
                label="memory.C5",
            )
        live.append((at, a))
        at = z
    return (*live, (at, upper))
