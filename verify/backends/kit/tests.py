"""The tests themselves: what the protocol of backends asks, one test for each promise (specs/verify.md, "Backends")."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

from assay.lower.frontends.onnx.tensors import ONNX_NAMES
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import AssayError
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.kit.asking import Asked, as_outcomes, asked, require_right, resolved
from assay.verify.backends.kit.programs import PROGRAMS, program
from assay.verify.backends.protocol import Array, Refused, Subject, attempt, subject_of_model

WEIGHTS = "(float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { a = MatMul(x, w) y = Tanh(a) }"
NEGATIVE = "(float[2,2] x) => (float[2,2] y) { y = Neg(x) }"
TWO = "(float[3] x) => (float[3] y, float[3] z) { y = Neg(x) z = Exp(x) }"
CHAIN = "(float[2,3] x, float[3,2] w) => (float[2,2] y) { a = MatMul(x, w) b = Tanh(a) y = Neg(b) }"
PICKED = "(float[3] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }"
ROWS = "(float[N,3] x) => (float[N,1] y) <int64[1] a = {-1}> { y = ReduceSum(x, a) }"
DIFFERENCE = "(float[2,3] x, float[2,3] z) => (float[2,3] y) { y = Sub(x, z) }"
ODD = ("x y", "a/b:0", "a.b:0", "a_b_0", "1", "é", "if", "__class__", "x\ty", "%s{}", "-")
"""Names of tensors that are no identifiers, and some that become one name where they are made so."""
ELEMENTS = tuple(n for n in ONNX_NAMES if DTYPES[n].bits >= 8 and n != "float8_e8m0fnu")
"""Element types of which operators move tensors; those below a byte are packed in files, and none is in an array."""


class BackendTests:
    """Derive a class from this whose name begins with Test, with your backend as its attribute `backend`. `dtypes`
    names the element types, such as "float16", that it must not refuse."""

    backend: ClassVar[Any] = None
    dtypes: ClassVar[tuple[str, ...]] = ()

    def asked(self, text: str) -> Asked:
        """The backend with a program, in ONNX's text from its inputs on."""
        return asked(self.who(), program(text))

    def who(self) -> InProcess:
        """The backend; one for all tests of the class, for it may keep something."""
        own = type(self)
        if "_who" not in vars(own):
            given = inspect.getattr_static(own, "backend")  # a function is no method here
            own._who = resolved(given.__func__ if isinstance(given, staticmethod) else given)  # type: ignore[attr-defined]
        found: InProcess = vars(own)["_who"]
        return found

    # --- what it says of itself

    def test_what_it_says_of_itself(self) -> None:
        """It has a name, and what it declares is of the form that is asked."""
        with as_outcomes():
            assert isinstance(self.who().name, str) and self.who().name, "its `name` is a text that is not empty"
            assert self.who().declared

    def test_it_takes_what_it_declares(self) -> None:
        """It refuses no program of which it declares every operator, and runs one program at least."""
        refused, ran = {}, 0
        for name, text in PROGRAMS.items():
            one = self.asked(text)
            outcome = attempt(self.who(), one.subject, one.subject.outputs, one.inputs())
            if not isinstance(outcome, Refused):
                ran += 1
            elif self.who().declared.operators is not None and not self.who().declared.undeclared(one.subject.model):
                refused[name] = outcome.reason
        assert not refused, f"its `operators` say that it takes these programs, and it refuses them: {refused}"
        assert ran, "it refuses every program"

    # --- what it computes

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_program(self, name: str) -> None:
        """It is right on a small program, on every kind of data."""
        self.asked(PROGRAMS[name]).judged_on_all_kinds()

    @pytest.mark.parametrize("dtype", ELEMENTS)
    def test_element_type(self, dtype: str) -> None:
        """It takes elements of a type, and gives that type; what `dtypes` names is not refused."""
        ways = ["Transpose", "Identity", *(["Add"] if dtype != "bool" and "float8" not in dtype else [])]
        way = next((w for w in ways if self.who().declared.takes(onnx.helper.make_node(w, ["x"], ["y"]))), "")
        if not way:
            pytest.skip(f"it takes none of {', '.join(ways)}")
        element = onnx.TensorProto.DataType.Value(ONNX_NAMES[dtype].upper())
        values = [onnx.helper.make_tensor_value_info(n, element, [3, 3]) for n in "xy"]
        node = onnx.helper.make_node(way, ["x"] * (1 + (way == "Add")), ["y"])
        graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
        version = 17 if "float8" not in dtype else 21
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=10)
        one = asked(self.who(), model)
        if dtype in self.dtypes:
            outcome = attempt(self.who(), one.subject, ["y"], one.inputs())
            assert not isinstance(outcome, Refused), f"it is among its `dtypes`, and {outcome}"
        require_right(one.judged(one.inputs()))

    # --- what it gives

    def test_tensors_are_given_by_their_names(self) -> None:
        """In whichever order outputs are wanted, and where some are."""
        one = self.asked(TWO)
        inputs = one.inputs()
        right = {"y": -inputs["x"], "z": np.exp(inputs["x"])}
        for wanted in (["y", "z"], ["z", "y"], ["z"]):
            given = one.ran(one.prepared(wanted), inputs)
            missing = [n for n in wanted if n not in given]
            assert not missing, f"wanted are {wanted}, and {missing} is missing"
            for n in wanted:
                assert np.shape(given[n]) == (3,) and np.allclose(given[n], right[n], 1e-3), (
                    f"wanted are {wanted}, and {n} is {given[n]} in place of {right[n]}"
                )

    def test_intermediate_tensors(self) -> None:
        """Those are right that it gives; who cannot give them refuses."""
        one = self.asked(CHAIN)
        inputs = one.inputs()
        theirs = one.ran(one.prepared(["a", "b", "y"]), inputs)
        require_right(one.oracle.judge(inputs, {"y": theirs.get("y")}, theirs))
        assert {"a", "b"} <= set(theirs), "a tensor that was wanted is missing: refuse it by NotImplementedError"

    def test_names_of_tensors(self) -> None:
        """Tensors may have any names, some of which differ in few characters."""
        nodes = [onnx.helper.make_node("Neg", [a], [b]) for a, b in zip(ODD, ODD[1:], strict=False)]
        graph = onnx.helper.make_graph(
            nodes,
            "g/1",
            [onnx.helper.make_tensor_value_info(ODD[0], onnx.TensorProto.FLOAT, [3])],
            [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in ODD[1:]],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        one = asked(self.who(), model)
        inputs = one.inputs()
        one.require_right(inputs, one.ran(one.prepared(), inputs))

    # --- what it leaves alone, and what it keeps

    def test_inputs_are_left_alone(self) -> None:
        """Arrays that are given are not written to."""
        for text in (NEGATIVE, PROGRAMS["relu"], PROGRAMS["elementwise"]):
            one = self.asked(text)
            one.ran(one.prepared(), one.inputs())

    def test_the_model_is_left_alone(self) -> None:
        """The model that is judged is not changed, by preparing or by running."""
        one = self.asked(WEIGHTS)
        before = one.subject.model.SerializeToString(deterministic=True)
        run = one.prepared()
        assert one.subject.model.SerializeToString(deterministic=True) == before, "its prepare changes the model"
        one.ran(run, one.inputs())
        assert one.subject.model.SerializeToString(deterministic=True) == before, "its run changes the model"

    def test_runs_one_after_another(self) -> None:
        """One preparation is right on inputs, on others, and on the first again."""
        one = self.asked(WEIGHTS)
        run = one.prepared()
        for when, seed in (("in the first run", 0), ("in a second run, on other inputs", 1), ("in a third run", 0)):
            inputs = one.inputs(seed)
            one.require_right(inputs, one.ran(run, inputs), when)

    def test_two_programs_at_a_time(self) -> None:
        """One program is still right after another has been prepared and run."""
        one, other = self.asked(NEGATIVE), self.asked(WEIGHTS)
        first, second = one.prepared(), other.prepared()
        for who, run in ((one, first), (other, second), (one, first)):
            who.require_right(who.inputs(), who.ran(run, who.inputs()), "with two programs prepared")

    def test_the_same_program_in_other_sizes(self) -> None:
        """A program of symbolic sizes is right on inputs of several sizes, in one preparation."""
        one = self.asked(ROWS)
        run = one.prepared()
        for n in (4, 2, 0, 4):
            inputs: dict[str, Array] = {"x": np.arange(3 * n, dtype=np.float32).reshape(n, 3)}
            one.require_right(inputs, one.ran(run, inputs), f"with N = {n}")

    # --- inputs of all kinds

    @pytest.mark.parametrize("layout", ["transposed", "every other element", "backwards", "repeated", "read-only"])
    def test_layout_of_inputs(self, layout: str) -> None:
        """Inputs are arrays of any strides."""
        whole = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
        x = {
            "transposed": whole[:3, :2].T,
            "every other element": whole[::3, ::2],
            "backwards": whole[1::-1, 2::-1],
            "repeated": np.broadcast_to(whole[0, :3], (2, 3)),
            "read-only": whole[:2, :3].copy(),
        }[layout]
        x.flags.writeable = False
        inputs: dict[str, Array] = {"x": x, "z": whole[2:4, 3:].copy()}
        one = self.asked(DIFFERENCE)
        run = one.prepared()
        with as_outcomes():
            outputs = {n: np.array(v) for n, v in run(inputs).items()}
        one.require_right(inputs, outputs, f"where an input is {layout}")

    def test_an_input_that_is_missing(self) -> None:
        """It raises something where an input is not given, and makes nothing up, also after a run."""
        one = self.asked(DIFFERENCE)
        run = one.prepared()
        inputs = one.inputs()
        for when in ("before any run", "after a run"):
            try:
                given = run({"x": inputs["x"]})
            except AssayError:
                pass
            else:
                pytest.fail(f"{when}, without its input z it gives {given}, and an exception is wanted")
            one.require_right(inputs, one.ran(run, inputs), "after a run that failed")

    # --- refusals and traps

    def test_it_refuses_what_it_does_not_know(self) -> None:
        """An operator that there is not is refused, by NotImplementedError or what it declares in `refuses`."""
        subject = subject_of_model(program("(float[3] x) => (float[3] y) { a = Exp(x) y = Neg(a) }"))
        model = program("(float[3] x) => (float[3] y) { y = Neg(x) }")
        model.graph.node[0].op_type, model.graph.node[0].domain = "NoSuchOperator", "assay.kit"
        model.opset_import.append(onnx.helper.make_opsetid("assay.kit", 1))
        inputs: dict[str, Array] = {"x": np.array([1, 2, 3], np.float32)}
        try:
            given = attempt(self.who(), Subject(subject.module, model, subject.tensors), ["y"], inputs)
        except AssayError as wrong:
            pytest.fail(f"on an operator that there is not: {wrong}")
        outputs = getattr(given, "outputs", None)
        if outputs is not None and np.allclose(outputs.get("y", 0), -np.exp(inputs["x"])):
            pytest.skip("it does not read `subject.model`, in which there is an operator that it cannot know")
        words = f"on an operator that there is not, NotImplementedError is wanted, not {given}"
        assert isinstance(given, Refused), words

    def test_where_the_program_fails(self) -> None:
        """It raises where an index is outside, of the right kind if it says a kind, and is right afterwards."""
        one = self.asked(PICKED)
        x = np.array([1, 2, 3], np.float32)
        fine: dict[str, Array] = {"x": x, "i": np.array([2, 0])}
        failing: dict[str, Array] = {"x": x, "i": np.array([0, 7])}
        run = one.prepared()
        one.require_right(fine, one.ran(run, fine))
        verdict = one.judged(failing)
        if verdict.outcome == "wrong":
            pytest.fail(f"where an index is outside: {verdict}")
        with suppress(AssayError):
            run(failing)
        one.require_right(fine, one.ran(run, fine), "after a run that failed")
        if verdict.outcome != "right":
            pytest.skip(f"where an index is outside it does not raise: {verdict}")
