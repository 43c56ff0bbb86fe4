"""Whether outputs are right: verdicts without tolerances (rule M9; specs/verify.md, "Verdict").

oracle = Oracle(module)
inputs = oracle.inputs("integers", seed=0)
verdict = oracle.judge(inputs, outputs)              # outcome, layer, the worst element and its interval
verdict = judge_backend(subject, backend, inputs)    # with the first operator that is wrong
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.verify.oracle.declarations import Accepts
    from assay.verify.oracle.expected import Expected, Possible
    from assay.verify.oracle.judge import Oracle
    from assay.verify.oracle.trial import judge_backend, oracle_of
    from assay.verify.oracle.verdict import Verdict, Worst

__all__ = ["Accepts", "Expected", "Oracle", "Possible", "Verdict", "Worst", "judge_backend", "oracle_of"]

_HOMES = {
    "Accepts": "declarations",
    "Expected": "expected",
    "Oracle": "judge",
    "Possible": "expected",
    "Verdict": "verdict",
    "Worst": "verdict",
    "judge_backend": "trial",
    "oracle_of": "trial",
}
"""The module of each name, imported where it is first used: a backend's process needs the declarations alone."""

if not TYPE_CHECKING:  # a type checker knows the names, and what is none of them

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'assay.verify.oracle' has no attribute {name!r}")
        value = resolve_name(f"assay.verify.oracle.{_HOMES[name]}:{name}")
        globals()[name] = value
        return value
