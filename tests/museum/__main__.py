"""`python -m tests.museum [--write]`: whether specs/museum.md is what the exhibits give now, or makes it so."""

from __future__ import annotations

import argparse
import sys

from tests.museum.catalogue import PAGE, exhibits
from tests.museum.page import page
from tests.museum.planted import NOTHING


def main(args: list[str] | None = None) -> int:
    """0: all is caught, and the page is fresh or now written; 1: not."""
    parser = argparse.ArgumentParser(prog="python -m tests.museum", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    write = parser.parse_args(args).write
    found = {key: fault.refused() for key, fault in exhibits().items()}
    uncaught = [key for key, f in found.items() if f.layer == NOTHING]
    for key in uncaught:
        print(f"nothing catches {key}")
    text = page(found)
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if write and not fresh:
        PAGE.write_text(text, encoding="utf-8")
    print(
        f"{len(found)} exhibits, {len(uncaught)} uncaught; {PAGE.name}"
        f" {'is fresh' if fresh else 'written' if write else 'is stale'}"
    )
    return 1 if uncaught or not (fresh or write) else 0


if __name__ == "__main__":
    sys.exit(main())
