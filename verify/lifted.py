"""Functions of the module put back as local functions where they are called (specs/verify.md, "simplify").

What was lifted is compared with its source where it stood: a function that calls itself gets there, as what it names
from around it, what every such call hands on. Nothing here is shared with the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.lower.anf.copying import fresh_copy
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, OnDevice, Var
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.graph.matching import Bound, match_types
from assay.semantics.graph.scopes import function_scopes
from assay.semantics.types import FuncType, same_type
from assay.semantics.walk import post_order
from assay.verify.value_numbering.nesting import UndecidedNumbering

MOST_NODES = 200_000
"""How large a function may get when calls are opened, or functions put back."""


@dataclass
class PutFunctionsBack:
    """Puts functions back, each at each of its calls. `lifted` are those that call themselves, through others too, by
    name; `names` are those of the parameters of the local functions that there were: which parameters of a lifted one
    are its own is guessed by them, and a wrong guess shows nothing."""

    lifted: Mapping[str, Function]
    names: set[tuple[str, ...]]
    stands: dict[Var, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)
    """For the variable of a function that was put back its name in the module, and what it names from around it."""
    taken: dict[str, int] = field(default_factory=dict)
    """How many parameters of a function, from the first on, are what it took from around it."""

    def __post_init__(self) -> None:
        self.taken = {name: self._taken(name, f) for name, f in self.lifted.items()}

    def run(self, function: Function) -> Function:
        """A function with all of them put back. UndecidedNumbering: it would be too large."""
        while True:
            after = self._once(function)
            if after is function:
                return function
            function = after

    def _once(self, function: Function) -> Function:
        order = open_nodes(function)
        if len(order) > MOST_NODES:
            raise UndecidedNumbering(f"more than {MOST_NODES} nodes where functions are put back")
        owner = function_scopes(function).owner
        bound_to = {id(n.value): n.var for n in order if isinstance(n, Let)}

        def around(node: Expr) -> Iterator[Var]:
            """The variables of the functions around a node that were put back."""
            home: Function | None = owner.get(id(node))
            while home is not None:
                var = bound_to.get(id(home))
                if var is not None and var in self.stands:
                    yield var
                home = owner.get(id(home)) if home is not function else None

        new: dict[int, Expr] = {}
        for node in order:
            made = node.with_children([new.get(id(c), c) for c in node.children])
            match node:
                case GlobalVar() if self.taken.get(node.name) == 0:
                    made = self._put(node, (), list(around(node)))
                case Call(op=GlobalVar(name=name)) if isinstance(made, Call) and self.taken.get(name, 0):
                    made = self._called(made, list(around(node)))
                case Call(op=GlobalVar()) if isinstance(made, Call) and isinstance(made.op, Let):
                    made = replace(made.op, type=made.type, body=replace(made, op=made.op.body))
                case _:
                    pass
            new[id(node)] = made
        return as_function(new[id(function)])

    def _called(self, call: Call, around: Sequence[Var]) -> Expr:
        """A call of a function that is put back there."""
        assert isinstance(call.op, GlobalVar)
        given = call.args[: self.taken[call.op.name]]
        named = tuple(a if isinstance(a, (Var, GlobalVar)) else Var(a.type, "taken", device=a.device) for a in given)
        made = self._put(call.op, named, around)
        left = call.args[len(given) :]
        match made:
            case Let():
                result: Expr = replace(made, type=call.type, body=replace(call, op=made.body, args=left))
            case Var():
                return replace(call, op=made, args=left)
            case _:
                return call
        for v, a in reversed(list(zip(named, given, strict=True))):
            if isinstance(v, Var) and v is not a:
                result = Let(result.type, v, a, result, device=call.device)
        return result

    def _put(self, name: GlobalVar, given: Sequence[Expr], around: Sequence[Var]) -> Expr:
        """A let of a function that takes `given` from around it, and its name; inside of itself its name alone; the
        name in the module where neither can be."""
        same = [v for v in around if self.stands[v][0] == name.name]
        if same:
            alike = [v for v in same if all(a is b for a, b in zip(self.stands[v][1], given, strict=True))]
            return alike[0] if alike else name
        function = self.lifted[name.name]
        count = len(given)
        sizes: Bound = {}
        try:
            match_types(function.func_type.params[:count], [a.type for a in given], sizes)
        except Invalid:
            return name
        if any(s is not d for s, d in sizes.items()):
            function = with_sizes(function, sizes)
        of, pairs = function.func_type, list(zip(function.params, given, strict=False))
        if any(p.device != a.device or not same_type(p.type, a.type) for p, a in pairs) or pairs and of.type_params:
            return name  # what its border would compare, or where it is, would be lost
        if any(isinstance(n, OnDevice) for n in post_order(function)):
            return name
        kind = FuncType(of.params[count:], of.result, type_params=of.type_params, pure=of.pure)
        inner = replace(function, type=kind, params=function.params[count:])
        stands_for: dict[Var, Expr] = dict(pairs)
        var = Var(kind, name.name)
        self.stands[var] = (name.name, tuple(given))
        return Let(kind, var, fresh_copy(inner, stands_for), var)

    def _taken(self, name: str, function: Function) -> int:
        params = function.params
        calls = [n for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, GlobalVar)]
        own = [c.args for c in calls if isinstance(c.op, GlobalVar) and c.op.name == name]
        most = next((i for i, p in enumerate(params) if any(args[i] is not p for args in own)), len(params))
        fitting = [k for k in range(most + 1) if tuple(p.name for p in params[k:]) in self.names]
        return max(fitting, default=most)


def local_names(functions: Mapping[str, Function]) -> set[tuple[str, ...]]:
    """The names of the parameters of the functions inside of others."""
    nodes = (n for f in functions.values() for n in post_order(f.body))
    return {tuple(p.name for p in n.params) for n in nodes if isinstance(n, Function)}
