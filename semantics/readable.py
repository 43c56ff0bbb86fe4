"""Values that are shown as their text: by `repr`, and by pretty printers (specs/semantics.md, X12)."""

from __future__ import annotations

import sys
from typing import Any


class Readable:
    """Base of classes whose `repr` is meant for people: pretty printers show it, and not the fields."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's protocol, which Hypothesis follows too."""
        del cycle
        for k, line in enumerate(repr(self).split("\n")):
            if k:
                printer.break_()
            printer.text(line)


def readable_text(value: object) -> str:
    """A module or a graph function as text, of bounded length. The printer is looked for when it is first wanted, by
    the package: it imports what it prints."""
    return str(sys.modules["assay"].text_for_people(value))
