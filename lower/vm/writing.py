"""Graph functions, written as instructions one expression after another (specs/lower.md, "vm")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.shapes.evidence import evidence
from assay.lower.vm.kernel_calls import write_kernel_call
from assay.lower.vm.matching import write_tests
from assay.lower.vm.routine import Held, Label, Routine
from assay.lower.vm.sure import surely
from assay.semantics import bytecode as vm, graph
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import ATOMS
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.operator import Operator
from assay.semantics.scalar import Expr as Scalar, Interner, Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, ShapeType, TensorType, TupleType, Type, symbols, with_dims

Arm = tuple[list[vm.Instruction], "Held | None", int]
"""The text of an arm, where its value is, and the label behind it."""
Duty = tuple[Type, str, str, "Span | None"]
"""A type that what a function gives has to have, with the label, the name of the value in the message, and the
place."""


class Writer:
    """All functions of a module that main can reach."""

    def __init__(self, module: Module, alignment: int) -> None:
        self.module = module
        self.alignment = alignment
        self.waiting: list[str] = ["main"]
        self.met: set[str] = {"main"}
        self.taken: set[str] = set(module.graphs)
        self.done: list[Routine] = []
        self.number = Interner()
        self.local: dict[graph.Expr, graph.Function] = {}
        """The functions that variables surely are."""
        self.unseen: set[graph.Var] = set()
        """Variables whose values come out of a cell or a data value, in which nobody has looked at the sizes that their
        types say."""

    def run(self) -> list[Routine]:
        """Each function as a routine, main first."""
        for name in self.waiting:  # it grows
            function = self.module.definitions[name]
            assert isinstance(function, graph.Function)
            run_task(self.routine(Routine(name, function, None, None, self.number)))
        return self.done

    def routine(self, at: Routine) -> Task[None]:
        """Write a function."""
        self.done.append(at)
        function = at.function
        if is_opaque(function):
            raise Unsupported(
                f"{at.name} is a function for another compiler, which is kept whole, with operators inside: assay run"
                " evaluates it, or an engine does (--engine); without its attribute 'compiler' or 'primitive', or"
                " without the pass partition, it is bytecode as any other",
                where=function.span,
                label="vm.C3",
            )
        for p in function.params:
            at.held[p] = at.fresh(p.name)
        pairs = [(at.held[p], p.type, f"parameter {p.name!r}") for p in function.params]
        at.meet(pairs, "func.T2", function.span)
        duty = (function.result_type, "func.T1", "result", function.span)
        yield self.chain(at, function.body, (duty,))
        at.seal()

    # --- chains ------------------------------------------------------------------------------------------------------

    def chain(self, at: Routine, body: graph.Expr, duties: Sequence[Duty] | None) -> Task[Held | None]:
        """The lets of a block and its value. With `duties` the value is that of the function, which is left: None."""
        lets, end = graph.let_chain(body)
        for i, let in enumerate(lets):
            last = i == len(lets) - 1 and end is let.var
            held = yield from self.bind(at, let, duties if last else None)
            if held is None:
                return None
            at.held[let.var] = held
        found = at.look(end) if isinstance(end, ATOMS) else (yield from self.value(at, end, "", duties))
        if found is not None and duties is not None:
            self.leave(at, found, end, duties)
            return None
        return found

    def bind(self, at: Routine, let: graph.Let, duties: Sequence[Duty] | None) -> Task[Held | None]:
        """The value of a let."""
        var, value = let.var, let.value
        if isinstance(value, graph.Function):
            self.local[var] = value
            return (yield from self.closure(at, value, var))
        if value in self.local:
            self.local[var] = self.local[value]
        held = yield from self.value(at, value, var.name, duties)
        if held is None:
            return None
        at.call(held, var.name)
        if symbols(var.type) and isinstance(value, graph.RefRead):
            at.meet([(held, var.type, "the value")], "call.T1", let.span)
        elif self.is_unseen(value):
            self.unseen.add(var)
        return held

    def is_unseen(self, value: graph.Expr) -> bool:
        """Whether nothing that is written for a value may have made sure that it has its type."""
        match value:
            case graph.Var():
                return value in self.unseen
            case graph.RefRead():
                return True
            case graph.If() | graph.Match():
                return not symbols(value.type)
            case graph.Tuple() | graph.TupleGetItem() | graph.OnDevice():
                return not self.unseen.isdisjoint(c for c in value.children if isinstance(c, graph.Var))
            case _:
                return False

    def leave(self, at: Routine, held: Held, end: graph.Expr, duties: Sequence[Duty]) -> None:
        """The function is left with the value of an expression."""
        unseen, span = self.is_unseen(end), end.span
        for want, label, what, where in duties:
            if unseen or not surely(end.type, want, lambda s: at.size(s) is not None):
                at.meet([(held, want, what)], label, where)
        at.add(vm.Return(at.register(held, span), span=span))

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, at: Routine, node: graph.Expr, name: str, duties: Sequence[Duty] | None) -> Task[Held | None]:
        """Where the value of an expression is; None where the function is left with it."""
        span = node.span
        match node:
            case graph.Var() | graph.GlobalVar() | graph.ExternFunc() | graph.Constructor():
                return self.operand(at, node)
            case graph.CallTIR():
                return write_kernel_call(at, node, self.module, self.alignment, name)
            case graph.Tuple():
                return tuple(self.operand(at, f) for f in node.fields)
            case graph.TupleGetItem():
                return at.part(self.operand(at, node.value), node.index, span)
            case graph.OnDevice():
                return self.operand(at, node.value)
            case graph.If() | graph.Match():
                return (yield from self.choose(at, node, duties))
            case graph.Let():
                return (yield from self.chain(at, node, duties))
            case graph.Function():
                return (yield from self.closure(at, node, None))
            case graph.Call() if isinstance(node.op, Operator):
                return self.view(at, node)
            case graph.Call():
                return self.call(at, node, name, duties)
            case graph.MatchCast():
                return self.cast(at, node)
            case graph.Print():
                at.add(vm.PrintRegisters(self.registers(at, node.values, span), node.format, span=span))
                return ()
            case graph.AssertOp():
                condition = at.register(self.operand(at, node.condition), span)
                at.add(vm.RequireTrue(condition, self.registers(at, node.values, span), node.format, span=span))
                return ()
            case graph.RefWrite():
                cell = at.register(self.operand(at, node.ref), span)
                at.add(vm.WriteReference(cell, at.register(self.operand(at, node.value), span), span=span))
                return ()
            case _:
                return self.made(at, node, name)

    def made(self, at: Routine, node: graph.Expr, name: str) -> Held:
        """A value that one instruction makes."""
        span = node.span
        match node:
            case graph.RefCreate():
                of = at.register(self.operand(at, node.value), span)
                at.add(vm.MakeReference(to := at.fresh(name), of, span=span))
            case graph.RefRead():
                of = at.register(self.operand(at, node.ref), span)
                at.add(vm.ReadReference(to := at.fresh(name), of, span=span))
            case graph.ShapeExpr():
                at.add(
                    vm.MakeShape(
                        to := at.fresh(name), tuple(at.dim(d, span) for d in node.dims), at.explicit, span=span
                    )
                )
            case graph.ShapeOf():
                of = at.register(self.operand(at, node.value), span)
                at.add(vm.ShapeOfTensor(to := at.fresh(name), of, span=span))
            case graph.Constant():
                raise Unsupported("a constant that is not in the module's table", where=span, label="vm.C1")
            case _:
                raise Unsupported(f"{graph.show_head(node)}: no instruction does it", where=span, label="vm.C1")
        return to

    def operand(self, at: Routine, node: graph.Expr) -> Held:
        """Where an operand is. A function of the module that is met is written too."""
        if isinstance(node, graph.GlobalVar) and node.name not in self.module.constants:
            if not isinstance(self.module.definitions.get(node.name), graph.Function):
                raise Unsupported(
                    f"the module has no function or constant {node.name}", where=node.span, label="graph.C2"
                )
            if node.name not in self.met:
                self.met.add(node.name)
                self.waiting.append(node.name)
        if not isinstance(node, ATOMS):
            raise Unsupported(
                f"{graph.show_head(node)} is no name: A-normal form has names", where=node.span, label="vm.C1"
            )
        return at.look(node)

    def registers(self, at: Routine, nodes: Sequence[graph.Expr], span: Span | None) -> tuple[int, ...]:
        """The registers of operands."""
        return tuple(at.register(self.operand(at, n), span) for n in nodes)

    def view(self, at: Routine, node: graph.Call) -> Held:
        """An operator that gives the bytes of its operand another shape."""
        op = node.op
        assert isinstance(op, Operator)
        if not op.view or not isinstance(node.type, TensorType):
            raise Unsupported(
                f"{graph.show_head(node)}: an operator is left; legalize makes tensor functions of them",
                where=node.span,
                label="vm.C1",
            )
        of = at.register(self.operand(at, node.args[0]), node.span)
        to = at.fresh()
        at.add(vm.ViewTensor(to, of, at.tensor(node.type, node.span), span=node.span))
        return to

    def cast(self, at: Routine, node: graph.MatchCast) -> Held:
        """A match-cast: the value itself, looked at."""
        held = self.operand(at, node.value)
        if isinstance(node.type, ShapeType) and isinstance(node.value.type, TensorType):
            to = at.fresh()
            at.add(vm.ReadShape(to, at.register(held, node.span), at.explicit, span=node.span))
            held = to
        if not at.explicit:
            at.meet([(held, node.type, "the value")], "match_cast.T1", node.span)
        elif isinstance(node.type, ShapeType):
            self.name_sizes(at, held, node, node.type)
        return held

    def name_sizes(self, at: Routine, held: Held, node: graph.MatchCast, of: ShapeType) -> None:
        """With explicit shapes: sizes that have no name here get one; nothing is compared."""
        binds: list[Symbol] = []
        for d in of.dims:
            if isinstance(d, Symbol) and not at.is_own(d):
                binds.append(at.bind(d))
            elif isinstance(d, Scalar) and not isinstance(d, Symbol) and at.number(d) not in at.slots:
                slot = at.slots[at.number(d)] = Symbol("size")
                binds.append(at.bind(slot))
            else:
                binds.append(at.bind(Symbol("_")))
        at.match_shape(held, binds, node.span)

    # --- functions ---------------------------------------------------------------------------------------------------

    def closure(self, at: Routine, node: graph.Function, var: graph.Var | None) -> Task[Held]:
        """A function that stands in another."""
        name = unused(f"{at.name}.{var.name if var is not None else 'function'}", self.taken)
        self.taken.add(name)
        inner = Routine(name, node, at, var, self.number)
        yield self.routine(inner)
        to = at.fresh(var.name if var is not None else "")
        at.closure(to, inner, node.span)
        return to

    def call(self, at: Routine, node: graph.Call, name: str, duties: Sequence[Duty] | None) -> Held | None:
        """A call of what is no operator."""
        span = node.span
        assert isinstance(node.op, graph.Expr)
        callee = self.operand(at, node.op)
        arguments = self.registers(at, node.args, span)
        acts = graph.acts(node)
        of = at.type(node.type)
        if isinstance(callee, graph.Constructor):
            assert isinstance(of, DataType)
            at.add(vm.MakeData(to := at.fresh(name), of, callee.name, arguments, span=span))
            return to
        if isinstance(callee, graph.ExternFunc):
            wanted = with_dims(node.type, lambda d: Symbol("_")) if at.explicit else of
            at.add(vm.InvokeExtern(to := at.fresh(name), callee.name, arguments, wanted, acts, span=span))
            return self.returned(at, to, node, True)
        known = self.is_known(at, node)
        if known and duties is not None and self.are_sure(at, node.type, duties):
            if isinstance(callee, graph.GlobalVar):
                at.add(vm.ReturnCall(callee.name, arguments, of, span=span))
            else:
                at.add(vm.ReturnCallClosure(at.register(callee, span), arguments, of, acts, span=span))
            return None
        if isinstance(callee, graph.GlobalVar):
            at.add(vm.InvokeFunction(to := at.fresh(name), callee.name, arguments, of, span=span))
        else:
            register = at.register(callee, span)
            at.add(vm.InvokeClosure(to := at.fresh(name), register, arguments, of, acts, span=span))
        return self.returned(at, to, node, known)

    def is_known(self, at: Routine, node: graph.Call) -> bool:
        """Whether what is called surely gives a value of the call's type, for it checks its own (rule M4.3)."""
        if isinstance(node.op, graph.GlobalVar):
            found = evidence(node, self.module)
            callee = self.module.definitions[node.op.name]
            if isinstance(callee, graph.Function) and callee.func_type.type_params:
                return False  # a size in what a type parameter stands for is not compared there
            return found is not None and surely(found, node.type, lambda s: at.size(s) is not None)
        return node.op in self.local or not isinstance(node.type, (TensorType, ShapeType, TupleType))

    def are_sure(self, at: Routine, of: Type, duties: Sequence[Duty]) -> bool:
        """Whether a value of a type has all that it has to be."""
        return at.explicit or all(surely(of, want, lambda s: at.size(s) is not None) for want, _, _, _ in duties)

    def returned(self, at: Routine, held: Held, node: graph.Expr, known: bool) -> Held:
        """The value of a call has its type."""
        if not known or symbols(node.type):
            at.meet([(held, node.type, "the value")], "call.T1", node.span)
        return held

    # --- choices -----------------------------------------------------------------------------------------------------

    def choose(self, at: Routine, node: graph.If | graph.Match, duties: Sequence[Duty] | None) -> Task[Held | None]:
        """A branch or a match. With duties each arm leaves the function."""
        inner: Sequence[Duty] | None = None
        if duties is not None:
            own: list[Duty] = [(node.type, "call.T1", "the value", node.span)] if symbols(node.type) else []
            inner = (*own, *duties)
        of = self.operand(at, node.children[0])
        of = at.register(of, node.span) if isinstance(node, graph.If) else of
        bodies = node.children[1:]
        text, end = at.body, at.label()
        parts: list[Arm] = []
        for k, body in enumerate(bodies):
            at.body, mark, otherwise = [], at.mark(), at.label()
            tested = self.open_arm(at, node, k, of, otherwise)
            found: Held | None = yield self.chain(at, body, inner)
            at.forget(mark)
            parts.append((at.body, found, otherwise))
            if not tested:
                break
        else:
            fail = vm.Fail("match", "match.T1", "no clause matches", span=node.span)
            parts.append(([fail], None, at.label()))
        merged: Held | None = None
        if any(found is not None for _, found, _ in parts):
            merged = yield self.merge(at, [(b, h) for b, h, _ in parts if h is not None], node.span)
        at.body = text
        for k, (part, found, otherwise) in enumerate(parts):
            text += part
            if found is not None and k < len(parts) - 1:
                at.add(vm.Jump(end))
            at.add(Label(otherwise))
        at.add(Label(end))
        if merged is not None and symbols(node.type):
            at.meet([(merged, node.type, "the value")], "call.T1", node.span)
        return merged

    def open_arm(self, at: Routine, node: graph.If | graph.Match, number: int, of: Held, otherwise: int) -> bool:
        """What stands before an arm: a jump to `otherwise` unless the arm is to be taken, and what a pattern binds.
        Whether there is such a jump."""
        if isinstance(node, graph.If):
            assert isinstance(of, int)
            if number == 0:
                at.add(vm.JumpUnless(of, otherwise, span=node.span))
            return number == 0
        tested, bound = write_tests(at, node.clauses[number].pattern, of, otherwise, node.span)
        for var, held in bound.items():
            at.held[var] = held
            at.call(held, var.name)
            if symbols(var.type):
                at.meet([(held, var.type, "the value")], "call.T1", node.span)
            else:
                self.unseen.add(var)
        return tested

    def merge(self, at: Routine, arms: Sequence[tuple[list[vm.Instruction], Held]], span: Span | None) -> Task[Held]:
        """Where a value is that each arm has somewhere else; each is told to put it there."""
        first = arms[0][1]
        if all(h is first or h == first for _, h in arms):
            return first
        if isinstance(first, tuple) and all(isinstance(h, tuple) and len(h) == len(first) for _, h in arms):
            fields: list[Held] = []
            for i in range(len(first)):
                fields.append((yield self.merge(at, [(b, h[i]) for b, h in arms if isinstance(h, tuple)], span)))
            return tuple(fields)
        to = at.fresh()
        for body, held in arms:
            at.body = body
            at.load(held, to, span)
        return to
