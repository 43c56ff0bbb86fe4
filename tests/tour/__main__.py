"""`python -m tests.tour` says whether specs/tour.md is fresh; with `--write` it writes the page."""

from __future__ import annotations

import sys

from tests.tour.page import PAGE, page

if __name__ == "__main__":
    text = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        print("tour.md written")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit("specs/tour.md is stale: run python -m tests.tour --write")
