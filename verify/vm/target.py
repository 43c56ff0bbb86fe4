"""What a function of bytecode does, read for the comparison with its graph function (specs/verify.md, "vm").

A register holds the number of a value, a storage, or a tensor that lies in one and that something has filled or has
not. That a value is still in its bytes when it is read is shown apart (`assay.verify.vm.storage`). Both ways of a
choice are followed up to where they meet; what each has left in a register is a choice then.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics import bytecode as vm
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, provably_equal, show, simplify
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, TensorType, TupleType
from assay.verify.vm.alike import are_alike
from assay.verify.vm.flow import Flow
from assay.verify.vm.functions import Closures
from assay.verify.vm.kernel_calls import check_call, check_host, check_kernel_places
from assay.verify.vm.memory import Held, Outcome, State, Storage, Tensor
from assay.verify.vm.rooms import Room, bytes_of, is_natural
from assay.verify.vm.said import Said
from assay.verify.vm.steps import applied, measured, ran
from assay.verify.vm.terms import ValueTerms, in_sizes
from assay.verify.vm.wrong import Undecided, Unsound, at, register


class Runner:
    """Follows one function of bytecode."""

    def __init__(
        self, flow: Flow, module: Module, terms: ValueTerms, closures: Closures, host: VirtualDevice, said: Said
    ) -> None:
        self.flow, self.function, self.host, self.said = flow, flow.function, host, said
        self.module, self.terms, self.closures = module, terms, closures
        self.places: dict[int, int] = {}
        """For the number of a chain of events the instruction of its last one."""
        self.ran: dict[int, set[int]] = {}
        """The same, with all instructions that it is the last of."""
        self.odd: list[str] = []
        """What it says otherwise than the source, where it does the same."""
        self.followed: dict[tuple[object, ...], State | Outcome] = {}
        self.storages: set[int] = set()
        self.needed: set[int] = set()
        """The storages that are no larger than a tensor in them needs."""
        self.rooms: list[Room] = []
        """What is to be shown of the places of tensors."""

    def run(self, state: State) -> Outcome:
        """What the function gives and does in a run that begins so."""
        found = run_task(self.follow(0, self.flow.exit, state))
        assert isinstance(found, Outcome)
        return found

    @property
    def spare(self) -> list[str]:
        """The storages that are larger than anything that is laid into them, in words."""
        return [
            f"{at(self.function, i)} allocates more than any tensor takes that is laid into it"
            for i in sorted(self.storages - self.needed)
        ]

    def follow(self, index: int, stop: int, state: State) -> Task[State | Outcome]:
        """Go from an instruction to where the ways meet, or to the end."""
        while index != stop:
            here, instruction, before = index, self.function.body[index], state.way.events
            try:
                match instruction:
                    case vm.JumpUnless() | vm.JumpUnlessMade():
                        found: int | Outcome = yield self.choice(index, instruction, state)
                        if isinstance(found, Outcome):
                            return found
                        index = found
                    case vm.Jump():
                        index = instruction.target
                    case vm.Return():
                        return Outcome(self.value(instruction.of, state), state.way)
                    case vm.ReturnCall() | vm.ReturnCallClosure():
                        return Outcome(self.terms.whole(self.call(instruction, state)), state.way)
                    case vm.Fail():
                        self.terms.event(state.way, "trap", instruction.kind, instruction.label, instruction.message)
                        return Outcome(-1, state.way)
                    case _:
                        self.step(index, instruction, state)
                        index += 1
            except Unsound as wrong:
                raise wrong.inside(self.function, here, state.way.events) from None
            finally:
                if state.way.events != before:
                    self.places.setdefault(state.way.events, here)
                    self.ran.setdefault(state.way.events, set()).add(here)
        return state

    # --- one instruction -----------------------------------------------------------------------------------------

    def step(self, index: int, of: vm.Instruction, state: State) -> None:
        """What an instruction does that goes on behind itself."""
        match of:
            case vm.Kill():
                for r in of.registers:
                    state.holds.pop(r, None)
            case vm.Move():
                state.holds[of.to] = self.held(of.of, state)
            case vm.AllocateStorage() | vm.AllocateTensor() | vm.InvokeKernel():
                self.memory(index, of, state)
            case vm.MatchType():
                self.match_type(index, of, state)
            case vm.WriteReference() | vm.RequireTrue() | vm.PrintRegisters():
                self.action(of, state)
            case _:
                to = vm.written(of)
                if to is None:
                    raise Undecided(f"{type(of).__name__} is not followed")
                state.holds[to] = self.terms.whole(self.made(of, state))

    def held(self, number: vm.Register, state: State) -> Held:
        """What a register holds."""
        if number not in state.holds:
            raise Unsound(f"reads {register(self.function, number)}, which holds nothing")
        return state.holds[number]

    def value(self, number: vm.Register, state: State) -> int:
        """The number of the value in a register."""
        held = self.held(number, state)
        if isinstance(held, Tensor):
            if held not in state.filled:
                raise Unsound(f"reads {register(self.function, number)}, a tensor that nothing has filled")
            return state.filled[held]
        if isinstance(held, Storage):
            raise Unsound(f"reads {register(self.function, number)} as a value, and it is a storage")
        return held

    def values(self, numbers: Sequence[vm.Register], state: State) -> list[int]:
        """The numbers of the values in some registers."""
        return [self.value(r, state) for r in numbers]

    def dim(self, dim: Dim, state: State) -> Dim:
        """A size in those of values."""
        found = in_sizes(dim, state.sizes)
        if found is None:
            raise Unsound(f"uses the size {show(dim)}, which has no value there")
        return found

    def tensor(self, of: TensorType, state: State) -> TensorType:
        """The type of a tensor in sizes of values."""
        return TensorType(tuple(self.dim(d, state) for d in of.shape), of.dtype)

    # --- values --------------------------------------------------------------------------------------------------

    def made(self, of: vm.Instruction, state: State) -> int:
        """The number of the value that an instruction makes."""
        terms, way = self.terms, state.way
        match of:
            case vm.LoadConstant():
                if of.name not in self.module.constants:
                    raise Unsound(f"loads the constant {of.name}, which is not in the module's table")
                return terms.named_constant(self.module, of.name)
            case vm.LoadExtern():
                number = terms.number("extern", of.name)
                known = terms.type_of(number)  # the source names it, so a run has been given it
                if not are_alike(of.type, known):
                    raise Unsound(f"says that {of.name} is a {of.type}, and the source that it is a {known}")
                return number
            case vm.LoadConstructor():
                return terms.number("constructor", of.data, of.constructor)
            case vm.MakeTuple():
                return terms.tuple_of(self.values(of.fields, state))
            case vm.GetField():
                return self.field(of, state)
            case vm.MakeData():
                return terms.number("data", of.type.name, of.constructor, tuple(self.values(of.fields, state)))
            case vm.MakeShape():
                dims = [self.dim(d, state) for d in of.dims]
                if of.any_sign:
                    raise Undecided("a shape of sizes of any sign")
                terms.naturals(way, dims)
                return terms.shape(dims, way)
            case vm.ViewTensor():
                shape = self.tensor(of.type, state)
                terms.naturals(way, shape.shape)
                return terms.view(self.value(of.of, state), shape, way)
            case vm.ShapeOfTensor():
                held = terms.type_of(self.value(of.of, state))
                if not isinstance(held, TensorType):
                    raise Unsound(f"asks {register(self.function, of.of)} for its shape, which is {held}")
                return terms.shape(held.shape, way)
            case vm.ReadShape():
                vector = self.value(of.of, state)
                held = terms.type_of(vector)
                count = way.facts.rewritten(held.shape[0]) if isinstance(held, TensorType) and held.ndim == 1 else -1
                if of.any_sign or not isinstance(count, int) or count < 0:
                    raise Undecided(f"{register(self.function, of.of)} is no vector of so many sizes")
                check_host(terms, vector, self.host, register(self.function, of.of))
                return measured(terms, way, vector, count)
            case vm.MakeClosure():
                sizes = [self.dim(d, state) for d in of.sizes]
                return self.closures.made(of, self.values(of.captured, state), sizes, way)
            case vm.MakeReference():
                terms.event(way, "cell", self.value(of.of, state))
                return terms.result(way)
            case vm.ReadReference():
                terms.event(way, "read", self.value(of.of, state))
                return terms.result(way)
            case vm.InvokeFunction() | vm.InvokeClosure() | vm.InvokeExtern():
                return self.call(of, state)
            case _:
                raise Undecided(f"{type(of).__name__} is not followed")

    def field(self, of: vm.GetField, state: State) -> int:
        """The number of a field of a tuple, or of a data value of which is known what made it."""
        value = self.value(of.of, state)
        held, key = self.terms.type_of(value), self.terms.keys[value]
        if isinstance(held, TupleType):
            if not 0 <= of.index < len(held.fields):
                raise Unsound(f"takes field {of.index} of {register(self.function, of.of)}, a {held}")
            return self.terms.part(value, of.index)
        constructor = state.made.get(value) or (key[2] if key[0] == "data" else None)
        if not isinstance(held, DataType) or constructor is None:
            raise Unsound(f"takes a field of {register(self.function, of.of)}, of which it is not known what made it")
        if not 0 <= of.index < len(self.module.data(held.name).constructors[constructor]):
            raise Unsound(f"takes field {of.index} of what {constructor} makes")
        return self.terms.made_of(value, constructor, of.index)

    def call(self, of: vm.Instruction, state: State) -> int:
        """The number of what a call gives."""
        terms = self.terms
        match of:
            case vm.InvokeFunction() | vm.ReturnCall():
                callee, acts = terms.number("global", of.function), None
            case vm.InvokeExtern():
                callee, acts = terms.number("extern", of.name), of.acts
            case vm.InvokeClosure() | vm.ReturnCallClosure():
                callee, acts = self.value(of.closure, state), of.acts
            case _:
                raise Undecided(f"{type(of).__name__} is no call")
        seen = terms.type_as_seen(of.type, state.sizes, state.way)
        return applied(terms, state.way, callee, self.values(of.arguments, state), acts, seen)

    def condition(self, number: vm.Register, state: State) -> int:
        """The number of a condition, which the host reads."""
        value = self.value(number, state)
        held = self.terms.type_of(value)
        if not isinstance(held, TensorType) or held.dtype is not BOOL or held.ndim:
            raise Unsound(f"takes {register(self.function, number)}, a {held}, for a condition")
        check_host(self.terms, value, self.host, register(self.function, number))
        return self.terms.number("holds", value)

    # --- actions and sizes -----------------------------------------------------------------------------------------

    def action(self, of: vm.Instruction, state: State) -> None:
        """What acts, and gives nothing."""
        terms, way = self.terms, state.way
        match of:
            case vm.WriteReference():
                terms.event(way, "write", self.value(of.of, state), self.value(of.value, state))
            case vm.PrintRegisters():
                terms.event(way, "print", of.format, tuple(self.values(of.shown, state)))
            case vm.RequireTrue():
                condition = self.condition(of.condition, state)
                terms.event(way, "assert", condition, of.format, tuple(self.values(of.shown, state)))

    def match_type(self, index: int, of: vm.MatchType, state: State) -> None:
        """Sizes get values, or have to agree."""
        sizes = {v: d for v, d in state.sizes.items() if v not in of.binds}
        value = self.value(of.of, state)
        pairs = self.terms.meet(of.type, value, sizes, "")
        if odd_look := self.said.odd_look(self.terms, of, value, self.function):
            self.odd.append(f"{at(self.function, index)} {odd_look}")
        if odd := [v.name for v in sizes if v not in state.sizes and v not in of.binds]:
            raise Unsound(f"uses the size {odd[0]}, which has no value there")
        if len(set(of.binds)) < len(of.binds):
            raise Unsound("gives a size a value twice")
        if odd := [v.name for v in of.binds if v not in sizes]:
            raise Unsound(f"gives no value to {odd[0]}: the type does not say it")
        self.terms.require(state.way, pairs, of.label)
        state.sizes = sizes

    # --- memory ----------------------------------------------------------------------------------------------------

    def memory(self, index: int, of: vm.Instruction, state: State) -> None:
        """Storages, tensors in them, and what fills them."""
        match of:
            case vm.AllocateStorage():
                nbytes = self.dim(of.nbytes, state)
                if not self.follows(index, of, state):
                    self.terms.naturals(state.way, [nbytes])
                if of.alignment < 1 or of.alignment & (of.alignment - 1):
                    raise Unsound(f"aligns a storage to {of.alignment} bytes, which is no power of two")
                self.storages.add(index)
                state.holds[of.to] = Storage(index, of.device, nbytes, of.alignment)
            case vm.AllocateTensor():
                state.holds[of.to] = self.laid(index, of, state)
            case vm.InvokeKernel():
                self.kernel(of, state)

    def follows(self, index: int, of: vm.AllocateStorage, state: State) -> bool:
        """Whether the next instruction lays a tensor into a storage that is just as large: then the run ends there if
        a size is below 0, as it does if the product of all is."""
        behind = self.function.body[index + 1]
        if not isinstance(behind, vm.AllocateTensor) or behind.storage != of.to:
            return False
        return provably_equal(bytes_of(self.tensor(behind.type, state)), self.dim(of.nbytes, state))

    def laid(self, index: int, of: vm.AllocateTensor, state: State) -> Tensor:
        """A tensor in a storage, in which it has to have room."""
        storage = self.held(of.storage, state)
        if not isinstance(storage, Storage):
            raise Unsound(f"{register(self.function, of.storage)} is no storage")
        made = self.tensor(of.type, state)
        self.terms.naturals(state.way, made.shape)
        begin, width = self.dim(of.offset, state), of.type.dtype.itemsize
        if storage.alignment % width or not provably_equal(begin % width, 0):
            raise Unsound(f"lays elements of {width} bytes at {show(of.offset)}, aligned to {storage.alignment}")
        count = bytes_of(made)
        spare = simplify(storage.alignment + count - storage.nbytes)
        if is_natural(spare) or is_natural(state.way.facts.rewritten(spare)):
            self.needed.add(storage.made)
        end = simplify(begin + count)
        self.rooms.append(Room(self.function, index, begin, end, storage.nbytes, state.way.facts, state.way.natural))
        return Tensor(index, made, storage.device)

    def empty(self, number: vm.Register, state: State) -> Tensor:
        """The tensor in a register, which nothing has filled."""
        held = self.held(number, state)
        if not isinstance(held, Tensor):
            raise Unsound(
                f"fills {register(self.function, number)}, which is no tensor that was laid into a storage here"
            )
        if held in state.filled:
            raise Unsound(f"fills {register(self.function, number)} a second time: others may hold what is in it")
        return held

    def kernel(self, of: vm.InvokeKernel, state: State) -> None:
        """A tensor function runs."""
        kernel = self.module.kernel(of.kernel)
        reads = self.values(of.reads, state)
        made = [self.empty(r, state) for r in (*of.writes, *of.scratch)]
        if len({id(w) for w in made}) < len(made):
            raise Unsound("fills one tensor with two results")
        writes, scratch = made[: len(of.writes)], made[len(of.writes) :]
        scalars, hidden = ([self.dim(d, state) for d in dims] for dims in (of.scalars, of.hidden))
        check_call(
            self.terms, state.way, kernel, reads, [w.type for w in writes], scalars, hidden, [s.type for s in scratch]
        )
        check_kernel_places(self.terms, kernel, of, reads, made)
        filled = ran(self.terms, state.way, kernel, reads, scalars, [w.type for w in writes], of.device)
        state.filled.update(zip(writes, filled, strict=True))

    # --- choices ---------------------------------------------------------------------------------------------------

    def choice(self, index: int, of: vm.JumpUnless | vm.JumpUnlessMade, state: State) -> Task[int | Outcome]:
        """Both ways of a choice, up to where they meet: the instruction there, or what they give at the end."""
        terms, flow = self.terms, self.flow
        made: tuple[int, str] | None = None
        if isinstance(of, vm.JumpUnless):
            condition = self.condition(of.condition, state)
        else:
            made = self.value(of.of, state), of.constructor
            held = terms.type_of(made[0])
            if not isinstance(held, DataType) or of.constructor not in self.module.data(held.name).constructors:
                raise Unsound(f"asks whether {of.constructor} has made {register(self.function, of.of)}, a {held}")
            condition = terms.number("made", *made)
        ways = (index + 1, of.target)
        alive = [flow.returns(w) for w in ways]
        if any(alive) and not all(alive):
            failing = state.copy()
            failing.way.events = terms.number("begin")
            ended: State | Outcome = yield self.follow(ways[alive.index(False)], flow.exit, failing)
            assert isinstance(ended, Outcome)
            terms.ends(state.way, condition, not alive[0], ended.way.events)
            state.made = state.made | dict([made]) if alive[0] and made else {}
            return ways[alive.index(True)]
        stop = flow.meets.get(index, flow.exit)
        found: list[State | Outcome] = []
        for start in ways:
            key = (start, stop, *self.key(start, state))
            if key not in self.followed:
                along = state.copy()
                along.made = state.made | dict([made]) if start == index + 1 and made else {}
                self.followed[key] = yield self.follow(start, stop, along)
            found.append(self.followed[key])
        first, second = found
        way = terms.branch(state.way, condition, first.way, second.way)
        if isinstance(first, Outcome) and isinstance(second, Outcome):
            dead = first.result < 0
            return Outcome(
                first.result
                if dead
                else terms.choice(condition, (first.result, first.way), (second.result, second.way)),
                way,
            )
        assert isinstance(first, State) and isinstance(second, State)
        self.join(condition, stop, state, first, second)
        state.way = way
        return stop

    def key(self, start: int, state: State) -> tuple[object, ...]:
        """What is there where an instruction begins, as far as it may be read: the ways from a pattern that does not
        fit to the next are many, and one is as good as another."""
        live = self.flow.live[start]
        holds = tuple((r, h) for r, h in sorted(state.holds.items()) if r in live)
        filled = tuple(state.filled.get(h) for _, h in holds if isinstance(h, Tensor))
        sizes = tuple((v, self.terms.text_of(d)) for v, d in state.sizes.items() if v in live)
        return holds, filled, sizes, state.way.events, state.way.natural

    def join(self, condition: int, stop: int, into: State, first: State, second: State) -> None:
        """What is there where two ways meet, as far as it may be read."""
        terms, live = self.terms, self.flow.live[stop]
        into.filled = {
            t: terms.choice(condition, (n, first.way), (second.filled[t], second.way))
            for t, n in first.filled.items()
            if t in second.filled
        }
        into.holds = {}
        for r in first.holds.keys() & second.holds.keys() & live:
            one, other = first.holds[r], second.holds[r]
            if one is other or one == other:
                into.holds[r] = one
            elif not isinstance(one, Storage) and not isinstance(other, Storage):
                into.holds[r] = terms.choice(
                    condition, (self.value(r, first), first.way), (self.value(r, second), second.way)
                )
            else:
                raise Unsound(f"{register(self.function, r)} holds one storage or another where two ways meet")
        into.sizes = {
            v: terms.chosen(condition, (d, first.way), (second.sizes[v], second.way))
            for v, d in first.sizes.items()
            if v in second.sizes and v in live
        }
