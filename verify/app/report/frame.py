"""What every page has around its body (specs/verify.md, "Report")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from assay.verify.app.report.plot import STYLE, html_escaped

POLICY = "default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'"


def html_page(mark: str, title: str, body: Iterable[str], styles: Sequence[str], scripts: Sequence[str]) -> str:
    """The text of a page that begins with `mark`, needs nothing beside it, and fetches nothing. Styles and scripts are
    files of this folder; the scripts are parts of one function, in this order."""
    here = files("assay.verify.app.report")
    css = "".join((here / name).read_text("utf-8") for name in styles)
    script = "".join(["'use strict';\n(() => {\n", *((here / name).read_text("utf-8") for name in scripts), "})();\n"])
    return "\n".join([
        mark,
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        # nothing is fetched, whatever a name may be
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{html_escaped(title)}</title><style>{STYLE}{css}</style></head><body><main>",
        *body,
        f"</main><script>{script}</script></body></html>\n",
    ])  # fmt: skip
