"""Random ONNX models of a few nodes, valid by construction, with what small tests leave out: loops, scans, choices,
local functions, recurrent operators, sequences, optional values (specs/verify.md, "Programs").

Every choice is one call of `pick(n)`, a number below n; 0 is always the simplest. Values are of a few kinds: a float
matrix "F" of 2 by 3, an int64 vector "I" of 3, a bool "B", an int64 number "N", a sequence "S" of matrices.

    model = a_model(by_random(Random(7)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from assay.verify.strategies.choosing import Pick, one_of

OPSET = 18
DOMAIN = "here"
TYPES: dict[str, tuple[int, tuple[int, ...]]] = {
    "F": (TensorProto.FLOAT, (2, 3)),
    "I": (TensorProto.INT64, (3,)),
    "B": (TensorProto.BOOL, ()),
    "N": (TensorProto.INT64, ()),
}
CARRIED = ("F", "I", "N")
LENGTHS = (1, 2, 18)
"""Of what recurrent operators read: the last is longer than what an import writes out step by step."""


def declared(name: str, kind: str) -> ValueInfoProto:
    """A declaration of a value of a kind."""
    if kind == "S":
        return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, (2, 3))
    if kind == "O":
        of = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3)))
        return helper.make_value_info(name, of)
    of, shape = TYPES[kind]
    return helper.make_tensor_value_info(name, of, shape)


@dataclass
class Part:
    """A graph or a function that is being written: its nodes, and what is at hand in it, by kind, the newest last."""

    nodes: list[NodeProto] = field(default_factory=list)
    pool: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Writer:
    """Writes one model. `size` is about how many nodes there may be."""

    pick: Pick
    size: int
    parts: list[Part] = field(default_factory=list)
    functions: list[FunctionProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    count: int = 0

    @property
    def here(self) -> Part:
        return self.parts[-1]

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def keep(self, kind: str, name: str) -> str:
        self.here.pool.setdefault(kind, []).append(name)
        return name

    def node(self, op: str, *inputs: str, kind: str = "F", domain: str = "", **attrs: object) -> str:
        out = self.name(op[0].lower())
        self.here.nodes.append(helper.make_node(op, list(inputs), [out], domain=domain, **attrs))
        return self.keep(kind, out)

    def stored(self, array: np.ndarray, kind: str = "") -> str:
        out = self.name("c")
        self.here.nodes.append(helper.make_node("Constant", [], [out], value=numpy_helper.from_array(array, out)))
        return self.keep(kind, out) if kind else out

    # --- values ------------------------------------------------------------------------------------------------------

    def old(self, kind: str) -> str:
        """Something of the kind that is at hand here or around: the newest first."""
        found = [n for part in self.parts for n in part.pool.get(kind, ())][-5:][::-1]
        return found[self.pick(len(found))] if found else self.least(kind)

    def least(self, kind: str) -> str:
        match kind:
            case "F":
                return self.stored(self.random.standard_normal((2, 3)).astype(np.float32), "F")
            case "I":
                return self.stored(np.array([3, -1, 2], np.int64), "I")
            case "B":
                return self.stored(np.array(self.pick(2) == 0), "B")
            case "N":
                return self.stored(np.array(self.pick(4), np.int64), "N")
            case "S":
                return self.node(
                    "SequenceConstruct", self.old("F"), *[self.old("F") for _ in range(self.pick(3))], kind="S"
                )
            case _:
                return self.node("Optional", self.old("F"), kind="O")

    def some(self, kind: str) -> str:
        """Something of the kind, old or new."""
        self.size -= 1
        if self.size <= 0 or len(self.parts) > 4 or not self.pick(3):
            return self.old(kind)
        ways = [*self.ways(kind), lambda: self.branch(kind), lambda: self.called(kind)]
        if kind in CARRIED:
            ways += [lambda: self.loop(kind), lambda: self.loop(kind)]
        return ways[self.pick(len(ways))]()

    def ways(self, kind: str) -> list[Callable[[], str]]:
        """How to make something of the kind by a few nodes."""
        some, node, pick = self.some, self.node, self.pick
        match kind:
            case "F":
                binary, unary = (
                    ("Add", "Mul", "Sub", "Max"),
                    ("Relu", "Neg", "Sigmoid", "Abs", "Softmax", "Identity", "Floor"),
                )
                return [
                    lambda: node(binary[pick(4)], some("F"), some("F")),
                    lambda: node(unary[pick(7)], some("F")),
                    lambda: node("Where", some("B"), some("F"), some("F")),
                    lambda: node(
                        "MatMul", some("F"), self.stored(self.random.standard_normal((3, 3)).astype(np.float32))
                    ),
                    lambda: node(
                        "Cast", node("Expand", some("I"), self.stored(np.array([2, 3])), kind="G"), to=TensorProto.FLOAT
                    ),
                    lambda: node("SequenceAt", some("S"), self.stored(np.array(0, np.int64))),
                    lambda: node("OptionalGetElement", some("O")),
                    self.scan,
                    self.recurrent,
                    self.pieces,
                ]
            case "I":
                return [
                    lambda: node(("Add", "Mul", "Sub")[pick(3)], some("I"), some("I"), kind="I"),
                    lambda: node("Shape", node("Unsqueeze", some("F"), self.stored(np.array([0])), kind="H"), kind="I"),
                    lambda: node("Add", some("I"), some("N"), kind="I"),
                ]
            case "B":
                return [
                    lambda: node(("Less", "Greater", "Equal")[pick(3)], some("N"), some("N"), kind="B"),
                    lambda: node("Not", some("B"), kind="B"),
                    lambda: node("Less", self.total(some("F")), self.stored(np.float32(0.5)), kind="B"),
                    lambda: node("OptionalHasElement", some("O"), kind="B"),
                ]
            case "N":
                return [
                    lambda: node("ReduceSum", some("I"), keepdims=0, kind="N"),
                    lambda: node("Add", some("N"), some("N"), kind="N"),
                    lambda: node("Cast", some("B"), to=TensorProto.INT64, kind="N"),
                    lambda: node("SequenceLength", some("S"), kind="N"),
                ]
            case "S":
                return [
                    lambda: node("SequenceInsert", some("S"), some("F"), kind="S"),
                    lambda: node("SequenceInsert", some("S"), some("F"), self.stored(np.array(0, np.int64)), kind="S"),
                    lambda: node("SequenceErase", node("SequenceInsert", some("S"), some("F"), kind="S"), kind="S"),
                ]
            case _:
                return [lambda: node("Optional", some("F"), kind="O")]

    def total(self, of: str) -> str:
        return self.node("ReduceSum", of, keepdims=0, kind="T")

    def pieces(self) -> str:
        """A matrix cut and joined again."""
        a, b = self.name("a"), self.name("b")
        self.here.nodes.append(helper.make_node("Split", [self.some("F")], [a, b], axis=0, num_outputs=2))
        return self.node("Concat", b, a, axis=0)

    # --- control -----------------------------------------------------------------------------------------------------

    def graph(self, inputs: Sequence[tuple[str, str]], kinds: Sequence[str], fixed: Sequence[str] = ()) -> GraphProto:
        """A body that takes `inputs`, names with their kinds, and gives `fixed`, names of inputs, and values of
        `kinds`."""
        self.parts.append(Part())
        for name, kind in inputs:
            self.keep(kind, name)
        made = [self.fresh(self.some(kind), kind) for kind in kinds]
        part = self.parts.pop()
        outputs = [declared(n, k) for n, k in zip(made, kinds, strict=True)]
        known = dict(inputs)
        kept = []
        for name in fixed:
            out = self.name("k")
            part.nodes.append(helper.make_node("Identity", [name], [out]))
            kept.append(declared(out, known[name]))
        return helper.make_graph(part.nodes, self.name("body"), [declared(n, k) for n, k in inputs], [*kept, *outputs])

    def fresh(self, name: str, kind: str) -> str:
        """The value under a name of this graph: an output may not be a name of the graph around."""
        return self.node("Identity", name, kind=kind)

    def branch(self, kind: str) -> str:
        condition = self.some("B")
        return self.node(
            "If", condition, kind=kind, then_branch=self.graph([], [kind]), else_branch=self.graph([], [kind])
        )

    def loop(self, kind: str) -> str:
        """A loop that carries a value of the kind and perhaps another, and perhaps gathers a row a turn; by a count, by
        a condition that a turn makes, or by both."""
        carried = [kind, *[one_of(self.pick, CARRIED) for _ in range(self.pick(2))]]
        first = [self.some(k) for k in carried]
        gathers = self.pick(3) == 2
        turn, going = self.name("i"), self.name("go")
        names = [self.name("v") for _ in carried]
        inputs = [(turn, "N"), (going, "B"), *zip(names, carried, strict=True)]
        if self.pick(2):
            body = self.graph(inputs, ["B", *carried, *(["F"] if gathers else [])])
        else:
            body = self.graph(inputs, [*carried, *(["F"] if gathers else [])], [going])
        most = self.stored(np.array((2, 0, 1, 5)[self.pick(4)], np.int64))
        outs = [self.name("l") for _ in carried]
        extra = [self.name("rows")] if gathers else []
        start = "" if self.pick(2) == 0 else self.some("B")
        self.here.nodes.append(helper.make_node("Loop", [most, start, *first], [*outs, *extra], body=body))
        for k, name in zip(carried, outs, strict=True):
            self.keep(k, name)
        return outs[0]

    def scan(self) -> str:
        """A scan over the rows of a matrix, which carries a row."""
        state, row, out = self.name("s"), self.name("r"), self.name("o")
        new, rows = self.name("n"), self.name("w")
        op = ("Add", "Mul", "Max")[self.pick(3)]
        nodes = [helper.make_node(op, [state, row], [new]), helper.make_node("Identity", [new], [out])]
        of = TensorProto.FLOAT
        ins, outs = (
            [helper.make_tensor_value_info(n, of, (3,)) for n in names] for names in ((state, row), (new, out))
        )
        body = helper.make_graph(nodes, self.name("body"), ins, outs)
        start = self.stored(np.zeros(3, np.float32))
        direction = [self.pick(2)]
        made = helper.make_node(
            "Scan",
            [start, self.some("F")],
            [self.name("end"), rows],
            body=body,
            num_scan_inputs=1,
            scan_input_directions=direction,
        )
        self.here.nodes.append(made)
        return self.keep("F", rows)

    def recurrent(self) -> str:
        """A recurrent operator over a sequence, short or long: its last hidden state as a matrix."""
        op, gates = (("RNN", 1), ("GRU", 3), ("LSTM", 4))[self.pick(3)]
        length = LENGTHS[self.pick(3)]
        rows = self.node("Reshape", self.some("F"), self.stored(np.array([1, 2, 3])), kind="H")
        x = self.node("Expand", rows, self.stored(np.array([length, 2, 3])), kind="H")
        w, r = ((self.random.standard_normal((1, gates * 3, 3)) / 2).astype(np.float32) for _ in range(2))
        last = self.name("y")
        names = [x, self.stored(w), self.stored(r)]
        self.here.nodes.append(helper.make_node(op, names, ["", last], hidden_size=3))
        return self.node("Squeeze", last, self.stored(np.array([0])))

    def called(self, kind: str) -> str:
        """A call of a function of the model, a new one or one that is there."""
        known = [f for f in self.functions if f.name.startswith(f"f{kind}")]
        if known and self.pick(2):
            found = one_of(self.pick, known)
        else:
            around, self.parts = self.parts, [Part()]
            given = self.name("p")
            self.keep(kind, given)
            result = self.fresh(self.some(kind), kind)
            part, self.parts = self.parts[0], around
            imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
            found = helper.make_function(DOMAIN, self.name(f"f{kind}"), [given], [result], part.nodes, imports)
            self.functions.append(found)
        return self.node(found.name, self.some(kind), kind=kind, domain=DOMAIN)

    # --- the whole ---------------------------------------------------------------------------------------------------

    def model(self) -> ModelProto:
        self.parts.append(Part())
        inputs = [("x", "F"), ("y", "F"), ("i", "I"), ("n", "N"), ("b", "B")]
        for name, kind in inputs:
            self.keep(kind, name)
        kinds = [one_of(self.pick, ("F", "F", "I", "N", "B")) for _ in range(1 + self.pick(3))]
        outputs = [(self.fresh(self.some(k), k), k) for k in kinds]
        nodes = self.here.nodes
        graph = helper.make_graph(
            nodes, "main", [declared(n, k) for n, k in inputs], [declared(n, k) for n, k in outputs]
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        made = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=self.functions)
        onnx.checker.check_model(made, full_check=False)
        return made


def a_model(pick: Pick, size: int = 8) -> ModelProto:
    """A model of about that many nodes that do something."""
    return Writer(pick, size).model()
