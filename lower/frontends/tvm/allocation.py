"""What TVM's lowering calls to make and to drop memory (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.lower.frontends.tvm.function_state import FunctionState
from assay.lower.frontends.tvm.memory import Cell, Heap, Held, Storage, Value, cells_of, held
from assay.lower.frontends.tvm.objects import Object, handle, plain_value, prim_dtype, type_key
from assay.semantics import graph
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Unsupported
from assay.semantics.ops.sizes import product_fits
from assay.semantics.scalar import Const, Dim, Expr as Scalar, Load, cast, provably_equal, simplify
from assay.semantics.tensor import Alias, Block, Buffer, LetStmt, PrimFunc, Seq, Store, View, program_order
from assay.semantics.types import ShapeType, TensorType
from assay.semantics.walk import rewrite

KNOWN = frozenset({
    "relax.builtin.alloc_tensor", "relax.memory.alloc_storage", "relax.memory.alloc_tensor", "relax.memory.kill_tensor",
    "relax.memory.kill_storage", "relax.vm.alloc_storage", "relax.vm.alloc_tensor", "relax.vm.kill_object",
    "relax.null_value", "vm.builtin.reshape", "vm.builtin.copy", "vm.builtin.shape_of", "vm.builtin.alloc_shape_heap",
    "vm.builtin.match_shape", "vm.builtin.make_shape",
    *(f"vm.builtin.check_{what}_info" for what in ("tensor", "shape", "tuple", "func")),
})  # fmt: skip
"""The checks that values have the types which the parameters declare do nothing: entry checks them anyway."""


class Allocation:
    """Reads the calls of one graph function that make and drop memory, and those that keep sizes."""

    def __init__(self, reader: FunctionState) -> None:
        self.reader = reader

    def knows(self, name: str) -> bool:
        """Whether an extern function of this name makes or drops memory, keeps sizes or checks."""
        return name in KNOWN

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`tvm.C16`) for a call that is not handled."""
        return Unsupported(f"{what} is not handled", where=self.reader.place(), label="tvm.C16")

    def call(self, name: str, args: Sequence[Object], values: Sequence[Value]) -> Value:
        """The value of a call of one of `KNOWN`; `values` are those of its operands that are values."""
        match name:
            case "relax.builtin.alloc_tensor":
                return self.cell(self.shape(values[0]), self.dtype(args), self.reader.owners.new(self.reader.at))
            case "relax.memory.alloc_storage" | "relax.vm.alloc_storage":
                (nbytes,) = self.shape(values[0])
                return self.reader.owners.new(self.reader.at, nbytes)
            case "relax.memory.alloc_tensor" | "relax.vm.alloc_tensor":
                return self.planned(args, values)
            case "relax.memory.kill_tensor" | "relax.memory.kill_storage" | "relax.vm.kill_object":
                self.reader.killed.add(handle(args[0]))
            case "vm.builtin.reshape":
                x = self.reader.use(values[0], view=True)
                return held(graph.call("reshape", x, shape=self.shape(values[1]), span=self.reader.span()), values[:1])
            case "vm.builtin.copy":
                return Held(self.reader.use(values[0]))
            case "vm.builtin.shape_of":
                return Held(graph.shape_of(self.reader.use(values[0]), self.reader.span()))
            case "vm.builtin.alloc_shape_heap":
                return Heap()
            case "vm.builtin.match_shape":
                self.match_shape(args, values)
            case "vm.builtin.make_shape":
                return self.make_shape(args, values)
            case _:
                pass
        return Held(graph.tuple_of())

    def shape(self, value: Value) -> tuple[Dim, ...]:
        """The dims of a shape that is handed over."""
        of = self.reader.use(value).type
        if not isinstance(of, ShapeType):
            raise self.reader.invalid(f"a shape expected, this is {of}", "tvm.P1")
        return of.dims

    def dtype(self, args: Sequence[Object]) -> str:
        """The dtype among the arguments of an allocation, by name; Unsupported unless there is one."""
        found = [a for a in args if type_key(a) == "ir.GenericConst" and not hasattr(a.value, "numpy")]
        if len(found) != 1:
            raise self.unsupported("an allocation without a dtype")
        return str(found[0].value)

    def cell(self, shape: tuple[Dim, ...], of: str, storage: Storage) -> Cell:
        """A tensor that begins to live in a storage at this place."""
        return Cell(self.reader.at, TensorType(shape, prim_dtype(of, self.reader.place())), storage, self.reader.depth)

    def planned(self, args: Sequence[Object], values: Sequence[Value]) -> Cell:
        """A tensor in a storage. TVM's planner puts each at the start; it must fit."""
        storage, shape = values[0], self.shape(values[1])
        if not isinstance(storage, Storage):
            raise self.reader.invalid("a tensor is allocated in what is no storage", "tvm.P1")
        if plain_value(args[1]) != 0:
            raise self.unsupported(f"a tensor at an offset within {storage.name}")
        cell = self.cell(shape, self.dtype(args), storage)
        if storage.nbytes is not None:
            enough = product_fits([*shape, cell.type.dtype.itemsize], storage.nbytes, self.reader.limits)
            if enough is False:
                raise self.reader.invalid(
                    f"{cell.name}, {cell.type}, does not fit {storage.name} of {storage.nbytes} bytes", "tvm.P6"
                )
            if enough is None:
                raise self.unsupported(f"{cell.name}, {cell.type}, which cannot be shown to fit {storage.name},")
        return cell

    # --- sizes that a lowered function keeps -----------------------------------------------------------------------

    def heap(self, value: Value) -> Heap:
        """The shape heap that a value is; a new one for the null value that a function of known sizes hands over."""
        return value if isinstance(value, Heap) else Heap()

    def match_shape(self, args: Sequence[Object], values: Sequence[Value]) -> None:
        """Keep sizes of a tensor or shape. Where one must equal another, that is shown, or refused."""
        expr = self.reader.use(values[0])
        heap = self.heap(values[1])
        of = expr.type
        dims = of.shape if isinstance(of, TensorType) else of.dims if isinstance(of, ShapeType) else ()
        rest = [plain_value(a) for a in args[2:]]
        rank, codes = int(rest[0]), rest[1 : 1 + 2 * int(rest[0])]
        if len(dims) != rank:
            raise self.unsupported(f"match_shape of {expr.type}")
        for d, code, number in zip(dims, codes[::2], codes[1::2], strict=True):
            match int(code):
                case 0:
                    known: Dim = int(number)
                case 1:
                    heap.sizes[int(number)] = d
                    continue
                case 2:
                    continue
                case _:
                    known = self.slot(heap, int(number))
            if not provably_equal(known, d):
                raise self.unsupported(f"match_shape of {expr.type}, a dim of which is not known to be {known},")

    def make_shape(self, args: Sequence[Object], values: Sequence[Value]) -> Held:
        """Read a call that makes a shape, out of numbers and of slots of the shape heap."""
        heap = self.heap(values[0])
        rest = [plain_value(a) for a in args[1:]]
        pairs = zip(rest[1::2], rest[2::2], strict=True)
        dims = [int(n) if int(code) == 0 else self.slot(heap, int(n)) for code, n in pairs]
        return Held(graph.shape(*dims, span=self.reader.span()))

    def slot(self, heap: Heap, number: int) -> Dim:
        """The size in a slot of the shape heap; Invalid (`tvm.P3`) if none was stored there."""
        if number not in heap.sizes:
            raise self.reader.invalid(f"the size in slot {number} is read before it is known", "tvm.P3")
        return heap.sizes[number]

    def compute(self, func: PrimFunc, heap: Heap) -> None:
        """Run a function that computes sizes from sizes: stores at known places, one after another."""
        (root,) = func.params
        place: dict[Buffer, int] = {root: 0}
        """Where each view of the sizes begins."""
        lets: dict[Scalar, Scalar] = {}

        def known(node: Scalar) -> Scalar:
            if isinstance(node, Load) and node.buffer in place and isinstance(node.indices[0], Const):
                return cast(self.slot(heap, place[node.buffer] + int(node.indices[0].value)), root.dtype)
            return lets.get(node, node)

        for s in program_order(func.body):
            match s:
                case Store(indices=(Const() as at,)) if s.buffer in place:
                    value = simplify(cast(rewrite(s.value, known), INT64))
                    heap.sizes[place[s.buffer] + int(at.value)] = value
                case LetStmt():
                    lets[s.var] = rewrite(s.value, known)
                case Alias(view=View(offset=Const() as at)) if s.view.source in place and len(s.view.strides) == 1:
                    place[s.view.buffer] = place[s.view.source] + int(at.value)
                case Seq() | Block(iterators=(), predicate=None, init=None):
                    pass
                case _:
                    raise self.unsupported(f"{func.name}, which computes sizes by more than stores,")

    # --- overlap -------------------------------------------------------------------------------------------------

    def check_apart(self, name: str, read: Mapping[int, Value], written: Mapping[int, Cell]) -> None:
        """Invalid where a call reads and writes the same memory under two names."""
        for i, value in read.items():
            if written.get(i) is value:
                continue
            for cell, _ in cells_of(value):
                for out in written.values():
                    if out.storage is cell.storage:
                        raise self.reader.invalid(
                            f"{name} reads {cell.name} and writes {out.name}: both are in {out.storage.name}", "tvm.P7"
                        )
        targets = [c.storage for c in written.values()]
        if len(set(map(id, targets))) != len(targets):
            raise self.reader.invalid(f"{name} writes two results to the same memory", "tvm.P7")
