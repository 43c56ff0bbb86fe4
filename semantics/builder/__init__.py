"""A builder of modules in A-normal form, for people and tests (rows R1, R3 and R14; specs/semantics.md, "Builder").

    b = Builder()
    with b.function("main", x=tensor("n", 4), w=tensor(4, 8)) as f:
        with b.dataflow():
            y = b.nn.relu(b.matmul(f.x, f.w))
            z = b.emit_te(lambda a: compute(a.shape, lambda i, j: a[i, j] * 2.0), y)
            b.output(z)
        b.result(z)
    module = b.module()

Whatever is emitted becomes bindings with unique names: operands, operands of operands, each evaluation once however
often it is used. Operators are methods; Python numbers are constants of the dtype of the first tensor beside them.

    >>> b = assay.builder.Builder()
    >>> with b.function("main", x=assay.builder.tensor("n", 4)) as f:
    ...     b.result(b.multiply(b.nn.relu(f.x), 2.0))
    >>> assay.run(b.module(), {"x": numpy.float32([[-1, 0, 1, 2]])})["output_0"].tolist()
    [[0.0, 0.0, 2.0, 4.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from assay.semantics import graph, rules
from assay.semantics.analyses.equality import structural_equal, structural_hash
from assay.semantics.builder.bindings import Bindings
from assay.semantics.builder.scopes import (
    Described,
    FunctionScope,
    IfScope,
    MatchScope,
    described,
    func_type as func_type,
    tensor as tensor,
    tuple_type as tuple_type,
)
from assay.semantics.builder.te import parameter_names, renamed, tensor_function
from assay.semantics.errors import Invalid
from assay.semantics.graph import (
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Var,
)
from assay.semantics.graph.matching import Bound, instantiate, match_types
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, Stmt
from assay.semantics.types import DataDef, FuncType, TensorType, TupleType, Type, TypeVar, flatten, same_type


class Builder(Bindings):
    """Builds a module: functions, and in them bindings, blocks and branches, each in its `with`."""

    def __init__(self) -> None:
        super().__init__()
        self._definitions: dict[str, Definition] = {}
        self._declared: dict[str, GlobalVar] = {}
        self._constants: dict[str, np.ndarray[Any, Any]] = {}
        self._kernels: dict[str, list[str]] = {}

    # --- definitions ----------------------------------------------------------------------------------------------

    @contextmanager
    def function(
        self,
        function_name: str,
        /,
        *,
        result: Described | None = None,
        params: Mapping[str, Described] | None = None,
        type_params: Sequence[TypeVar] = (),
        pure: bool | None = None,
        attrs: Mapping[str, Any] | None = None,
        **types: Described,
    ) -> Iterator[FunctionScope]:
        """A function of the module. With a declared `result` it can be called in its own body, and is then pure unless
        `pure` says otherwise."""
        if self._frame is not None:
            where = self._frame.what
            raise Invalid(f"function {function_name} in {where}: a local function is a closure", label="builder.C8")
        if function_name in self._definitions:
            raise Invalid(f"{function_name} is defined twice", label="builder.C9")
        opened = self._open(function_name, {**(params or {}), **types}, result, type_params, pure, attrs)
        with opened as (scope, declared, made):
            if declared is not None:
                scope.value = self._declare(function_name, declared)
            elif function_name in self._declared:
                scope.value = self._declared[function_name]
            yield scope
        self._definitions[function_name] = made[0]
        scope.value = self._declare(function_name, made[0].func_type)

    @contextmanager
    def closure(
        self,
        function_name: str = "closure",
        /,
        *,
        result: Described | None = None,
        params: Mapping[str, Described] | None = None,
        type_params: Sequence[TypeVar] = (),
        pure: bool | None = None,
        attrs: Mapping[str, Any] | None = None,
        **types: Described,
    ) -> Iterator[FunctionScope]:
        """A local function: it may use what is visible here, and itself if its `result` is declared."""
        frame = self.frame
        name = self.unique(function_name)
        with self._open(name, {**(params or {}), **types}, result, type_params, pure, attrs) as (scope, declared, made):
            var = None
            if declared is not None:
                scope.value = var = graph.var(name, declared)
                frame.visible.add(var)
            yield scope
        value = made[0]
        if var is not None and not same_type(var.type, value.type):
            raise Invalid(f"{name} is declared {var.type}, but is {value.type}", label="builder.C10")
        scope.value = self.bind(value, var=var or graph.var(name, value.type))

    @contextmanager
    def _open(
        self,
        name: str,
        types: Mapping[str, Described],
        result: Described | None,
        type_params: Sequence[TypeVar],
        pure: bool | None,
        attrs: Mapping[str, Any] | None,
    ) -> Iterator[tuple[FunctionScope, FuncType | None, list[Function]]]:
        """A function's frame, its declared type, and, after the block, the function."""
        scope = FunctionScope(self, name)
        made: list[Function] = []
        with self.body(f"function {name}", scope) as frame:
            scope.by_name = {n: graph.var(self.unique(n), described(t, self.symbol)) for n, t in types.items()}
            frame.visible.update(scope.params)
            wanted = None if result is None else described(result, self.symbol)
            declared = None
            if wanted is not None:
                of = tuple(p.type for p in scope.params)
                declared = FuncType(of, wanted, type_params=tuple(type_params), pure=pure is not False)
                pure = declared.pure
            yield scope, declared, made
        made.append(
            graph.function(scope.params, frame.body(), wanted, type_params=type_params, pure=pure, **(attrs or {}))
        )

    def declare(
        self,
        name: str,
        params: Sequence[Described],
        result: Described,
        *,
        type_params: Sequence[TypeVar] = (),
        pure: bool = True,
    ) -> GlobalVar:
        """A function that is defined later, to be called now: so functions may call each other."""
        symbols: dict[str, Symbol] = {}

        def own(n: str) -> Symbol:
            return symbols.setdefault(n, Symbol(n))

        types = tuple(described(p, own) for p in params)
        return self._declare(name, FuncType(types, described(result, own), type_params=tuple(type_params), pure=pure))

    def _declare(self, name: str, of: FuncType) -> GlobalVar:
        known = self._declared.get(name)
        if known is not None and not same_type(known.type, of):
            raise Invalid(f"{name} is declared {known.type}, but is {of}", label="builder.C10")
        return self._declared.setdefault(name, GlobalVar(of, name))

    def data(self, definition: DataDef) -> DataDef:
        """Adds a data type to the module."""
        if self._definitions.setdefault(definition.name, definition) is not definition:
            raise Invalid(f"{definition.name} is defined twice", label="builder.C9")
        return definition

    def table(self, name: str, data: np.ndarray[Any, Any]) -> GlobalVar:
        """A constant of the module's table, by name."""
        if name in self._definitions or name in self._constants:
            raise Invalid(f"{name} is defined twice", label="builder.C9")
        self._constants[name] = data
        return GlobalVar(graph.constant(data).type, name)

    def include(self, module: Module) -> None:
        """Adds the definitions and constants of a module."""
        for name, d in module.definitions.items():
            if self._definitions.setdefault(name, d) is not d:
                raise Invalid(f"{name} is defined twice", label="builder.C9")
            if isinstance(d, Function):
                self._declare(name, d.func_type)
        self._constants.update(module.constants)

    def global_(self, name: str) -> GlobalVar:
        """A function of the module, declared or defined, as a value."""
        if name not in self._declared:
            raise Invalid(f"no function {name} is declared or defined", label="builder.C11")
        return self._declared[name]

    def module(self, check: bool = True) -> Module:
        """The module; well-formed, unless that is not asked for."""
        if self._frame is not None:
            raise Invalid(f"{self._frame.what} is not closed", label="builder.C12")
        for name in self._declared:
            if name not in self._definitions:
                raise Invalid(f"function {name} is declared, but not defined", label="builder.C11")
        module = Module(dict(self._definitions), dict(self._constants))
        if check:
            rules.check(module)
        return module

    # --- scopes ---------------------------------------------------------------------------------------------------

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """A dataflow block: pure bindings, of which only those of `output` can be used after it."""
        frame = self.frame
        if frame.mark is not None:
            raise Invalid("a dataflow block inside a dataflow block", label="builder.C13")
        frame.mark, frame.outputs, first = Dataflow(), set(), len(frame.bindings)
        try:
            yield
        finally:
            frame.mark = None
        hidden = {v for v, _, _ in frame.bindings[first:] if v not in frame.outputs}
        frame.visible -= hidden
        for key in [k for k, a in frame.known.items() if a in hidden]:
            del frame.known[key]

    def output(self, *values: Expr) -> None:
        """What of the open dataflow block can be used after it."""
        frame = self.frame
        if frame.mark is None:
            raise Invalid("output outside a dataflow block", label="builder.C13")
        for value in values:
            atom = self.atom(value)
            if isinstance(atom, Var):
                frame.outputs.add(atom)

    def result(self, value: Any) -> None:
        """What the open function, branch or clause gives."""
        frame = self.frame
        if frame.mark is not None:
            raise Invalid("result inside a dataflow block: it comes after it", label="builder.C13")
        if frame.result is not None:
            raise Invalid(f"{frame.what} has two results", label="builder.C2")
        frame.result = self.atom(self.operand(value))

    @contextmanager
    def if_(self, condition: Expr) -> Iterator[IfScope]:
        """Opens a branch on a bool scalar; both its blocks must be built before the `with` ends."""
        scope = IfScope(self, self.atom(condition))
        yield scope
        scope.done = self.bind(scope.close())

    def choose(self, condition: Expr, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Var:
        """An if in one line: each branch is a Python function that gives its result."""
        with self.if_(condition) as scope:
            for branch, body in ((scope.then, then), (scope.otherwise, otherwise)):
                with branch():
                    self.result(body())
        return scope.value

    @contextmanager
    def match(self, value: Any, partial: bool = False) -> Iterator[MatchScope]:
        """Opens a match of `value`; a `partial` one traps where no case matches."""
        scope = MatchScope(self, self.atom(value), partial)
        yield scope
        scope.done = self.bind(scope.close())

    def cases(self, value: Any, *clauses: tuple[Any, Callable[..., Any]], partial: bool = False) -> Var:
        """A match in one expression: pairs of a pattern and a Python function of its variables."""
        with self.match(value, partial) as scope:
            for pattern, body in clauses:
                with scope.case(pattern) as vars:
                    self.result(body(*vars))
        return scope.value

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(
        self,
        op: Operator | str | Expr | FunctionScope,
        *args: Any,
        type_args: Sequence[Type] = (),
        name: str = "",
        **attrs: Any,
    ) -> Var:
        """Emits the call of an operator, of a function, or of whatever gives one."""
        if isinstance(op, FunctionScope):
            op = op.ref
        like: Type | None = next((a.type for a in args if isinstance(a, Expr) and isinstance(a.type, TensorType)), None)
        likes: list[Type | None] = [like] * len(args)
        if isinstance(op, Expr) and isinstance(op.type, FuncType) and len(op.type.params) == len(args):
            likes = list(op.type.params)
        operands = [self.operand(a, t) for a, t in zip(args, likes, strict=True)]
        return self.emit(graph.call(op, *operands, type_args=type_args, **attrs), name)

    def make(self, data: DataDef, constructor: str, *fields: Any, type_args: Sequence[Type] = ()) -> Var:
        """Emits the call of a constructor."""
        return self.call(graph.constructor(data, constructor), *fields, type_args=type_args, name=constructor)

    def emit_tir(
        self,
        func: PrimFunc | Callable[..., Stmt],
        *args: Any,
        out: Described | Sequence[Described] = (),
        scalars: Sequence[Dim] = (),
        name: str = "",
    ) -> Var:
        """Emits the call of a tensor function: a `PrimFunc`, or what a Python function makes of buffers.

        Its buffers are those of the arguments, then those of the results `out`; it gives a statement. Equal tensor
        functions are one in the module.
        """
        operands = [self.operand(a) for a in args]
        types = [t for a in operands for t in flatten(a.type)]
        if not isinstance(func, PrimFunc):
            wanted = [described(o, self.symbol) for o in (out if isinstance(out, (list, tuple)) else (out,))]
            results = [t for o in wanted for t in flatten(o)]
            if not results:
                raise Invalid("a Python function needs the types of its results, out=...", label="builder.C15")
            names = parameter_names(func, len(types) + len(results))
            of = [*types, *results]
            buffers = [Buffer(n, t.shape, t.dtype) for n, t in zip(names, of, strict=True)]
            func = PrimFunc(_python_name(func, name), tuple(buffers), len(results), func(*buffers))
        return self._call_tir(func, operands, types, scalars, name)

    def emit_te(self, formula: Callable[..., Any], *args: Any, name: str = "") -> Var:
        """Emits the call of the tensor function that a formula describes: see `assay.semantics.builder.te`."""
        operands = [self.operand(a) for a in args]
        types = [t for a in operands for t in flatten(a.type)]
        return self._call_tir(tensor_function(_python_name(formula, name), formula, types), operands, types, (), name)

    def _call_tir(
        self, kernel: PrimFunc, args: Sequence[Expr], types: Sequence[TensorType], scalars: Sequence[Dim], name: str
    ) -> Var:
        if len(types) != len(kernel.inputs):
            raise Invalid(f"{kernel.name} reads {len(kernel.inputs)} buffers, {len(types)} given", label="builder.C15")
        bound: Bound = {}
        match_types([TensorType(b.shape, b.dtype) for b in kernel.inputs], types, bound)
        bound.update(zip(kernel.scalars, scalars, strict=True))
        results = [instantiate(TensorType(b.shape, b.dtype), bound) for b in kernel.outputs]
        result = results[0] if len(results) == 1 else TupleType(tuple(results))
        return self.emit(graph.call_tir(self.kernel(kernel), args, result, scalars=scalars), name)

    def kernel(self, kernel: PrimFunc) -> str:
        """Adds a tensor function to the module, unless an equal one is there; its name."""
        same = self._kernels.setdefault(structural_hash(kernel), [])
        for name in same:
            if structural_equal(self._definitions[name], kernel):
                return name
        name = unused(kernel.name, self._definitions, self._declared, self._constants)
        self._definitions[name] = renamed(kernel, name)
        same.append(name)
        return name

    def match_cast(self, value: Expr, to: Described, name: str = "") -> Var:
        """Emits a match-cast; its new symbols have values from here on."""
        return self.emit(graph.match_cast(self.atom(value), described(to, self.symbol)), name)

    def shape(self, *dims: Dim | str) -> Var:
        """Emits a shape as a value; a dim that is a string is the symbol of that name."""
        return self.emit(graph.shape(*(self.symbol(d) if isinstance(d, str) else d for d in dims)))

    def constant(self, data: Any, of: str | None = None, name: str = "") -> Var:
        """Emits a tensor literal; `of` names its dtype where `data` is not a NumPy array."""
        return self.emit(graph.constant(data, of), name)

    def tuple(self, *fields: Any) -> Var:
        """Emits a tuple of values."""
        return self.emit(self.operand(fields))

    def get(self, value: Expr, index: int) -> Var:
        """Emits field `index` of a tuple."""
        return self.emit(graph.get(self.atom(value), index))

    def ref(self, value: Any) -> Var:
        """Emits a fresh mutable cell that holds `value`."""
        return self.emit(graph.ref(self.operand(value)))

    def read(self, ref: Expr) -> Var:
        """Emits a read of the cell that `ref` is."""
        return self.emit(graph.read(ref))

    def write(self, ref: Expr, value: Any) -> Var:
        """Emits a write of `value` to the cell that `ref` is."""
        return self.emit(graph.write(ref, self.operand(value)))

    def print(self, *values: Any, format: str = "") -> Var:
        """Emits a print of `values`, by `format`."""
        return self.emit(graph.print_(*map(self.operand, values), format=format))

    def assert_(self, condition: Expr, *values: Any, format: str = "") -> Var:
        """Emits a trap unless `condition`, a bool scalar, holds; it shows `values` by `format`."""
        return self.emit(graph.assert_op(condition, *map(self.operand, values), format=format))

    def __getattr__(self, name: str) -> Namespace:
        if name.startswith("_"):
            raise AttributeError(name)
        return Namespace(self, name)


class Namespace:
    """An operator as a method, or the part of its name before a dot: `b.matmul(x, w)`, `b.nn.relu(x)`."""

    def __init__(self, builder: Builder, name: str) -> None:
        if name not in OPERATORS and not any(o.startswith(name + ".") for o in OPERATORS):
            raise Invalid(f"no operator {name}", label="builder.C16")
        self.builder = builder
        self.name = name

    def __getattr__(self, name: str) -> Namespace:
        return Namespace(self.builder, f"{self.name}.{name}")

    def __call__(self, *args: Any, **attrs: Any) -> Var:
        """Emits a call of the operator."""
        return self.builder.call(self.name, *args, **attrs)


def _python_name(of: Callable[..., Any], name: str) -> str:
    found = name or getattr(of, "__name__", "")
    return found if found.isidentifier() else "kernel"
