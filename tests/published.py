"""Every answer that a test of commands writes is as `specs/answers.schema.json` says."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TextIO

from tests.places import ROOT

SCHEMA = ROOT / "specs" / "answers.schema.json"


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
    return found


@cache
def validator(name: str) -> Any:
    """Of the answers of one format; of one that the schema does not have, the whole schema."""
    from jsonschema import Draft202012Validator  # only where something is written

    whole = schema()
    known = name in whole["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]} if known else whole)


def complaints(answer: Any) -> list[str]:
    """What of an answer is not as the schema says."""
    name = answer.get("format", "") if isinstance(answer, dict) else ""
    text = json.dumps(answer, allow_nan=False)  # a number that JSON does not have is a ValueError
    found = validator(name).iter_errors(json.loads(text))
    return [f"{name}{e.json_path[1:]}: {e.message[:300]}" for e in found]


class CheckedJson:
    """Stands in for the module `json` of `assay.verify.app.answers`: writes as it does, and keeps what is wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def dump(self, answer: Any, to: TextIO, **options: Any) -> None:
        try:
            self.wrong += complaints(answer)
        except ValueError as odd:
            self.wrong.append(f"no JSON: {odd}")
        json.dump(answer, to, **options)

    def taken(self) -> list[str]:
        """What was wrong since the last time."""
        found, self.wrong = self.wrong, []
        return found
