"""HTML of the staged pages, by Sphinx with MyST and the theme Furo (extra `docs`; specs/verify.md, "Site")."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.semantics.errors import Invalid
from tests.docs.site.staged import staged

SETTINGS: dict[str, Any] = {
    "project": "Assay",
    "html_title": "Assay",
    "extensions": "myst_parser",
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sphinx": False,
    "highlight_language": "text",
    "myst_heading_anchors": 6,
    # what stands in the pages is plain Markdown, as it is read beside the sources too
    "myst_disable_syntax": "myst_role,myst_line_comment,myst_target,myst_block_break",
    # app: what a second build in one process finds already there
    "suppress_warnings": "myst.header,misc.highlighting_failure,toc.excluded,app",
}
"""What Sphinx is told; there is no conf.py."""


def build_site(root: Path, out: Path) -> list[str]:
    """Write the site into `out`; what Sphinx warns of, such as a link to nowhere, one line each.

    Invalid: the generator is not installed.
    """
    return html_of(staged(root), out)


def html_of(pages: Mapping[str, str], out: Path) -> list[str]:
    """Write pages of Markdown into `out` as HTML; see `build_site`."""
    try:
        import furo  # noqa: F401
        import myst_parser  # noqa: F401
        from sphinx.application import Sphinx
        from sphinx.util.console import nocolor
    except ImportError as missing:
        raise Invalid(f"the site needs {missing.name}: pip install '.[docs]'") from None
    nocolor()
    told = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what one dependency does to another
        for page, text in pages.items():
            place = Path(folder, "pages", page)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        app = Sphinx(
            Path(folder, "pages"), None, out, Path(folder, "trees"), "html", confoverrides=SETTINGS,
            status=None, warning=told,
        )  # fmt: skip
        app.build()
        found = told.getvalue().replace(f"{folder}/pages/", "")
    return [line for line in found.splitlines() if line.strip()]
