"""Modules as text: `parse` and `show` (rows R4, R5, R30, C10; specs/semantics.md, "Text").

    module = parse(text, "model.py")
    text = show(module)

The text is TVMScript, as TVM 0.27 prints it and as it stands in bug reports: what is around the module (imports, calls
that build or print it) is passed over. Printing then parsing gives an equal module, up to the names of variables and
symbols.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path as File
from typing import Any

import numpy as np

from assay.semantics.devices import TYPES, VirtualDevice
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.module import ConstantInfo, Definition, Module, with_contents
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.text import constants_text
from assay.semantics.text.external_data import TensorReader
from assay.semantics.text.graph.parser import FunctionParser
from assay.semantics.text.graph.scope import ALIASES, ModuleNames, Path
from assay.semantics.text.graph.signatures import Signature, names_of
from assay.semantics.text.module_printer import (
    show as show,
    show_function as show_function,
    write_module as write_module,
)
from assay.semantics.text.source import Source
from assay.semantics.text.tensor.parser import parse_prim_func
from assay.semantics.text.types_text import exact
from assay.semantics.types import DataDef, TensorType, Type, TypeVar
from assay.semantics.walk import Worklist


def parse(text: str, source: str = "<string>", name: str | None = None, *, folder: File | None = None) -> Module:
    """The module that a text holds; Invalid, with the place and its line, where it is wrong.

    `name` says which class is meant where the text has several modules. `folder` is where the file of its large
    constants is, if it has one; that of `source`, if that is a file.
    """
    if folder is None and File(source).is_file():
        folder = File(source).parent
    return _ModuleParser(Source.of(text, source), name, folder).module()


def read_module(path: File, name: str | None = None) -> Module:
    """The module in a file, with the constants beside it. Invalid where it is wrong."""
    source = Source.read(path)
    return parse(source.text, source.file, name, folder=path.parent)


class _ModuleParser:
    def __init__(self, source: Source, name: str | None, folder: File | None) -> None:
        self.source = source
        self.folder = folder
        self.wanted = name
        self.names = ModuleNames(source)
        self.symbols: dict[str, Any] = {}
        """Symbols and type parameters of the whole text."""
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.offsets: dict[str, int] = {}
        self.infos: dict[str, ConstantInfo] = {}
        self.definitions: dict[str, Definition] = {}
        self.graphs: dict[str, tuple[ast.FunctionDef, Signature]] = {}

    def module(self) -> Module:
        tree = self.source.parse()
        for node in _statements(tree.body):
            self._outside(node)
        body = self._body(tree)
        data = [n for n in body if isinstance(n, ast.ClassDef)]
        functions = [n for n in body if isinstance(n, ast.FunctionDef)]
        kinds = {id(f): self._kind(f) for f in functions}
        for stmt in body:
            match stmt:
                case ast.ClassDef() | ast.FunctionDef() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    pass
                case ast.Expr(value=ast.Call() as call):
                    self._declaration(call)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    self._constant(name, call)
                case ast.Import() | ast.ImportFrom():
                    pass
                case _:
                    raise self.source.error(stmt, "a module holds functions, data types and constants", "text.C13")
        for c in data:
            self._data_head(c)
        for c in data:
            self._data(c)
        self._functions(functions, kinds)
        # in the order of the text
        order = [self.names.exact.get(n.name, n.name) for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
        definitions: dict[str, Definition] = {
            n: self._filled(self.definitions[n]) for n in order if n in self.definitions
        }
        return Module(definitions, self.constants, self.offsets, self.infos)

    def _filled(self, d: Definition) -> Definition:
        """A tensor function whose constants have their contents, where the module's table has them."""
        if not isinstance(d, PrimFunc):
            return d
        return with_contents(d, lambda s: self.constants.get(s.index) if s.data is None else s.data)

    # --- around the module ---------------------------------------------------------------------------------------

    def _outside(self, node: ast.stmt) -> None:
        """Imports, symbols, type parameters and the section metadata; the rest is passed over."""
        match node:
            case ast.Import():
                for a in node.names:
                    root = a.name.split(".")[0]
                    if root in ("tvm", "numpy"):
                        tail = a.name.split(".")[-1]
                        self.names.aliases[a.asname or root] = ALIASES.get(tail if a.asname else root, "tvm")
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "tvm":
                for a in node.names:
                    if a.name in ALIASES:
                        self.names.aliases[a.asname or a.name] = ALIASES[a.name]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                self._assigned(name, call)
            case _:
                pass

    def _assigned(self, name: str, call: ast.Call) -> None:
        path = self.names.path(call.func)
        func = call.func.id if isinstance(call.func, ast.Name) else ""
        first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else name
        if func == "TypeVar" or path in (
            Path(("T", "int64")),
            Path(("T", "Var")),
            Path(("T", "var")),
            Path(("T", "SizeVar")),
        ):
            own = str(first) if func == "TypeVar" or (path and path.parts[1] in ("Var", "SizeVar")) else name
            self.symbols[name] = Symbol(own, INT64)
        elif path == Path(("A", "typevar")):
            self.symbols[name] = TypeVar(str(first))
        elif name == "metadata":
            text = call.args[0] if call.args else None
            if (
                path is None
                or path.parts[-1] != "load_json"
                or not isinstance(text, ast.Constant)
                or not isinstance(text.value, str)
            ):
                raise self.source.error(call, 'metadata = tvm.ir.load_json("""...""") expected', "text.C15")
            with self.source.at(call):
                self.names.metadata = constants_text.from_section(text.value)

    def _body(self, tree: ast.Module) -> list[ast.stmt]:
        """The statements of the module: those of the class, or the functions that stand alone."""
        classes = [n for n in _inner(tree.body) if isinstance(n, ast.ClassDef) and self._has(n, "I", "ir_module")]
        if self.wanted is not None:
            classes = [c for c in classes if c.name == self.wanted]
            if not classes:
                raise Invalid(f"there is no module {self.wanted}", where=self.source.file, label="text.C16")
        if len(classes) > 1:
            names = ", ".join(c.name for c in classes)
            raise self.source.error(
                classes[1], f"the text has several modules, {names}: say which one is meant", "text.C16"
            )
        if classes:
            self.names.module_names.add(classes[0].name)
            return classes[0].body
        alone: list[ast.stmt] = [
            n
            for n in tree.body
            if isinstance(n, ast.FunctionDef) and (self._has(n, "R", "function") or self._has(n, "T", "prim_func"))
        ]
        if not alone:
            message = (
                "no module: a class with @I.ir_module, or a function with @R.function or @T.prim_func, is expected"
            )
            raise Invalid(message, where=self.source.file, label="text.C16")
        return alone

    def _has(self, node: ast.ClassDef | ast.FunctionDef, root: str, member: str) -> bool:
        for d in node.decorator_list:
            func = d.func if isinstance(d, ast.Call) else d
            path = self.names.path(func)
            if path is not None and path.parts[-1] == member and path.parts[0] in (root, "tvm"):
                return True
            if isinstance(func, ast.Name) and func.id == member:
                return True
        return False

    # --- what the module says of itself --------------------------------------------------------------------------

    def _declaration(self, call: ast.Call) -> None:
        path = self.names.path(call.func)
        given = call.args[0] if call.args else None
        match path:
            case Path(parts=("I", "module_attrs")):
                return
            case Path(parts=("I", "module_global_infos")):
                self._devices(call)
            case Path(parts=("A", "names")) if isinstance(given, ast.Dict):
                self.names.exact.update(names_of(self.source, given))
            case Path(parts=("A", "beside")):
                self._beside(call)
            case Path(parts=("A", "devices")) if isinstance(given, ast.Dict):
                self._named_devices(call, self._reader().values.value(given))
            case Path(parts=("A", "offsets")) if isinstance(given, ast.Dict):
                found = self._reader().values.value(given)
                if not all(isinstance(k, str) and type(v) is int for k, v in found.items()):
                    raise self.source.error(call, "A.offsets takes a dict of numbers by name", "text.C6")
                self.offsets.update(found)
            case Path(parts=("A", "infos")) if isinstance(given, ast.Dict):
                for name, info in self._reader().values.value(given).items():
                    self.infos[name] = self._info(call, info)
            case _:
                raise self.source.error(call, f"{ast.unparse(call.func)} has no place in a module", "text.C13")

    def _beside(self, call: ast.Call) -> None:
        match [a.value for a in call.args if isinstance(a, ast.Constant)]:
            case [str(file), int(nbytes)] if len(call.args) == 2:
                with self.source.at(call):
                    self.names.tensors = TensorReader(self.folder, file, nbytes)
            case _:
                raise self.source.error(call, "A.beside takes the name of a file and its bytes", "text.C6")

    def _named_devices(self, call: ast.Call, given: dict[Any, Any]) -> None:
        for name, parts in given.items():
            if not isinstance(name, str) or not isinstance(parts, tuple) or not 1 <= len(parts) <= 4:
                message = 'A.devices names devices by their parts: {"cuda:0": ("cuda", 0, "cuda", "global")}'
                raise self.source.error(call, message, "text.C6")
            if ":" not in name:
                raise self.source.error(
                    call, f'{name!r} is a type; the name of a device has a colon, as in "{name}:0"', "text.C6"
                )
            device = self._reader().calls.device_of([*parts, *[None] * (4 - len(parts))], call)
            if self.names.named_devices.setdefault(name, device) != device:
                raise self.source.error(
                    call, f"{name!r} is the name of {self.names.named_devices[name]} already", "text.C6"
                )

    def _info(self, call: ast.Call, info: Any) -> ConstantInfo:
        match info:
            case [int(alignment), str(section), [str(type_), int(number), str(target), str(scope)]]:
                return ConstantInfo(alignment, section, VirtualDevice(type_, number, target, scope))
            case _:
                form = "{name: [alignment, section, [type, id, target, scope]]}"
                raise self.source.error(call, f"A.infos takes {form}", "text.C6")

    def _devices(self, call: ast.Call) -> None:
        for node in ast.walk(call):
            if isinstance(node, ast.Call) and self.names.path(node.func) == Path(("I", "vdevice")):
                values = [self._reader().values.value(a) for a in node.args]
                given = {k.arg: self._reader().values.value(k.value) for k in node.keywords}
                target = values[0] if values else given.get("target", "")
                kind = target.get("kind", "") if isinstance(target, dict) else str(target).split(" ")[0]
                number = values[1] if len(values) > 1 else given.get("vdevice_id", 0)
                scope = values[2] if len(values) > 2 else given.get("memory_scope", "global")
                of = TYPES.get(str(kind), str(kind))
                self.names.devices.append(VirtualDevice(of, int(number), str(kind), str(scope)))

    def _constant(self, name: str, call: ast.Call) -> None:
        if self.names.path(call.func) not in (
            Path(("A", "tensor")),
            Path(("A", "stored")),
            Path(("R", "const")),
        ):
            raise self.source.error(
                call, "a constant of the module is an A.tensor, an A.stored or an R.const", "text.C13"
            )
        value = self._reader().values.expr(call)
        exact_name = self.names.exact.get(name, name)
        assert hasattr(value, "data")
        self.constants[exact_name] = value.data
        assert isinstance(value.type, TensorType)
        self.names.globals[exact_name] = value.type

    def _reader(self) -> FunctionParser:
        return FunctionParser(self.names, self.symbols)

    # --- data types ----------------------------------------------------------------------------------------------

    def _data_head(self, node: ast.ClassDef) -> None:
        call = next((d for d in node.decorator_list), None)
        func = call.func if isinstance(call, ast.Call) else call
        if func is None or self.names.path(func) != Path(("A", "data")):
            raise self.source.error(node, f"{node.name} is no data type: @A.data is missing", "text.C13")
        params: list[TypeVar] = []
        for a in call.args if isinstance(call, ast.Call) else ():
            found = self.symbols.get(a.id) if isinstance(a, ast.Name) else None
            if not isinstance(found, TypeVar):
                raise self.source.error(a, 'a type parameter is expected: a = A.typevar("a")', "text.C3")
            params.append(found)
        self.names.data[node.name] = DataDef(self.names.exact.get(node.name, node.name), tuple(params), {})

    def _data(self, node: ast.ClassDef) -> None:
        head, reader = self.names.data[node.name], self._reader()
        made: dict[str, tuple[Type, ...]] = {}
        own: dict[str, str] = {}
        for stmt in node.body:
            match stmt:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=fields)):
                    if name in made:
                        raise self.source.error(stmt, f"{node.name} has two constructors {name}", "data.C1")
                    types = []
                    for f in fields:
                        with self.source.at(f):
                            types.append(exact(reader.values.type(f)))
                    made[name] = tuple(types)
                case _:
                    message = "a constructor is a name and the tuple of its fields' types: Cons = (a, List[a])"
                    raise self.source.error(stmt, message, "text.C13")
        constructors = {own.get(n, n): types for n, types in made.items()}
        definition = DataDef(head.name, head.type_params, constructors)
        self.names.data[node.name] = definition
        self.definitions[head.name] = definition

    # --- functions -----------------------------------------------------------------------------------------------

    def _kind(self, node: ast.FunctionDef) -> str:
        if self._has(node, "R", "function"):
            return "graph"
        if self._has(node, "T", "prim_func"):
            return "tensor"
        message = (
            f"{node.name} is neither a graph function nor a tensor function: @R.function or @T.prim_func is missing"
        )
        raise self.source.error(node, message, "text.C12")

    def _functions(self, nodes: Sequence[ast.FunctionDef], kinds: dict[int, str]) -> None:
        modules = [n for n, root in self.names.aliases.items() if root in "TRI"]
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                raise self.source.error(node, f"two functions are called {node.name}", "text.C12")
            seen.add(node.name)
            if kinds[id(node)] == "tensor":
                self.names.kernels.add(self.names.exact.get(node.name, node.name))
        for node in nodes:
            name = self.names.exact.get(node.name, node.name)
            if kinds[id(node)] == "tensor":
                symbols = {n: s for n, s in self.symbols.items() if isinstance(s, Symbol)}
                self.definitions[name] = parse_prim_func(self.source, node, symbols, modules)
            else:
                signature = self._reader().signatures.read(node)
                self.graphs[name] = (node, signature)
                if signature.type is not None:
                    self.names.globals[name] = signature.type
        self._graphs()

    def _graphs(self) -> None:
        """Functions whose result has no declared type come before those that call them."""
        waiting = {n for n, (_, s) in self.graphs.items() if s.type is None}
        needs = {n: self._called(self.graphs[n][0]) & waiting - {n} if waiting else set() for n in self.graphs}
        order = sorted(self.graphs, key=lambda n: n not in waiting)
        done: set[str] = set()
        while order:
            ready = [n for n in order if needs[n] <= done]
            if not ready:
                node = self.graphs[order[0]][0]
                raise self.source.error(
                    node, "functions that call one another need result types: def f(...) -> type", "text.C17"
                )
            for name in ready:
                node, signature = self.graphs[name]
                function = self._reader().function(node, signature)
                self.definitions[name] = function
                self.names.globals.setdefault(name, function.type)
            done.update(ready)
            order = [n for n in order if n not in done]

    def _called(self, node: ast.FunctionDef) -> set[str]:
        parts = list(ast.walk(node))
        names = {n.attr for n in parts if isinstance(n, ast.Attribute)} | {
            n.id for n in parts if isinstance(n, ast.Name)
        }
        return {self.names.exact.get(n, n) for n in names}


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top, and those inside functions that are no part of a module (a test's, say)."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, ast.FunctionDef) and not stmt.decorator_list:
            yield from (s for s in stmt.body if isinstance(s, (ast.Import, ast.ImportFrom)))


def _inner(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, in functions, classes and branches too, in the order of the text."""
    work = Worklist(body)
    for stmt in work:
        yield stmt
        if not (isinstance(stmt, ast.FunctionDef) and stmt.decorator_list):
            work.add(s for part in ("body", "finalbody", "orelse") for s in getattr(stmt, part, []))


def entry_name(module: Module, name: str | None = None) -> str:
    """The name of the function that is meant: `name`, `main`, or the only one."""
    functions = [n for n, d in module.definitions.items() if not isinstance(d, DataDef)]
    if name is not None:
        if name not in functions:
            raise Invalid(f"the module has no function {name}; it has {', '.join(functions)}", label="text.C16")
        return name
    if "main" in functions:
        return "main"
    graphs = [n for n in functions if isinstance(module.definitions[n], Function)]
    for candidates in (graphs, functions):
        if len(candidates) == 1:
            return candidates[0]
    raise Invalid(f"which function is meant? The module has {', '.join(functions) or 'none'}", label="text.C16")
