"""`python -m tests.docs.site -o DIR` writes the site.

Exit codes: 0 written, 1 something is amiss in it, 2 it cannot be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from assay.semantics.errors import Invalid
from tests.docs.site.build import build_site
from tests.places import ROOT


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.site", description="Write the site.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "site", help="the folder that it is written into")
    options = parser.parse_args(argv)
    try:
        warnings = build_site(ROOT, options.output)
    except Invalid as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    for line in warnings:
        print(line, file=sys.stderr)
    print(f"written: {options.output}/index.html")
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
