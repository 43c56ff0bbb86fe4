"""Whether each function of bytecode does what the graph function does that it comes from (specs/verify.md, "vm").

Both are read into one table of numbers: the value that they give has to have one number, and so has all that happens on
the way. A call is an event with the numbers of what is called and of its arguments, so each pair of functions is a
proof by itself, in which calls of others are taken for what those do: by induction over the calls of a run.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass

from assay.semantics import bytecode as vm, graph
from assay.semantics.bits import same_bits
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.leaves import result_names
from assay.semantics.module import Module
from assay.semantics.scalar import Dim
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import DataDef, FuncType, TensorType, TupleType, same_type, symbols
from assay.verify.kept import stored
from assay.verify.vm.alike import are_alike, is_same_data
from assay.verify.vm.difference import comes_before, first_unlike
from assay.verify.vm.flow import Flow
from assay.verify.vm.functions import Closures, Pair, Pairs
from assay.verify.vm.memory import State
from assay.verify.vm.rooms import Room
from assay.verify.vm.said import check_words
from assay.verify.vm.source import Env, Reader
from assay.verify.vm.target import Runner
from assay.verify.vm.terms import Trail, ValueTerms
from assay.verify.vm.wrong import NotThere, Unsound


@dataclass(frozen=True)
class Translated:
    """How much was compared."""

    functions: int
    events: int
    rooms: list[Room]
    """The tensors that have to lie inside their storages."""
    spare: list[str]
    """The storages that are larger than what is laid into them."""


def check_translation(source: Module, bytecode: vm.Bytecode, flows: Mapping[str, Flow]) -> Translated:
    """Compare each function of bytecode with its graph function; Unsound for the first difference, Undecided for what
    is not treated."""
    terms = ValueTerms(late=frozenset(bytecode.late))
    pairs = Pairs(source, bytecode, terms)
    _check_interface(source, bytecode)
    done: set[str] = set()
    rooms: list[Room] = []
    spare: list[str] = []
    for pair in pairs:
        runner = _prove(pair, pairs, flows[pair.function.name])
        rooms, spare = [*rooms, *runner.rooms], [*spare, *runner.spare]
        done.add(pair.function.name)
    if missing := [n for n in bytecode.functions if n not in done]:
        raise Unsound(f"{missing[0]} is no function of the source, and nothing makes it")
    return Translated(len(pairs.known), sum(k[0] == "after" for k in terms.keys), rooms, spare)


def _check_interface(source: Module, bytecode: vm.Bytecode) -> None:
    """Whether what a caller sees of the program is what it sees of the source."""
    main = source.main
    result = main.result_type
    outputs = result_names(main, len(result.fields) if isinstance(result, TupleType) else 1)
    devices = {p.name: p.device for p in main.params if p.device != ANYWHERE}
    for what, found, wanted in (
        ("inputs", list(bytecode.inputs), [p.name for p in main.params]),
        ("outputs", list(bytecode.outputs), list(outputs)),
        ("devices of inputs", dict(bytecode.devices), devices),
    ):
        if found != wanted:
            raise Unsound(f"the {what} are {_listed(found)}, those of the source {_listed(wanted)}")
    for name, of in bytecode.late.items():
        held = source.constants.get(name)
        if held is None or not same_type(TensorType(held.shape, dtype(held.dtype)), of):
            raise Unsound(f"{name}, a {of} that is bound late, is no constant of the source of that type")


def _listed(of: list[str] | dict[str, VirtualDevice]) -> str:
    return ", ".join(map(str, of.items() if isinstance(of, dict) else of)) or "none"


def check_parts(source: Module, after: Module) -> None:
    """Whether the tensor functions, data types and constants are those of the source."""
    for name, d in after.definitions.items():
        old = source.definitions.get(name)
        if name != "main" and d is not old and not (isinstance(d, DataDef) and is_same_data(d, old)):
            if not isinstance(d, PrimFunc) or not isinstance(old, PrimFunc) or stored(d) != stored(old):
                raise Unsound(f"{name} is not what it is in the source")
    for name, held in after.constants.items():
        if name not in source.constants or not same_bits(held, source.constants[name]):
            raise Unsound(f"the constant {name} is not what it is in the source")


def _prove(pair: Pair, pairs: Pairs, flow: Flow) -> Runner:
    """Compare one function with its graph function."""
    terms, node, function = pairs.terms, pair.node, pair.function
    given = [terms.unknown(terms.number("parameter", pair.number, i), p.type) for i, p in enumerate(node.params)]
    reader = Reader(node, pairs.module, terms)
    is_called = function.name != "main" or _calls_main(pairs.bytecode)
    env, way = _begin(pair, terms, given, reader, is_called)
    start = Trail(terms.number("begin")) if is_called else way.copy()
    read = reader.read(env, way)
    holds = dict(enumerate([*pair.captured, *given]))
    if len(holds) != len(function.parameters):
        raise Unsound(f"{function.name} has {len(function.parameters)} parameters, the source's function {len(holds)}")
    _check_signature(pair)
    sizes = dict(zip(function.sizes[: function.inherited], pair.inherited, strict=True))
    runner = Runner(
        flow, pairs.module, terms, Closures(pairs, read.sites, function.name), pairs.bytecode.host, read.said
    )
    try:
        found = runner.run(State(dict(holds), sizes, start))
    except NotThere as odd:
        raise Unsound(comes_before(terms, reader, read, runner, odd)) from None
    wrong = first_unlike(terms, reader, read, runner, found)
    if wrong is not None:
        raise Unsound(wrong)
    if runner.odd:
        raise Unsound(runner.odd[0])
    read.said.check_places(function, runner.ran)
    check_words(function, node, len(pair.captured), (*pair.sizes, *pair.missing))
    return runner


def _calls_main(bytecode: vm.Bytecode) -> bool:
    """Whether something in the program calls its entry."""
    calls = (vm.InvokeFunction, vm.ReturnCall, vm.MakeClosure)
    return any(isinstance(i, calls) and i.function == "main" for f in bytecode.functions.values() for i in f.body)


def _check_signature(pair: Pair) -> None:
    """Whether a function says of its parameters and its result what its graph function says."""
    function, of = pair.function, pair.node.func_type
    own = function.parameters[len(pair.captured) :]
    said = FuncType(own, function.result, type_params=function.type_params, pure=of.pure)
    if len(said.type_params) != len(of.type_params) or not are_alike(said, of):
        raise Unsound(f"{function.name} is said to be a {said}, and is a {of}")


def _begin(pair: Pair, terms: ValueTerms, given: list[int], reader: Reader, is_called: bool) -> tuple[Env, Trail]:
    """What is there where a run of the graph function begins: its parameters meet their types."""
    node, way = pair.node, Trail(terms.number("begin"))
    env = Env(ChainMap[graph.Expr, int](dict(pair.free)), dict(pair.sizes), pair.missing)
    pairs: list[tuple[Dim, Dim]] = []
    reader.names.update((n, v.name) for v, n in pair.free.items() if isinstance(v, graph.Var))
    for p, n in zip(node.params, given, strict=True):
        env.holds[p] = n
        reader.names.setdefault(n, p.name)
        terms.devices.setdefault(n, p.device)
    for p, n in zip(node.params, given, strict=True):
        reader.said.look(terms, p.type, n, ("func.T2", f"parameter {p.name!r}"), dict(env.sizes))
        if unsure := [s.name for s in symbols(p.type) if s in env.unsure]:
            raise Unsound(f"the size {unsure[0]} is not handed over to {pair.function.name}")
        pairs += terms.bind(p.type, n, env.sizes)
    paired = terms.paired(pairs, env.sizes, pair.function.name)
    terms.require(way, paired, "func.T2")
    reader.note(terms.number("begin"), way, node)
    if not is_called:  # who runs it has compared the inputs with these types
        way.events = terms.number("begin")
    return env, way
