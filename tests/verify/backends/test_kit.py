"""The kit for authors of backends: a right one passes, and each test catches the fault that it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import as_strided
from onnx.reference import ReferenceEvaluator

import assay
from assay.verify.backends.kit import BackendTests
from assay.verify.backends.kit.programs import PROGRAMS


def right(model: onnx.ModelProto, inputs: Mapping[str, Any], wanted: Sequence[str] | None = None) -> Any:
    """The onnx package's evaluator, as its users call it."""
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None if wanted is None else list(wanted), dict(inputs))


class TestOfOne(BackendTests):
    """A function that is right passes all."""

    backend = right
    dtypes = ("float32", "float16", "int8", "bool", "bfloat16")


FEW = {"Add", "Mul", "Sub", "Neg", "Identity"}


class Few:
    """Takes few operators, refuses in words of its own, and shows no intermediate tensors."""

    name = "few"
    operators = FEW | {"MatMul", "Tanh"}
    refuses = LookupError

    def prepare(self, subject: Any, wanted: Sequence[str]) -> Any:
        if set(wanted) - set(subject.outputs):
            raise LookupError("no intermediate tensors")
        return lambda inputs: dict(zip(wanted, right(subject.model, inputs, wanted), strict=True))


def test_what_is_refused_is_skipped() -> None:
    class TestFew(BackendTests):
        backend = Few

    kit = TestFew()
    for name, args in (("intermediate_tensors", ()), ("program", ("softmax",)), ("where_the_program_fails", ())):
        with pytest.raises(pytest.skip.Exception, match=r"no intermediate|does not take (Softmax|Gather)"):
            getattr(kit, f"test_{name}")(*args)
    kit.test_it_takes_what_it_declares()
    kit.test_program("elementwise")


# --- faults -------------------------------------------------------------------------------------------------------


@dataclass
class Faulty:
    """A right backend with a fault in preparing or in running: `work(self, inputs, outputs)` gives what it gives."""

    work: Callable[..., Any] = lambda self, inputs, outputs: outputs
    preparing: Callable[..., Any] = lambda self: None
    before: Callable[..., Any] = lambda self, inputs: inputs
    name: Any = "faulty"
    accepts: Any = None
    operators: Any = None
    wanted: Sequence[str] = ()
    subject: Any = None
    kept: dict[str, Any] = field(default_factory=dict)

    def prepare(self, subject: Any, wanted: Sequence[str]) -> Any:
        self.subject, self.wanted = subject, wanted
        self.preparing(self)

        def run(inputs: Mapping[str, Any]) -> Any:
            self.wanted = wanted
            given = self.before(self, inputs)
            try:
                found = right(subject.model, given, wanted)
            except RuntimeError as wrong:
                raise NotImplementedError(str(wrong)) from wrong
            return self.work(self, inputs, dict(zip(wanted, found, strict=True)))

        return run


