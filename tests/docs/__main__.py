"""`python -m tests.docs ROOT` writes the generated pages; with `--check` it only says which are stale.

Chapter: specs/verify.md, "Generated pages". Exit codes: 0 all fresh or written, 1 something is stale, 2 bad usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from assay.semantics.errors import Invalid
from tests.docs import stale, write


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description="Write the generated pages.")
    parser.add_argument("root", type=Path, help="the top of the repository, where specs/ is")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    options = parser.parse_args(argv)
    if not (options.root / "specs").is_dir():
        parser.error(f"{options.root} has no folder specs/")
    try:
        found = stale(options.root) if options.check else write(options.root)
    except Invalid as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    for path in found:
        print(f"{'stale' if options.check else 'written'}: {path.relative_to(options.root)}")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
