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
    "R8": "a property of the source: one walk and one rewriter",
    "R10": f"the table shows sizes made explicit; `legalize` is {PYTHON}, the commands lower at numbers",
    "R36": f"the table shows that a free variable is refused; the analyses are {PYTHON}",
    "R38": f"equality and hashes are {PYTHON}",
    "J20": "the table shows executables that are stored, and constants that are bound late; remote calls are not built",
    "J22": (
        "the table shows engines and externs of unknown sizes in a run and in a plan; their C is compiled from Python"
        " only"
    ),
    "J21": (
        "the table shows inputs by name and what is said of unknown ones; positions are NumPy's arr_0 or"
        " Session's, and outputs one by one are Session's"
    ),
}
