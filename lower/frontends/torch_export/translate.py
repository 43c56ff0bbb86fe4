"""A program of torch.export as a graph module (specs/lower.md, "torch.export").

Every node is a let, in the order of the program. What the program says of the type of each value is compared with what
the rules give, so that a rule that gives another type is found here.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from assay.lower.frontends.stablehlo.build import HloBuilder, Scope
from assay.lower.frontends.stretching import claimed
from assay.lower.frontends.torch_export.archive import Archive, Array, Json, broken, element
from assay.lower.frontends.torch_export.arguments import plain, read_argument, tensor_name
from assay.lower.frontends.torch_export.cells import TensorCell
from assay.lower.frontends.torch_export.guards import guarded, plain_name
from assay.lower.frontends.torch_export.node import AtenNode, aten_type
from assay.lower.frontends.torch_export.operators import rule_of
from assay.lower.frontends.torch_export.operators.views import ViewRule
from assay.lower.frontends.torch_export.schema import require_form
from assay.lower.frontends.torch_export.signature import ProgramInterface, interface, own_name
from assay.lower.frontends.torch_export.sizes import Sizes, multiple_of, parsed, symbol_of
from assay.semantics import graph, scalar
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Expr, GlobalVar, Var
from assay.semantics.graph.limits import LOWER, UPPER
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.ops.sizes import floor_div
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import ShapeType, TensorType, symbols
from assay.semantics.walk import post_order

MOST_NODES = 1 << 18
MOST_SIZE = 1 << 40
"""A size that may be greater than this is taken to have no limit."""
Names: TypeAlias = dict[str, Any]
"""What names stand for: cells, sizes, numbers, lists of them, None."""


def module_of_archive(archive: Archive, source: str, sizes: Mapping[str, int] | None = None) -> Module:
    """The module that a program means, with one function, `main`. Symbolic sizes may be given as numbers."""
    require_form(archive.program)
    module = run_task(ArchiveTranslator(archive, source, sizes or {}).module())
    check(module)
    return module


class ArchiveTranslator:
    """Translates one program."""

    def __init__(self, archive: Archive, source: str, sizes: Mapping[str, int]) -> None:
        self.archive = archive
        self.source = source
        self.builder = HloBuilder()
        self.sizes = Sizes(sizes)
        self.count = 0
        self.constants: dict[str, Array] = {}

    # --- the whole

    def module(self) -> Task[Module]:
        """The module."""
        program = self.archive.program["graph_module"]
        whole = interface(program)
        scope = self.builder.scope = Scope()
        names: Names = {}
        params = self.params(whole, program["graph"]["tensor_values"], names, scope)
        self.guards(whole, params, names, program["graph"]["tensor_values"])
        outputs = yield self.block(program["graph"], names)
        results = self.results(whole, outputs, names, [p.name for p in params])
        if not results:
            raise Unsupported("the program has no tensor as a result", label="torch_export.C2")
        values = list(results.values())
        body = values[0] if len(values) == 1 else graph.tuple_of(*values)
        self.require_set(body, scope)
        made = graph.function(params, self.builder.around(body, scope), outputs=tuple(results), **self.limits(params))
        return Module({"main": made}, self.constants)

    def require_set(self, body: Expr, scope: Scope) -> None:
        """Unsupported (`torch_export.C4`): a result, what is asserted, or a size hangs on what was in memory."""
        unset, values = self.builder.unset, self.builder.values
        if not unset:
            return
        decide = [value for _, value in scope.bindings if graph.acts(value) or isinstance(value, graph.MatchCast)]
        whole: Expr = graph.tuple_of(body, *decide)

        def parts(e: Expr) -> Sequence[Expr]:
            if e in unset:
                return unset[e].written if unset[e].is_set else ()
            return (*e.children, *([values[e]] if isinstance(e, Var) and e in values else []))

        for node in post_order(whole, parts):
            if node in unset and not unset[node].is_set:
                raise unset[node].why

    def params(self, whole: ProgramInterface, types: Mapping[str, Json], names: Names, scope: Scope) -> list[Var]:
        """The parameters of main; what the other inputs of the program stand for goes into `names`."""
        params: list[Var] = []
        written = whole.written
        bare = {
            name for g in whole.inputs if g.kind == "user" and not g.is_size
            for d in types[g.name]["sizes"] if (name := symbol_of(d))
        }  # fmt: skip
        for given in whole.inputs:
            self.builder.span = Span(self.source, given.name)
            if given.kind == "value":
                names[given.name] = given.value
            elif given.kind == "user":
                name = unused(own_name(given.name), [p.name for p in params])
                if given.is_size:
                    param = graph.var(name, TensorType((), INT64))
                    self.builder.params[param] = scope
                    found = self.builder.contents(param)
                    assert found is not None
                    names[given.name] = found.reshape(-1)[0]
                    self.name_size(given.size, names[given.name])
                else:
                    param, value = self.taken(name, given.name, types, bare)
                    names[given.name] = placed_in_memory(TensorCell(value), types[given.name])
                params.append(param)
            else:
                array = self.stored(given.kind, given.target)
                if (array.dtype, array.shape) != (self.typed(given.name, types).dtype.numpy, array.shape):
                    raise broken(f"the tensor {given.target} is of {array.dtype}, and is said to be another")
                cell = TensorCell(self.held(given.target, array, given.target in written))
                cell.sharing = self.archive.sharing.get(given.target, ())
                names[given.name] = placed_in_memory(cell, types[given.name])
        return params

    def guards(self, whole: ProgramInterface, params: Sequence[Var], names: Names, types: Mapping[str, Json]) -> None:
        """What the program was exported for, and the ranges of sizes: a run with other sizes traps."""
        inputs: dict[str, Expr] = {}
        users = [given for given in whole.inputs if given.kind == "user"]
        for given, param in zip(users, params, strict=True):
            inputs[plain_name(given.name)] = param if given.is_size else names[given.name].get()
        ranges = self.ranges([g.name for g in users if not g.is_size], types)
        for text in (*(self.archive.program.get("guards_code") or ()), *ranges):
            self.builder.span = Span(self.source, f"guard {text}")
            node = AtenNode(self.builder, "guard", "", {})
            node.require(guarded(node, text, inputs), f"the program was exported for {text}")

    def ranges(self, users: Sequence[str], types: Mapping[str, Json]) -> Iterator[str]:
        """Guards for the limits of sizes; that a size is 2 at least is assumed of all, and not asked for."""
        said = dict(self.archive.program.get("range_constraints", {}))
        for name in users:
            for axis, d in enumerate(types[name]["sizes"]):
                limits = said.pop(symbol_of(d), {})
                for word, limit in ((">=", limits.get("min_val")), ("<=", limits.get("max_val"))):
                    if isinstance(limit, int) and 2 < limit < MOST_SIZE:
                        yield f"L['{name}'].size()[{axis}] {word} {limit}"

    def taken(self, name: str, given: str, types: Mapping[str, Json], bare: Collection[str]) -> tuple[Var, Expr]:
        """A parameter, and the tensor that the program knows. A size of it that is a multiple of one which no input
        has, such as 2 * h, is a size of its own; h is what that is divided by 2, and where a rest is left a run traps.
        """
        said = types[given]["sizes"]
        multiples = {a: found for a, d in enumerate(said) if (found := multiple_of(d)) and found[1] not in bare}
        if not multiples:
            param = graph.var(name, self.typed(given, types))
            return param, param
        own = tuple(self.sizes.own(f"{name}_{a}") if a in multiples else self.sizes.size(d) for a, d in enumerate(said))
        param = graph.var(name, TensorType(own, element(types[given]["dtype"])))
        for axis, (factor, part) in multiples.items():
            if part not in self.sizes.known:
                whole = floor_div(own[axis], factor)
                if isinstance(whole, int) and whole * factor == own[axis]:
                    self.sizes.known[part] = whole
                    continue
                size = self.sizes.known[part] = Symbol(part)
                divided = graph.shape(whole)
                self.builder.named(graph.match_cast(divided, ShapeType((size,)), self.builder.span), "sizes")
        return param, claimed(self.builder, param, self.typed(given, types).shape, self.builder.span)

    def held(self, target: str, array: Array, written: bool) -> Expr:
        """A parameter or a buffer: a constant. One that the program writes has its name in the module's table, so that
        another can be given for it."""
        if not written:
            return graph.constant(array, span=self.builder.span)
        name = unused(own_name(target), self.constants, ("main",))
        self.constants[name] = array
        return GlobalVar(graph.constant(array).type, name)

    def stored(self, kind: str, target: str) -> Array:
        """The elements of a parameter, a buffer or a constant."""
        for table in (self.archive.weights, self.archive.constants):
            if target in table:
                return table[target]
        if target in self.archive.pickled:
            message = f"the {kind} {target} is stored as a pickle, which is not read: it can run any code"
            raise Unsupported(message, label="torch_export.C2")
        raise broken(f"there are no elements for the {kind} {target}")

    def typed(self, name: str, types: Mapping[str, Json]) -> TensorType:
        """The type that the program says a tensor has."""
        said = types[name]
        if said["layout"] != 7:
            raise Unsupported(f"the tensor {name} is sparse", label="torch_export.C2")
        return TensorType(tuple(self.sizes.size(d) for d in said["sizes"]), element(said["dtype"]))

    def limits(self, params: Sequence[Var]) -> dict[str, Any]:
        """What the program's range constraints say of the symbols of the parameters."""
        there = {s.name for p in params for s in symbols(p.type)}
        upper: dict[str, int] = {}
        lower: dict[str, int] = {}
        for name, said in self.archive.program.get("range_constraints", {}).items():
            least, most = said["min_val"], said["max_val"]
            if name in there and isinstance(least, int) and least > 0:
                lower[name] = least
            if name in there and isinstance(most, int) and most < MOST_SIZE:
                upper[name] = most
        return {k: v for k, v in ((UPPER, upper), (LOWER, lower)) if v}

    def results(
        self, whole: ProgramInterface, outputs: Sequence[Any], names: Names, params: Sequence[str]
    ) -> dict[str, Expr]:
        """The results by name: what the program returns, and what it has written to. None has the name of a parameter,
        which an input that is returned would have."""
        found: dict[str, Expr] = {}
        for name, value in zip(whole.outputs, outputs, strict=True):
            made = self.as_result(value)
            if made is not None:
                found[unused(own_name(name), found, params)] = made
        said = set(whole.outputs)
        for given in whole.inputs:
            cell = names.get(given.name)
            if isinstance(cell, TensorCell) and cell.written and given.written_as not in said:
                found[unused(own_name(given.written_as), found, params)] = cell.get()
        return found

    def as_result(self, value: Any) -> Expr | None:
        """A result as a tensor: a size is a scalar of int64; None, numbers and texts are none."""
        match value:
            case TensorCell():
                return value.get()
            case Expr():
                return value
            case scalar.Expr():
                return AtenNode(self.builder, "output", "", {}).amount(value)
        return None

    # --- graphs

    def block(self, of: Json, names: Names) -> Task[list[Any]]:
        """The outputs of a graph."""
        self.require_words(of)
        for node in of["nodes"]:
            self.count += 1
            if self.count > MOST_NODES:
                raise Unsupported(f"more than {MOST_NODES} nodes", label="torch_export.C2")
            target = str(node["target"])
            self.builder.span = Span(self.source, f"{node.get('name') or '?'}: {target.removeprefix('torch.ops.')}")
            try:
                yield self.node(target, node, of, names)
            except Invalid as wrong:
                if wrong.where is not None:
                    raise
                raise type(wrong)(wrong.message, where=self.builder.span, label=wrong.label) from None
        return [self.read_argument(o, names) for o in of["outputs"]]

    def require_words(self, of: Json) -> None:
        """Invalid (`torch_export.C1`): an expression of sizes holds what is none, for PyTorch reads it as code."""
        texts = [d["as_expr"]["expr_str"] for t in of["tensor_values"].values()
                 for d in (*t["sizes"], *t["strides"], t["storage_offset"]) if "as_expr" in d]  # fmt: skip
        for table in ("sym_int_values", "sym_bool_values", "sym_float_values"):
            texts += [v["as_expr"]["expr_str"] for v in of.get(table, {}).values() if "as_expr" in v]
        for text in dict.fromkeys(texts):
            parsed(text)

    def node(self, target: str, node: Json, of: Json, names: Names) -> Task[None]:
        """Translate one node: bind the names of its outputs."""
        rule, name, overload, in_place = rule_of(target)
        args = {i["name"] or f"arg{k}": i["arg"] for k, i in enumerate(node["inputs"])}
        given = {k: self.read_argument(a, names) for k, a in args.items()}
        declared = self.declared(node["outputs"], of)

        def run_graph(text: Any, values: Sequence[Any]) -> Task[list[Any]]:
            return self.inner(text, values)

        plain_ = {k: plain(v) for k, v in given.items()}
        is_size = all(self.is_size(o, of) for o in node["outputs"])
        made = AtenNode(self.builder, name, overload, plain_, declared, is_size, run_graph)
        if isinstance(rule, ViewRule) and (cell := rule.shared(given)) is not None:
            self.bind(node["outputs"], rule.cells(made, cell), of, names)
            return
        found = rule(made)
        if isinstance(found, Generator):
            found = yield found
        for argument, value in made.writes.items():
            write(made, given[argument], value)
        if in_place:
            write(made, given["self"], found)
            found = given["self"]
        self.bind(node["outputs"], [found] if not isinstance(found, (list, tuple)) else list(found), of, names)

    def inner(self, text: Any, values: Sequence[Any]) -> Task[list[Any]]:
        """The outputs of a graph that is an argument, for values of its inputs; tensors are no cells."""
        if len(text["inputs"]) != len(values):
            raise Invalid(f"a graph takes {len(text['inputs'])} values, not {len(values)}", label="torch_export.C5")
        own: Names = {}
        for said, value in zip(text["inputs"], values, strict=True):
            if "as_tensor" in said:
                own[tensor_name(said)] = value if isinstance(value, TensorCell) else TensorCell(value)
            elif "as_sym_int" in said and "as_name" in said["as_sym_int"]:
                own[said["as_sym_int"]["as_name"]] = value
        span = self.builder.span
        found = yield self.block(text, own)
        self.builder.span = span
        if any(isinstance(c, TensorCell) and c.written for c in own.values()):
            raise Unsupported("a graph inside of another that writes to its inputs is not handled",
                              label="torch_export.C7")  # fmt: skip
        return [plain(v) for v in found]

    # --- values

    def read_argument(self, arg: Json, names: Names) -> Any:
        """What an argument stands for."""
        return read_argument(arg, names)

    def declared(self, outputs: Sequence[Json], of: Json) -> list[TensorType | None]:
        """The types of results as the program says them; a size that is not known yet is a symbol."""
        found: list[TensorType | None] = []
        for out in outputs:
            names = [tensor_name(out)] if "as_tensor" in out else [t["name"] for t in out.get("as_tensors", ())]
            found += [self.typed(n, of["tensor_values"]) for n in names] or [None]
        return found

    def bind(self, outputs: Sequence[Json], values: Sequence[Any], of: Json, names: Names) -> None:
        """Give results their names."""
        if len(outputs) == 1 and "as_tensors" in outputs[0]:
            outputs = [{"as_tensor": t} for t in outputs[0]["as_tensors"]]
        if len(values) < len(outputs):
            raise Invalid(f"it gives {len(values)} values, {len(outputs)} are named", label="torch_export.C5")
        for out, value in zip(outputs, values, strict=False):
            if "as_tensor" in out:
                name = tensor_name(out)
                cell = value if isinstance(value, TensorCell) else TensorCell(value)
                if cell.whole is None or isinstance(value, Expr):
                    cell.value = self.fitted(cell.get(), self.typed(name, of["tensor_values"]))
                names[name] = placed_in_memory(cell, of["tensor_values"][name])
            elif "as_sym_int" in out and "as_name" in out["as_sym_int"]:
                name = out["as_sym_int"]["as_name"]
                names[name] = self.number(value)
                if isinstance(value, (int, scalar.Expr)):
                    self.name_size(of["sym_int_values"][name], value)
            elif "as_sym_bool" in out:
                names[out["as_sym_bool"]["as_name"]] = value
            elif "as_sym_float" in out:
                names[out["as_sym_float"]["as_name"]] = self.number(value)
            elif "as_none" not in out:
                raise Unsupported(f"a result that is {next(iter(out), 'nothing')} is not handled",
                                  label="torch_export.C7")  # fmt: skip

    def number(self, value: Any) -> Any:
        """What the program has as a number: of a tensor's dtype, where only a run knows it, but no tensor where dtypes
        meet."""
        if not isinstance(value, Expr):
            return value
        named = self.builder.named(value)
        self.builder.numbers.add(named)
        return named

    def is_size(self, out: Json, of: Json) -> bool:
        """Whether a result is no number, or one that is 0 or more by what the program says of its symbol."""
        said = of["sym_int_values"].get(out.get("as_sym_int", {}).get("as_name"))
        name = symbol_of(said) if said else ""
        limits = self.archive.program.get("range_constraints", {}).get(name)
        return limits is None or (isinstance(limits["min_val"], int) and limits["min_val"] >= 0)

    def name_size(self, said: Json, value: Dim) -> None:
        """Remember what a symbol of PyTorch stands for, where the size is just that symbol."""
        expr = said.get("as_expr")
        if expr is None:
            return
        name = str(expr["expr_str"]).removeprefix("Symbol('").partition("'")[0]
        if name.isidentifier() and name not in self.sizes.symbols:
            self.sizes.known.setdefault(name, value)

    def fitted(self, x: Expr, wanted: TensorType) -> Expr:
        """A value as the program says its type; what is not shown is compared by the run. Invalid (`torch_export.C8`):
        it is of another type."""
        own = aten_type(x)
        if own.dtype is not wanted.dtype or own.ndim != wanted.ndim:
            raise Invalid(f"it gives {own}; the program says {wanted}", label="torch_export.C8")
        shape: list[Dim] = []
        for d, e in zip(own.shape, wanted.shape, strict=True):
            if isinstance(e, Symbol) and self.is_new(e):
                self.sizes.known[e.name] = d  # a size that the run has just found
                e = d
            if isinstance(d, int) and isinstance(e, int) and d != e:
                raise Invalid(f"it gives {own}; the program says {wanted}", label="torch_export.C8")
            shape.append(e)
        if all(map(provably_equal, own.shape, shape)):
            return x
        return self.builder.named(graph.match_cast(x, TensorType(tuple(shape), own.dtype), self.builder.span))

    def is_new(self, of: Symbol) -> bool:
        """Whether a symbol stands for a size that is found by a run, and has not been found yet."""
        return of.name[:1] == "u" and self.sizes.symbols.get(of.name) is of and of.name not in self.sizes.known


def write(node: AtenNode, cell: Any, value: Any) -> None:
    """Write a value to a tensor, in its dtype and shape."""
    assert isinstance(cell, TensorCell) and isinstance(value, Expr)
    old = aten_type(cell.get())
    cell.put(node.stretched(node.cast(value, old.dtype), *old.shape))


def placed_in_memory(cell: TensorCell, said: Json) -> TensorCell:
    """The cell, which remembers how the program says that it lies in memory."""
    sizes, strides = ([d.get("as_int") for d in said[part]] for part in ("sizes", "strides"))
    cell.offset = said["storage_offset"].get("as_int")
    known = None not in (*sizes[1:], *strides, cell.offset)
    rows = [prod(sizes[k + 1 :]) for k in range(len(sizes))] if known else []
    long = [(s, r) for d, s, r in zip(sizes, strides, rows, strict=False) if d != 1]
    cell.in_order = known and cell.offset == 0 and all(s == r for s, r in long)
    return cell
