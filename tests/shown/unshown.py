"""Rows of the letters U, R and J that no command shows, or not all of, with the reason."""

from __future__ import annotations

NOT_BUILT = "not built"
PYTHON = "called from Python only"

REASONS = {
    "U4": "the table shows what the header promises; two models on one workspace are C that links both",
    "U6": "the figures of a pool are for planners that are functions: --pools has names, memories and limits",
    "U8": "the table shows externs in a run and in a plan; the C of an extern is compiled from Python only",
    "U11": (
        "the table shows the planners by name and places by hand; a planner that is a function is handed over from"
        " Python"
    ),
    "U20": "the table shows lives with their ends on edges; the list of ends (`kills`) is asked for from Python",
    "U21": (
        "the table shows that declared bounds hold, and `plan --bound`; check and build want numbers, so programs with"
        " symbols are planned from Python"
    ),
    "U24": f"`lower_shapes` is no stage of the pipeline, whose plan wants numbers: {PYTHON}",
    "R8": "a property of the source: one walk and one rewriter",
    "R9": f"passes of users are {PYTHON}",
    "R10": f"`lower_shapes` and `legalize(symbolic=True)` are {PYTHON}; the commands lower at numbers",
    "R11": NOT_BUILT,
    "R13": f"the table shows the stages, in order and left out; passes at function and block level are {PYTHON}",
    "R16": f"the table shows closures in a run; `lift_functions` is {PYTHON}",
    "R18": f"the table shows folding; `bind_params` is {PYTHON}, but for the sizes of --dim",
    "R24": f"the table shows that nothing unreached is in C; `dead_code` is {PYTHON}",
    "R29": f"the table shows what a region means; engines are Python callables, and `partition` is {PYTHON}",
    "R32": f"patterns are {PYTHON}",
    "R33": f"the rewriter is {PYTHON}",
    "R35": f"`canonical_bindings` is {PYTHON}",
    "R36": f"the table shows that a free variable is refused; the analyses are {PYTHON}",
    "R38": f"equality and hashes are {PYTHON}",
    "R39": f"a strategy of legalize is a function: {PYTHON}",
    **dict.fromkeys(("J1", "J2", "J3", "J4", "J5", "J6", "J7", "J8", "J9", "J13", "J19", "J20", "J22"), NOT_BUILT),
    "J10": "not built for compiled programs; `assay run` needs no compiler",
    "J21": (
        "the table shows inputs by name and what is said of unknown ones; positions, and outputs one by one, are"
        " Session's"
    ),
}
