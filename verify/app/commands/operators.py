"""`assay operators` (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from assay.verify.app.commands.declared import AsJson, held


@held
def operators(
    patterns: Annotated[
        list[str], typer.Argument(metavar="[PATTERN]...", help="names, such as nn.softmax or nn.*; all by default")
    ] = [],
    as_json: AsJson = False,
) -> None:
    """Say of each operator whether its kernel works for any size, and of those that are named along which sizes padding
    is proved to be neutral."""
    from fnmatch import fnmatchcase

    from rich.table import Table

    from assay.semantics.errors import Invalid
    from assay.semantics.ops import OPERATORS
    from assay.verify.app.answers import write_answer
    from assay.verify.app.terminal import Screen, cell

    unknown = [p for p in patterns if not any(fnmatchcase(n, p) for n in OPERATORS)]
    if unknown:
        raise Invalid(f"no operator is called {' or '.join(unknown)}", label="kernels.C4")
    chosen = [op for n, op in OPERATORS.items() if not patterns or any(fnmatchcase(n, p) for p in patterns)]
    rows = [_row(op, bool(patterns)) for op in chosen]
    if as_json:
        write_answer({"operators": rows})
        return
    table = Table(show_edge=False, pad_edge=False)
    for name in ("operator", "any size", "operands", *(["padding"] if patterns else [])):
        table.add_column(name)
    for row in rows:
        said = [row["operator"], row["sizes"] + "".join(f"\n{why}" for why in row["fixed"]), "\n".join(row["operands"])]
        if patterns:
            said.append("\n".join(f"{n}: {why or 'neutral'}" for n, why in row["padding"].items()))
        table.add_row(*map(cell, said))
    Screen().print(table)


def _row(op: Any, padding: bool) -> dict[str, Any]:
    """What is found out of an operator, by stable keys."""
    from assay.verify.dispatch.any_size import sizes_of_operator

    found = sizes_of_operator(op)
    if found is None:
        why = "a view has no kernel" if op.view else "it takes no operand"
        return {"operator": op.name, "sizes": why, "operands": [], "fixed": [], "padding": {}}
    return {
        "operator": op.name,
        "sizes": found.verdict,
        "operands": [str(t) for t in found.types],
        "fixed": list(dict.fromkeys(found.fixed.values())),
        "padding": dict(found.padding()) if padding else {},
    }
