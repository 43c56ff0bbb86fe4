"""`assay backends` (specs/verify.md, "Backends")."""

from __future__ import annotations

from assay.verify.app.commands.declared import AsJson, held


@held
def backends(as_json: AsJson = False) -> None:
    """List who can be judged: installed or not, the version of the tool, what it takes, the freedoms that it declares,
    and what to install."""
    from assay.verify.app.answers import write_answer
    from assay.verify.app.terminal import Screen
    from assay.verify.backends.listing import listed_backends

    rows = listed_backends()
    if as_json:
        write_answer({"backends": [row.as_data() for row in rows]})
        return
    out, width = Screen(), max(len(row.name) for row in rows)
    for row in rows:
        out.print(f"{row.name:{width}}  {row.line()}")
    out.print("each of them on another machine: NAME@tcp://HOST:8786, through a Dask worker there (extra cluster)")
