"""The check of the line `import`: what was read is held to the static rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.graph import call, var
from assay.semantics.text.module_text import parse
from assay.verify.evidence import Context
from assay.verify.frontends import check, describe

TEXT = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.negative(R.abs(x))'


def test_a_module_that_breaks_a_rule_is_no_program() -> None:
    module = parse(TEXT)
    assert check(module, module, Context()).holds and describe(module, module) == (
        "2 nodes of 2 operators",
        {"nodes": 2, "operators": 2},
    )
    wrong = module.with_(main=replace(module.main, body=call("exp", var("loose", module.main.params[0].type))))
    with pytest.raises(Invalid, match="loose"):
        check(module, wrong, Context())
