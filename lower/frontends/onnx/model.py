"""ONNX models become modules of the graph IR (specs/lower.md, "Import").

    module = import_onnx("model.onnx", evaluate=interp.graph.evaluate, dims={"batch": 1})

The function `main` has the model's inputs as parameters and its outputs as result; sharing is kept. Each version of an
operator is taken with the meaning that it had. Types come from our own rules; what the model declares is checked
against them. What only computes shapes is computed here, by the evaluator that the caller hands in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from assay.lower.frontends.onnx.containers import inside_option, onnx_name
from assay.lower.frontends.onnx.control import CONTROL, captured
from assay.lower.frontends.onnx.functions import body_of, bound_attributes, explain_missing, nodes_made, with_references
from assay.lower.frontends.onnx.interface import (
    NamedSizes,
    check_declared,
    declared_shapes,
    declared_type,
    input_type,
    is_container,
    is_map_rows,
)
from assay.lower.frontends.onnx.node import Array, Builder, Evaluate, Node, Refused, Result
from assay.lower.frontends.onnx.operators import DOMAINS, is_foreign
from assay.lower.frontends.onnx.operators.strings import strings_rule
from assay.lower.frontends.onnx.reading import Source, domain_of, load_model, opsets_of, read_model
from assay.lower.frontends.onnx.registered import node_values, registered
from assay.lower.frontends.onnx.schema import attributes_of, check_operands, printable, schema_of, text
from assay.lower.frontends.onnx.sparse import dense
from assay.lower.frontends.onnx.string_table import Strings, text_names, texts_of, without_strings
from assay.lower.frontends.onnx.tensors import array_of, onnx_dtype
from assay.semantics import budget, graph
from assay.semantics.dtypes import DType
from assay.semantics.errors import BudgetSpent, Invalid, Span, Unsupported, placed
from assay.semantics.graph import Expr, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import TensorType, TupleType

MOST_INLINED = 1_000_000
"""Nodes that come from function bodies. Functions that call each other can make more of a few bytes than fits."""
NODE = 1_000
"""Bytes that a node takes at least, once it is translated."""


__all__ = ["import_onnx", "load_model"]
OPEN_TEXTS = "open_texts"
"""The attribute of a main function that says what of the strings in it the standard leaves open."""
STRINGS, COLUMNS = "assay.strings", "assay.columns"
"""What the metadata of a model calls the table of the strings for which numbers go in and out, and the outputs whose
columns have names: JSON lists of strings."""


def import_onnx(
    model: str | Path | bytes | ModelProto,
    *,
    evaluate: Evaluate,
    dims: Mapping[str, int] | None = None,
    source: str = "",
    tensors: dict[str, Expr] | None = None,
    values: Mapping[str, Array] | None = None,
    only_sizes: bool = False,
    strings: Strings | None = None,
    draws: int | None = None,
    used: set[str] | None = None,
) -> Module:
    """The model as a module with one function, `main`, whose attribute `outputs` has the names of the outputs.

    Inputs that have an initializer, their default, are constants, the others are parameters in the model's order.
    `evaluate` gives the value of an expression without free variables. `dims` binds symbolic dims by name; the rest
    stay symbolic. `values` says what inputs will hold, by name: where the type of the result depends on one in a way
    that no symbol can stand for (an axis, say), the import goes on with that value, and a run with another traps
    (assert_op.T1); `used`, where given, is filled with the names of such inputs. With `only_sizes` that is done for
    vectors of sizes alone. `source` is what messages call the model
    instead of its file name. `tensors`, where given, is filled with the model's tensors by name. `strings`, where
    given, is filled with numbers for the model's strings: tensors of strings are tensors of int64 then; without it a
    model with strings is Unsupported. `draws` seeds the generator of random numbers, of which the module has one
    sample; without it a random operator is Unsupported. Invalid, with one line and a label onnx.C1 to onnx.C14 or that
    of an operator's constraint, where the model is not well-formed or not supported.
    """
    read_in = read_model(model, source)
    with placed(read_in.name):
        values = values or {}
        if strings is not None:
            names = text_names(read_in.model.graph.input)
            values = {**values, **{n: strings.numbers(values[n]) for n in names if n in values}}
        builder = Builder(evaluate, read_in.folder, values, only_sizes)
        if strings is not None:
            builder.strings = strings
        builder.draws = None if draws is None else np.random.RandomState(draws)
        main = _Importer(read_in, builder, dims or {}, strings is not None).function(tensors)
        if used is not None:
            used.update(builder.runs.used)
        return Module({"main": main, **builder.containers.definitions})


@dataclass(eq=False)
class _Frame:
    """A graph or a function body under translation: its names are its own."""

    nodes: Sequence[NodeProto]
    opsets: Mapping[str, int]
    place: str = ""
    """Where the function is called; "" for the graph."""
    bound: Mapping[str, AttributeProto] | None = None
    outer: _Frame | None = None
    """What is around a subgraph: its names may be used in it."""
    whole: Span | None = None
    """The node whose body by the standard this is, or is inside of: what is made here is a part of that."""
    names: dict[str, Result | None] = field(default_factory=dict)
    """What each name stands for; None for an operand that a call leaves out."""
    declared: Mapping[str, TypeProto] = field(default_factory=dict)

    def define(self, name: str, value: Result | None) -> None:
        if name in self.names:
            raise Invalid(f"the name {name!r} is defined twice", label="onnx.C4")
        self.names[name] = value

    def holder(self, name: str) -> _Frame | None:
        """The innermost frame that defines a name: this one, or one around it."""
        at: _Frame | None = self
        while at is not None and name not in at.names:
            at = at.outer
        return at

    def look(self, name: str) -> Expr | None:
        """The value of that name; None for one that is left out."""
        if name == "":
            return None
        if (at := self.holder(name)) is None:
            raise Invalid(explain_missing(name, self.nodes), label="onnx.C4")
        found = at.names[name]
        if isinstance(found, Refused):
            raise Unsupported(f"{name!r} is used: {found.reason}", label="onnx.C14")
        return found


class _Importer:
    def __init__(self, source: Source, builder: Builder, dims: Mapping[str, int], texts: bool) -> None:
        self.source = source
        self.takes_texts = texts
        """Whether strings may go in and out: the caller has the table of their numbers."""
        self.builder = builder
        self.graph: GraphProto = source.model.graph
        self.symbols = NamedSizes(self.graph, dims)
        self.builder.symbols = self.symbols.known
        self.inlined = 0
        self.active: list[tuple[str, str, str]] = []
        """The functions that are being translated."""

    def span(self, place: str) -> Span:
        return Span(self.source.name, printable(place))

    def function(self, tensors: dict[str, Expr] | None = None) -> graph.Function:
        """The whole model as one function."""
        self._require_few()
        main = _Frame(self.graph.node, self.source.opsets, declared=self._declared())
        self._initializers(main, self.graph)
        params = self._inputs(main)
        self.symbols.check()
        run_task(self._translate(main))
        names = [text(o.name, "an output's name") for o in self.graph.output]
        if not names:
            raise Invalid("the model has no outputs", label="onnx.C4")
        if len(set(names)) != len(names):
            raise Invalid(f"an output is named twice: {', '.join(names)}", label="onnx.C4")
        results: list[Expr] = []
        for output, name in zip(self.graph.output, names, strict=True):
            with placed(self.span(name)):
                found = main.look(name)
                if found is None:
                    raise Invalid(f"output {name!r} has no value", label="onnx.C4")
                if output.type.tensor_type.elem_type == TensorProto.STRING and not self.takes_texts:
                    onnx_dtype(TensorProto.STRING, f"output {name!r}")
                if is_container(output.type) and not is_map_rows(output.type) and inside_option(found.type) is not None:
                    found = self.builder.containers.fitted(found, declared_type(f"output {name!r}", output.type))
                self._check(name, output.type, found)
            results.append(found)
        if tensors is not None:
            texts = self.builder.texts
            tensors.update(
                (n, e)
                for n, e in main.names.items()
                if isinstance(e, Expr) and isinstance(e.type, TensorType) and (self.takes_texts or e not in texts)
            )
        body = results[0] if len(results) == 1 else graph.tuple_of(*results, span=self.span("outputs"))
        body = self.builder.runs.asserted(self.builder.runs.around(body, 0))
        words: Any = self._words()
        return graph.function(params, body, outputs=tuple(names), **words)

    def _words(self) -> dict[str, tuple[str, ...]]:
        """What stands beside a model whose border has numbers for words (see `assay.verify.border.onnx_words`), and
        what the standard leaves open of strings."""
        found: dict[str, tuple[str, ...]] = {}
        for prop in self.source.model.metadata_props:
            if prop.key in (STRINGS, COLUMNS):
                words = tuple(json.loads(prop.value))
                found[prop.key.rpartition(".")[2]] = (*found.get(prop.key.rpartition(".")[2], ()), *words)
        return {**found, OPEN_TEXTS: tuple(self.builder.open_texts)} if self.builder.open_texts else found

    # --- what the graph starts from

    def _declared(self) -> dict[str, TypeProto]:
        """The types of inner values; those of outputs are checked with the outputs."""
        return {text(v.name, "a value's name"): v.type for v in self.graph.value_info}

    def _initializers(self, main: _Frame, of: GraphProto) -> None:
        for sparse in of.sparse_initializer:
            name = text(sparse.values.name, "an initializer's name")
            with placed(where := self.span(name)):
                found = dense(sparse, f"sparse initializer {name!r}", self.source.folder)
                self._define(main, name, self.builder.constant(found, span=where))
        for stored in of.initializer:
            name = text(stored.name, "an initializer's name")
            with placed(where := self.span(name)):
                if not name:
                    raise Invalid("an initializer has no name", label="onnx.C4")
                is_text = stored.data_type == TensorProto.STRING
                if is_text:
                    array = self.builder.strings.numbers(texts_of(stored, f"initializer {name!r}"))
                else:
                    array = array_of(stored, f"initializer {name!r}", self.source.folder)
                made = self.builder.constant(array, span=where)
                if is_text:
                    self.builder.texts.add(made)
                self._define(main, name, made)

    def _inputs(self, main: _Frame) -> list[Var]:
        params: list[Var] = []
        seen: set[str] = set()
        for given in self.graph.input:
            name = text(given.name, "an input's name")
            with placed(where := self.span(name)):
                if not name or name in seen:
                    raise Invalid(f"input {name!r} is named twice" if name else "an input has no name", label="onnx.C4")
                seen.add(name)
                if name in main.names:
                    stored = main.look(name)
                    assert stored is not None
                    self._check(name, given.type, stored)
                    continue
                if is_container(given.type):
                    param = Var(
                        self.builder.containers.need(declared_type(f"input {name!r}", given.type)), name, span=where
                    )
                    self.builder.containers.note(param, declared_shapes(given.type))
                else:
                    declared = without_strings(given.type) if self.takes_texts else given.type
                    param = Var(input_type(name, declared, self.symbols), name, span=where)
                    if declared is not given.type:
                        self.builder.texts.add(param)
                    self.builder.runs.parameter(param, name, declared is not given.type)
                params.append(param)
                main.define(name, param)
        return params

    def _require_few(self) -> None:
        """BudgetSpent (budget.C1): functions that call one another make more nodes than there can be."""
        count = nodes_made(self.graph.node, self.source.functions)
        what = f"translating the {count} nodes that the model's functions make"
        budget.claim(count * NODE, what, self.source.name)
        if count > MOST_INLINED:
            raise BudgetSpent(
                f"{what} is too much: at most {MOST_INLINED} are taken", where=self.source.name, label="budget.C1"
            )

    # --- nodes

    def _translate(self, frame: _Frame) -> Task[None]:
        """Every node in order; subgraphs and calls of functions are tasks with frames of their own."""
        self.inlined += len(frame.nodes) if frame.place else 0
        if self.inlined > MOST_INLINED:
            raise Unsupported(f"functions make more than {MOST_INLINED} nodes", label="onnx.C14")
        for node in frame.nodes:
            where = self.span(frame.place + _place(node))
            with placed(where):
                results = yield self._node(node, frame, where)
                for output, value in zip(node.output, results, strict=False):
                    if output:
                        self._define(frame, output, value)

    def _node(self, node: NodeProto, frame: _Frame, where: Span) -> Task[Sequence[Result | None]]:
        """What the outputs of one node stand for."""
        name, domain = text(node.op_type, "an operator's name"), domain_of(node.domain)
        key = (domain, name, text(node.overload, "an overload"))
        operands = tuple(frame.look(text(i, "an operand's name")) for i in node.input)
        outputs = tuple(text(o, "an output's name") for o in node.output)
        local = self.source.functions.get(key)
        if local is not None:
            attributes = bound_attributes(node, frame.bound, local.attribute, local.attribute_proto)
            return (yield from self._function(local, operands, node, frame, key, attributes, frame.whole))
        if domain not in frame.opsets:
            raise Invalid(
                f"operator {printable(name)} is of domain {printable(domain) or 'ai.onnx'},"
                " of which the model imports no operator set",
                label="onnx.C2",
            )
        own = registered(domain, name) if is_foreign(domain, name) else None
        if own is not None:
            return _fields(own, [o for o in operands if o is not None], node, where)
        schema = schema_of(name, domain, frame.opsets[domain])
        rule = DOMAINS.get(domain, {}).get(name)
        is_text = [o in self.builder.texts for o in operands]
        if any(is_text):
            rule = strings_rule(domain, name, rule)
        control = CONTROL.get(name) if domain == "" else None
        if rule is None and control is None and not schema.has_body:
            title = f"operator {name} of domain {domain or 'ai.onnx'}, operator set {frame.opsets[domain]}"
            raise Unsupported(f"{title}, is not supported yet", label="onnx.C14")
        attrs = attributes_of(node, schema, frame.bound)
        given_types = [
            None if o is None else "tensor(string)" if t else _operand(o)
            for o, t in zip(operands, is_text, strict=True)
        ]
        check_operands(schema, given_types, len(outputs))
        made = Node(self.builder, schema, operands, outputs, attrs, frame.whole or where, frame.look)
        if control is not None:
            if name != "If":
                self._name_captured(attrs["body"], frame)
            subgraph = partial(self._subgraph, node, frame)
            return (yield from control(replace(made, subgraph=subgraph)))
        if rule is None:
            attributes = bound_attributes(node, frame.bound, schema.kinds, schema.default_protos)
            body = body_of(schema, with_references(node, attributes.values()), operands)
            return (yield from self._function(body, operands, node, frame, key, attributes, frame.whole or where))
        try:
            given = rule(made)
        except Invalid as wrong:  # an operator of ours may say it, by a name that the model has nowhere
            raise wrong.told_of(str(schema)) from None
        results = [given] if isinstance(given, (Expr, Refused)) else list(given)
        return results + [Refused(f"{schema} has no such output")] * (len(outputs) - len(results))

    def _define(self, frame: _Frame, name: str, value: Result | None) -> None:
        frame.define(name, value)
        if name in frame.declared and isinstance(value, Expr):
            self._check(name, frame.declared[name], value)

    def _check(self, name: str, declared: TypeProto, value: Expr) -> None:
        """Invalid (onnx.C11) where a value is not of the type that the model declares."""
        if is_map_rows(declared):
            self._check_map(name, declared, value)
            return
        known = without_strings(declared)
        is_tensor = declared.HasField("tensor_type") and declared.tensor_type.elem_type
        if is_tensor and (known is not declared) != (value in self.builder.texts):
            wanted, found = ("strings", "numbers") if known is not declared else ("numbers", "strings")
            raise Invalid(f"{name!r} is declared as {wanted}, but it holds {found}", label="onnx.C11")
        check_declared(name, known, value.type, self.symbols)

    def _check_map(self, name: str, declared: TypeProto, value: Expr) -> None:
        """Invalid (onnx.C11) where a value is not the map for each row that the model declares."""
        keys = self.builder.columns.get(value)
        of = declared.sequence_type.elem_type.map_type.key_type
        if keys is None or (of == TensorProto.STRING) != isinstance(next(iter(keys), ""), str):
            raise Invalid(f"{name!r} is declared as maps, but it is {value.type}", label="onnx.C11")

    # --- subgraphs

    def _name_captured(self, body: GraphProto, frame: _Frame) -> None:
        """What a loop's body uses of what is around it is evaluated once, before the loop."""
        for name in captured(body):
            at = frame.holder(name)
            if at is not None and isinstance(value := at.names[name], Expr):
                at.names[name] = self.builder.named(value)

    def _subgraph(self, node: NodeProto, frame: _Frame, of: GraphProto, inputs: Sequence[Expr]) -> Task[Sequence[Expr]]:
        """The results of a subgraph of a node, given what its inputs stand for."""
        opened = _Frame(of.node, frame.opsets, f"{frame.place}{_place(node)}/", frame.bound, frame, frame.whole)
        if len(inputs) != len(of.input):
            raise Invalid(
                f"the subgraph of {node.op_type} takes {len(of.input)} inputs; {len(inputs)} are given",
                label="onnx.C7",
            )
        for given, value in zip(of.input, inputs, strict=True):
            opened.define(text(given.name, "an input's name"), value)
        self._initializers(opened, of)
        yield self._translate(opened)
        results: list[Expr] = []
        for output in of.output:
            found = opened.look(text(output.name, "an output's name"))
            if found is None:
                raise Invalid("an output of a subgraph has no name", label="onnx.C4")
            results.append(found)
        return results

    # --- functions

    def _function(
        self,
        function: FunctionProto,
        operands: Sequence[Expr | None],
        node: NodeProto,
        frame: _Frame,
        key: tuple[str, str, str],
        attributes: Mapping[str, AttributeProto],
        whole: Span | None,
    ) -> Task[Sequence[Result | None]]:
        """The results of a call of a function."""
        if len(operands) > len(function.input) or len(node.output) > len(function.output):
            raise Invalid(
                f"function {key[1]!r} takes {len(function.input)} operands and gives {len(function.output)} outputs;"
                f" {len(operands)} and {len(node.output)} are named",
                label="onnx.C7",
            )
        if key in self.active:
            raise Invalid(f"function {key} calls itself", label="onnx.C4")
        # bodies of the preview domains do not say of which set of ai.onnx they are: the model's
        opsets = {**({} if key in self.source.functions else frame.opsets), **opsets_of(function.opset_import)}
        opened = _Frame(function.node, opsets, f"{frame.place}{_place(node)}/", attributes, whole=whole)
        for i, name in enumerate(function.input):
            opened.define(text(name, "an input's name"), operands[i] if i < len(operands) else None)
        self.active.append(key)
        try:
            yield self._translate(opened)
        finally:
            self.active.pop()
        inner = [text(o, "an output's name") for o in function.output]
        return [
            None if not output else opened.names[n] if n in opened.names else opened.look(n)
            for output, n in zip(node.output, inner, strict=False)
        ]


def _operand(of: Expr) -> DType | str:
    """What the schema's check is told of an operand's type."""
    return of.type.dtype if isinstance(of.type, TensorType) else onnx_name(of.type)


def _fields(op: Operator, operands: Sequence[Expr], node: NodeProto, where: Span) -> list[Result | None]:
    """The results of an operator that another package registers."""
    made = graph.call(op, *operands, span=where, **node_values(node))
    if not isinstance(made.type, TupleType):
        return [made]
    return [graph.get(made, i) for i in range(len(made.type.fields))]


def _place(node: NodeProto) -> str:
    """What names a node for people: its name, else that of its first output."""
    return next((n for n in (node.name, *node.output) if isinstance(n, str) and n), "a node without a name")