def each(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A fault in every tensor that is given."""
    return lambda self, inputs, outputs: {n: change(v) for n, v in outputs.items()}


def refuse(*args: Any) -> Any:
    raise NotImplementedError("not today")


def positional(self: Faulty, inputs: Any, outputs: Any) -> Any:
    """Outputs in the order of the model, by whatever names are wanted."""
    return dict(zip(self.wanted, right(self.subject.model, inputs), strict=False))


def other_axis(self: Faulty, inputs: Any, outputs: Any) -> Any:
    e = np.exp(inputs["x"])
    return {"y": e / e.sum(-1, keepdims=True)}


def only_outputs(self: Faulty, inputs: Any, outputs: Any) -> Any:
    return {n: outputs["y"] for n in self.wanted}


def sanitized(self: Faulty, inputs: Any, outputs: Any) -> Any:
    """Names made identifiers: two of them become one."""
    made = {"".join(c if c.isalnum() else "_" for c in n): v for n, v in outputs.items()}
    return {n: made["".join(c if c.isalnum() else "_" for c in n)] for n in outputs}


def in_place(self: Faulty, inputs: Any, outputs: Any) -> Any:
    next(iter(inputs.values()))[...] *= -1
    return outputs


def drops_weights(self: Faulty, *args: Any) -> Any:
    del self.subject.model.graph.initializer[0].float_data[:]
    self.subject.model.graph.initializer[0].raw_data = bytes(24)
    return args[-1] if args else None


def remembers(self: Faulty, inputs: Any, outputs: Any) -> Any:
    return self.kept.setdefault("outputs", outputs)


def adds_up(self: Faulty, inputs: Any, outputs: Any) -> Any:
    self.kept["sum"] = self.kept.get("sum", 0) + outputs["y"]
    return {"y": self.kept["sum"]}


def first_size(self: Faulty, inputs: Any, outputs: Any) -> Any:
    n = self.kept.setdefault("n", len(outputs["y"]))
    return {"y": np.resize(outputs["y"], (n, 1))}


def one_global(self: Faulty, inputs: Any, outputs: Any) -> Any:
    """The program that was prepared last, whoever runs."""
    if list(self.subject.outputs) == list(self.wanted) and len(self.subject.model.graph.input) == len(inputs):
        return dict(zip(self.wanted, right(self.subject.model, {"x": np.resize(inputs["x"], (2, 3))}), strict=True))
    return outputs


def strides_forgotten(self: Faulty, inputs: Any, outputs: Any) -> Any:
    """What a kernel reads that takes the pointer and the shape."""
    x = inputs["x"]
    packed = tuple(int(s) for s in np.empty(x.shape, x.dtype).strides)
    return {"y": as_strided(x, x.shape, packed) - inputs["z"]}


def writes(self: Faulty, inputs: Any, outputs: Any) -> Any:
    inputs["x"][...] += 0
    return outputs


def made_up(self: Faulty, inputs: Any) -> Any:
    return {"z": np.zeros((2, 3), np.float32), **inputs}


def last_known(self: Faulty, inputs: Any) -> Any:
    self.kept |= inputs
    return self.kept if "z" in self.kept else inputs


def without_words(self: Faulty) -> Any:
    """Takes an operator that it does not know for Identity."""
    for node in self.subject.model.graph.node:
        if node.domain:
            node.op_type, node.domain = "Identity", ""


def by_table(self: Faulty) -> Any:
    {"Neg": 1, "Exp": 2}[self.subject.model.graph.node[0].op_type]


def outside(self: Faulty, inputs: Any) -> bool:
    return "i" in inputs and bool((inputs["i"] > 2).any())


def other_kind(self: Faulty, inputs: Any) -> Any:
    if outside(self, inputs):
        raise assay.Trap("cast", "no such index")
    return inputs


def stays_broken(self: Faulty, inputs: Any) -> Any:
    self.kept["broken"] = self.kept.get("broken") or outside(self, inputs)
    if self.kept["broken"]:
        raise assay.Trap("", "no such index")
    return inputs


def crashes(self: Faulty, inputs: Any, outputs: Any) -> Any:
    assert all(np.size(v) for v in inputs.values()), "a size of zero"
    return outputs


FAULTS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("what_it_says_of_itself", (), Faulty(name=""), "its `name` is a text that is not empty"),
    ("what_it_says_of_itself", (), Faulty(accepts=["flush"]), "it accepts 'flush'; there is kept-wider"),
    ("what_it_says_of_itself", (), 3, "`backend` is a int; an object with `name`"),
    ("it_takes_what_it_declares", (), Faulty(refuse, operators=FEW), "it refuses them: .*'elementwise': .*not today"),
    ("it_takes_what_it_declares", (), Faulty(preparing=refuse), "it refuses every program"),
    ("program", ("softmax",), Faulty(other_axis), "on integers inputs: wrong .* operator that is wrong is Softmax"),
    ("program", ("scalars",), Faulty(each(np.atleast_1d)), r"is Tensor\(\(1,\), float32\) instead of Tensor\(\(\)"),
    (
        "program",
        ("empty",),
        Faulty(crashes),
        r"raised AssertionError: a size of zero .*\(test_kit.py:[0-9]+ in crashes\)",
    ),
    ("program", ("truths",), Faulty(each(lambda v: v.astype(np.uint8))), "uint8.* instead of"),
    ("element_type", ("float16",), Faulty(each(lambda v: v.astype(np.float32))), "float32.* instead of"),
    ("element_type", ("int16",), Faulty(refuse), "it is among its `dtypes`, and Refused.*not today"),
    ("tensors_are_given_by_their_names", (), Faulty(positional), r"wanted are \['z', 'y'\], and z is"),
    ("tensors_are_given_by_their_names", (), Faulty(lambda s, i, o: {"y": -i["x"]}), r"and \['z'\] is missing"),
    ("intermediate_tensors", (), Faulty(only_outputs), "the first operator that is wrong is MatMul, tensor a"),
    ("intermediate_tensors", (), Faulty(lambda s, i, o: {"y": o["y"]}), "refuse it by NotImplementedError"),
    ("intermediate_tensors", (), lambda m, i: {"y": 1}[m.graph.output[0].name], "KeyError: 'a'"),
    ("names_of_tensors", (), Faulty(sanitized), "wrong .*output a"),
    ("inputs_are_left_alone", (), Faulty(in_place), "changes its input x"),
    ("the_model_is_left_alone", (), Faulty(preparing=drops_weights), "its prepare changes the model"),
    ("the_model_is_left_alone", (), Faulty(drops_weights), "its run changes the model"),
    ("runs_one_after_another", (), Faulty(remembers), "in a second run, on other inputs: wrong"),
    ("runs_one_after_another", (), Faulty(adds_up), "in a second run, on other inputs: wrong"),
    ("two_programs_at_a_time", (), Faulty(one_global), "with two programs prepared: wrong|raised"),
    ("the_same_program_in_other_sizes", (), Faulty(first_size), "with N = 2: wrong"),
    *(
        ("layout_of_inputs", (layout,), Faulty(strides_forgotten), f"where an input is {layout}: wrong")
        for layout in ("transposed", "every other element", "backwards", "repeated")
    ),
    ("layout_of_inputs", ("read-only",), Faulty(writes), "ValueError: .*read-only"),
    ("an_input_that_is_missing", (), Faulty(before=made_up), "before any run, without its input z it gives"),
    ("an_input_that_is_missing", (), Faulty(before=last_known), "after a run, without its input z it gives"),
    ("it_refuses_what_it_does_not_know", (), Faulty(preparing=without_words), "NotImplementedError is wanted, not Ran"),
    ("it_refuses_what_it_does_not_know", (), Faulty(preparing=by_table), "is wanted, not Died.*KeyError: 'NoSuchOp"),
    ("where_the_program_fails", (), Faulty(before=other_kind), r"fails with trap \(cast\).*must fail with"),
    ("where_the_program_fails", (), Faulty(before=stays_broken), "fails where it must not: trap: no such index"),
]


@pytest.mark.parametrize(
    ("test", "args", "backend", "words"), FAULTS, ids=[f"{f[0]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_each_fault_is_caught(test: str, args: tuple[Any, ...], backend: Any, words: str) -> None:
    kit = type("TestFaulty", (BackendTests,), {"backend": backend, "dtypes": ("int16",)})()
    with pytest.raises((AssertionError, pytest.fail.Exception), match=f"(?s){words}"):
        getattr(kit, f"test_{test}")(*args)


def test_who_gives_outputs_where_the_program_fails_is_told() -> None:
    """ONNX leaves open what then comes: that is no fault."""

    def clamped(self: Faulty, inputs: Any) -> Any:
        return {**inputs, "i": np.minimum(inputs["i"], 2)} if "i" in inputs else inputs

    kit = type("TestClamped", (BackendTests,), {"backend": Faulty(before=clamped)})()
    with pytest.raises(pytest.skip.Exception, match="where an index is outside it does not raise: unpredictable"):
        kit.test_where_the_program_fails()


def test_every_test_of_the_kit_has_a_fault() -> None:
    tests = {n.removeprefix("test_") for n in vars(BackendTests) if n.startswith("test_")}
    assert tests == {name for name, *_ in FAULTS}
    assert len(PROGRAMS) > 30
