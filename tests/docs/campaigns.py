"""What came of campaigns against backends, a part of `specs/scoreboard.md` (specs/verify.md, "Findings").

    assay fuzz --backend NAME... --corpus DIR    # a campaign, which keeps what fails
    python -m tests.docs.campaigns DIR...        # count what became of its examples
    make docs                                    # and write the page

What each kept failure comes to is kept by hand, in `specs/findings/campaign_failures.csv`: a finding, or the reason why
there is none.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assay.verify.backends.catalogue import TOOLS, family_of
from tests.docs.failing import line, of_campaigns, rows, table
from tests.places import ROOT

COUNTS = "specs/findings/campaigns.csv"
KINDS = ("right", "open", "undecided", "wrong", "died", "late", "unpredictable", "refused", "unsaid")
Row = dict[str, str]

HEAD = """## Campaigns

Random programs (`assay fuzz`), the same for all backends of a corpus. Of failures of one kind in one operator one is
kept, made small, and looked into: each comes to a finding, which has its clause of the standard, or to a reason. The
counts are as the campaign made them: some of what it called wrong was ours, and was mended since. *minutes* is how long
the campaign ran, which all backends of a corpus share; *unsaid* is what ONNX has no words for. This part is generated
from `specs/findings/campaigns.csv`, which `python -m tests.docs.campaigns DIR...` counts, and from
`specs/findings/campaign_failures.csv`, which is kept by hand.
"""


def counted_examples(corpora: Iterable[Path]) -> list[Row]:
    """The examples that each backend was given, by what came of them."""
    found = []
    for path in (p for folder in corpora for p in sorted(folder.glob("campaign-*.json"))):
        state = json.loads(path.read_text("utf-8"))
        for name, kept in sorted(state["of"].items()):
            counts = {kind: str(kept["kinds"].get(kind, 0)) for kind in KINDS}
            ran = {"minutes": str(state.get("seconds", 0) // 60), "examples": str(state["examples"])}
            found.append({"backend": name, "version": _version(name), **ran, **counts})
    return sorted(found, key=lambda row: row["backend"])


def _version(name: str) -> str:
    try:
        return version(TOOLS[family_of(name)].packages[0])
    except PackageNotFoundError:
        return ""


def campaign_lines(root: Path) -> Iterator[str]:
    """The part of the page."""
    kept = of_campaigns(root)
    yield HEAD
    yield line(["backend", "version", "minutes", "examples", *KINDS, "kept"])
    yield "|---" * (len(KINDS) + 5) + "|"
    for row in rows(root / COUNTS):
        failures = sum(f.cases for f in kept if f.backend == row["backend"])
        shown = [f"{int(row[k]):,}" for k in ("minutes", "examples", *KINDS)]
        yield line([f"`{row['backend']}`", row["version"], *shown, f"{failures:,}"])
    yield ""
    yield from table(kept, "kept failures", "failures")


def main(arguments: Sequence[str]) -> int:
    """The command."""
    counted = counted_examples(map(Path, arguments))
    with (ROOT / COUNTS).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("backend", "version", "minutes", "examples", *KINDS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(counted)
    print(f"written: {COUNTS}; `make docs` writes the page")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
