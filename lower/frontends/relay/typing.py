"""Types of a Relay text, holes filled (specs/lower.md, "Relay").

A size `?` is a symbol of its own wherever it stands. In an annotation it says nothing, and the value's size stays; a
number that the value is not shown to have is checked by the run (rule M4).
"""

from __future__ import annotations

from assay.lower.frontends.places import Places
from assay.lower.frontends.relay.infer import TypeInference
from assay.lower.frontends.relay.reader import Hole
from assay.lower.frontends.relay.syntax import Binder, Fn, RelayNode, RelayProgram
from assay.semantics import graph, types
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr
from assay.semantics.graph.matching import compatible
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.walk import post_order, rewrite


class Typing:
    """What the text says of types, and what was found for the rest."""

    def __init__(self, places: Places, program: RelayProgram, inference: TypeInference) -> None:
        self.places = places
        self.unknown = program.unknown
        self.inference = inference
        self.sizes: set[Symbol] = set()
        """Symbols of names that are bound."""

    def parameter(self, binder: Binder) -> types.Type:
        """The type of a parameter, as the text says it or as its uses show."""
        if binder.type is not None and not has_holes(binder.type):
            return binder.type
        found = self.inference.known(self.inference.binder(binder))
        if has_holes(found):
            message = (
                f"the type of %{binder.name} is not told: write it, such as %{binder.name}: Tensor[(2, 3), float32]"
            )
            raise self.places.failure(Invalid, binder.start, binder.end, message, "relay.C13")
        return self.loosened(found, binder.name)

    def result(self, fn: Fn) -> types.Type:
        """The declared result of a function, or the one that its uses and its body show."""
        if fn.result is not None and not has_holes(fn.result):
            return fn.result
        body = self.inference.types.get(id(fn.body))
        found = None if body is None else self.inference.known(body)
        if found is None or has_holes(found):
            message = "the result of a function that calls itself is not told: write it after ->"
            raise self.places.failure(Invalid, fn.start, fn.end, message, "relay.C13")
        return self.loosened(found, "r")

    def type_args(self, node: RelayNode) -> tuple[types.Type, ...] | None:
        """What the type parameters stand for at a use; None where it is not known."""
        found = tuple(map(self.inference.known, self.inference.used_as.get(id(node), ())))
        if not found or any(map(has_holes, found)):
            return None
        for t in found:
            if any(s not in self.sizes for s in types.symbols(t)):
                message = f"a data type or a type parameter that stands for {t}, whose size only a run can tell"
                raise Unsupported(message, label="relay.C7")
        return found

    def loosened(self, of: types.Type, name: str) -> types.Type:
        """A type that was found, with fresh symbols for sizes in which its uses differ, or that have no name."""

        def leaf(t: types.Type) -> types.Type:
            if not isinstance(t, types.TensorType) or self.settled(t):
                return t
            mixed = self.mixed(t)
            dims = (d if self.bound(d) and i not in mixed else Symbol(name) for i, d in enumerate(t.shape))
            return types.TensorType(tuple(dims), t.dtype)

        for t in post_order(of):
            if isinstance(t, (types.DataType, types.RefType)) and not all(map(self.settled, post_order(t))):
                raise Unsupported(f"{t}: a size inside it that only a run can tell", label="relay.C7")
        root: types.Type = of
        return rewrite(root, leaf)

    def settled(self, of: types.Type) -> bool:
        """Whether the sizes of a tensor are those of names that are bound, and one for all its uses."""
        return not isinstance(of, types.TensorType) or (not self.mixed(of) and all(map(self.bound, of.shape)))

    def mixed(self, of: types.Type) -> set[int]:
        """The axes of a tensor type at which inference met different sizes."""
        return self.inference.mixed.get(id(of), (of, set()))[1]

    def bound(self, d: Dim) -> bool:
        """Whether all symbols of a size have a value at this place."""
        return isinstance(d, int) or all(s in self.sizes for s in variables(d))

    def annotated(self, value: Expr, binder: Binder) -> Expr:
        """`value`, as its annotation says: shown, or checked by the run."""
        of = binder.type
        if of is None or isinstance(of, Hole) or of is value.type:
            return value
        wanted = run_task(self._met(of, value.type))
        if types.same_type(wanted, value.type):
            return value
        if not isinstance(wanted, (types.TensorType, types.TupleType)) or not compatible(wanted, value.type):
            message = f"%{binder.name} is to be {of}, but its value is {value.type}"
            raise self.places.failure(Invalid, binder.start, binder.end, message, "let.C1")
        return graph.match_cast(value, wanted, span=self.places.span(binder.start))

    def _met(self, want: types.Type, given: types.Type) -> Task[types.Type]:
        """`want`, with what it leaves open taken from `given`."""
        match want, given:
            case Hole(), _:
                return given
            case types.TensorType(), types.TensorType() if want.ndim == given.ndim:
                dims = tuple(self._dim(a, b) for a, b in zip(want.shape, given.shape, strict=True))
                return types.TensorType(dims, want.dtype)
            case types.TupleType(), types.TupleType() if len(want.fields) == len(given.fields):
                fields: list[types.Type] = []
                for a, b in zip(want.fields, given.fields, strict=True):
                    fields.append((yield self._met(a, b)))
                return types.TupleType(tuple(fields))
            case _ if has_holes(want) or compatible(want, given):
                return given
            case _:
                return want

    def _dim(self, want: Dim, given: Dim) -> Dim:
        """The size of an annotation, unless it says nothing or nothing new."""
        return given if want in self.unknown or provably_equal(want, given) else want


def has_holes(of: types.Type) -> bool:
    """Whether a part of the type is still unknown."""
    return any(isinstance(v, Hole) for v in types.free_type_vars(of))
