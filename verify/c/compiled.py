"""Generated C compiled and run (specs/verify.md, "c").

`compile_c` builds a shared library and runs it in this process, on guarded memory: the workspace and the outputs are
full of garbage before, zones around every buffer are compared afterwards, and so are the inputs.

    compiled = compile_c(emit(module, "lenet"), reproducible=True)
    outputs = compiled.run({"data": x})
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.lower.c.layout import Argument, by_pointer
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash, EnvironmentFailure, Trap
from assay.semantics.files import on_disk
from assay.semantics.instance import replaced
from assay.semantics.module import Slot
from assay.semantics.scalar import Dim, Var
from assay.semantics.types import TensorType
from assay.verify import children
from assay.verify.c import tools
from assay.verify.c.calls import caller, leading_numbers
from assay.verify.c.tools import Array

GUARD = 4096
"""Bytes on each side of a buffer that nobody may touch."""

Look = Callable[[Slot], Array]
Told = Callable[[int, list[Array]], None]
_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))


class SeenEnough(Exception):
    """What a watcher of a run raises when it has seen enough."""


def compile_c(
    source: CSource,
    *,
    reproducible: bool,
    trace: bool = False,
    directory: Path | None = None,
    flags: Sequence[str] | None = None,
    externs: str = "",
    beside: str = "",
) -> Compiled:
    """`source` as a library in this process, in `directory` or in a temporary one that lives as long as the result.

    With `reproducible` the transcendental functions are those of the interpreters; with `trace` a run can be watched
    step by step. `externs` is C that defines the functions which `source` declares as externs; the header is included.
    `beside` is C that stands behind the source in the same file, for what is not visible from outside. Without `flags`
    what users compile is compiled as they do, and what is for us alone in half the time.
    Invalid where it is missing or is not accepted; Crash where generated C is not accepted; EnvironmentFailure where
    there is no room for it, or no compiler that works.
    """
    return begin_c(
        source, reproducible=reproducible, trace=trace, directory=directory, flags=flags, externs=externs,
        beside=beside,
    ).result()  # fmt: skip


@on_disk()
def begin_c(
    source: CSource,
    *,
    reproducible: bool,
    trace: bool = False,
    directory: Path | None = None,
    flags: Sequence[str] | None = None,
    externs: str = "",
    beside: str = "",
) -> BegunC:
    """Begin what `compile_c` does: the compiler runs beside this process, which may do something else meanwhile."""
    place = children.new_folder() if directory is None else directory
    chosen = flags or (tools.OURS if reproducible or trace else tools.FLAGS)
    compiled = Compiled(source, place / f"{source.name}.so")
    try:
        source.write(place)
        (place / "call.c").write_text(caller(source), encoding="ascii")
        macros = tools.defines(source, reproducible)
        macros += [f"-D{source.macro}_TRACE", f"-D{source.macro}_PRINT"] if trace else []
        main = f"{source.name}.c"
        if beside:
            (place / "beside.c").write_text(f'#include "{main}"\n{beside}', encoding="ascii")
            main = "beside.c"
        weights = [f"{source.name}_weights.c"] if source.weights is not None else []
        words = [
            *chosen,
            "-fPIC",
            "-shared",
            *macros,
            main,
            "call.c",
            *weights,
            *tools.add_externs(source, externs, chosen, place),
        ]
        begun = tools.begin_compiler(words, compiled.library, place)
    except BaseException:
        if directory is None:
            children.remove_folder(place)
        raise
    return BegunC(compiled, begun, place if directory is None else None)


@dataclass(eq=False)
class BegunC:
    """A model that is being compiled. `folder` is a temporary one, which goes with the result."""

    compiled: Compiled
    compiler: tools.BegunCompiler
    folder: Path | None
    done: bool = False
    failed: BaseException | None = None
    """What ended it: a Crash where the compiler does not take the text."""

    @on_disk()
    def result(self) -> Compiled:
        """The library, when it is made; what is raised is what `compile_c` raises."""
        if self.failed is not None:
            raise self.failed
        if not self.done:
            self.done = True
            try:
                self.compiler()
            except BaseException as wrong:
                self.failed = wrong
                self._remove()
                raise
            if self.folder is not None:
                weakref.finalize(self.compiled, children.remove_folder, self.folder)
        return self.compiled

    def abandon(self) -> None:
        """End it, where nobody has asked for the result."""
        if not self.done:
            self.done = True
            self.compiler.end()
            self._remove()

    def _remove(self) -> None:
        if self.folder is not None:
            children.remove_folder(self.folder)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model. `run` may be called from one thread at a time for each call's own memory."""

    source: CSource
    library: Path

    @cached_property
    def loaded(self) -> ctypes.CDLL:
        """The library in this process."""
        try:
            return ctypes.CDLL(str(self.library))
        except OSError as wrong:
            message = f"what the C compiler {tools.command()} has made cannot be loaded: {wrong}"
            raise EnvironmentFailure(message, label="compiled.C7") from None

    @cached_property
    def weights(self) -> Array | None:
        """The large constants, mapped from their file and checked by the generated code."""
        if self.source.weights is None:
            return None
        path = self.library.with_name(f"{self.source.name}.weights")
        data: Array = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        check = getattr(self.loaded, f"{self.source.name}_check_weights")
        check.restype = ctypes.c_int
        self._raise(check(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.size)))
        return data

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        fill: int = 0xFF,
        on_step: Callable[[int, Look], None] | None = None,
        on_print: Told | None = None,
    ) -> dict[str, Array]:
        """The outputs by slot name, on `inputs` by slot name; memory holds bytes `fill` (0xFF: NaN) before.

        `on_step` is called after each step that runs, with its number and a function that gives the bytes of a slot of
        a workspace or an output; the library must have been compiled with `trace`. `on_print` is called by each print,
        with the number of its step and copies of what it shows. What they raise ends the run.
        Invalid for inputs that do not fit; Trap where the code reports one or has written where it may not.
        """
        tools.check_names(self.source, inputs)
        sizes = self.source.values({n: np.shape(a) for n, a in inputs.items()}) if self.source.sizes else ()
        source = self.at(sizes)
        arrays = tools.check_inputs(source, inputs)
        weights = self.weights
        spaces = {
            w.name: _Guarded(f"the {w.name}", w.nbytes, w.alignment, fill)
            for w in source.workspaces
            if isinstance(w.nbytes, int)
        }
        given = {
            a.slot: _Guarded(f"input {a.slot!r}", a.nbytes, a.type.dtype.itemsize, fill)
            for a in by_pointer(source.inputs)
        }
        made = [
            _Guarded(f"output {a.slot!r}", a.nbytes, a.type.dtype.itemsize, fill) for a in by_pointer(source.outputs)
        ]
        for a, array in zip(source.inputs, arrays, strict=True):
            memory = spaces[a.workspace].bytes[a.offset :] if a.workspace else given[a.slot].bytes
            memory[: a.nbytes] = tools.raw(array)
        told = [_Guarded(f"the size {r.size}", INT64.itemsize, INT64.itemsize, fill) for r in source.returned]
        blocks = [*given.values(), *made, *told, *spaces.values()]
        numbers = np.array(leading_numbers(source, sizes), np.int64)
        addresses = [*(numbers.ctypes.data + 8 * i for i in range(len(numbers))), *(b.address for b in blocks)]
        outputs = {a.slot: b for a, b in zip(by_pointer(source.outputs), made, strict=True)}
        pools = {w.pool: spaces[w.name] for w in source.workspaces}

        def look(slot: Slot) -> Array:
            if not slot.is_pooled:
                return outputs[slot.name].bytes
            assert slot.offset is not None
            pool = pools[slot.pool or source.workspaces[0].pool]
            return pool.bytes[slot.offset : slot.offset + slot.nbytes]

        def result(a: Argument) -> Array:
            memory = spaces[a.workspace].bytes[a.offset :] if a.workspace else next(left).bytes
            a = replace(a, type=TensorType(tuple(replaced(d, found) for d in a.type.shape), a.type.dtype))
            return tools.output_array(a, memory[: a.type.nbytes].tobytes())

        with self._watched(None if on_step is None else lambda step: on_step(step, look), on_print):
            status = self._enter(addresses if weights is None else [*addresses, weights.ctypes.data])
        for block in blocks:
            block.check()
        for a, array in zip(source.inputs, arrays, strict=True):
            if a.slot in given and not np.array_equal(given[a.slot].bytes, tools.raw(array)):
                raise Trap("store to constant", f"input {a.slot!r} was written to", label="compiled.T2")
        self._raise(status)
        left = iter(made)
        found: dict[Var, Dim] = {
            r.symbol: int(b.bytes.view(np.int64)[0]) for r, b in zip(source.returned, told, strict=True)
        }
        return {a.slot: result(a) for a in source.outputs}

    def at(self, sizes: Sequence[int]) -> CSource:
        """The source at these sizes, its workspaces as large as the code says. Invalid (compiled.C2): it does not take
        them."""
        if not self.source.sizes:
            return self.source
        bytes_ = (ctypes.c_size_t * len(self.source.workspaces))()
        self._raise(int(self.loaded.assay_sizes((ctypes.c_int64 * len(sizes))(*sizes), bytes_)))
        return self.source.at(sizes, list(bytes_))

    @contextmanager
    def _watched(self, on_step: Callable[[int], None] | None, on_print: Told | None) -> Iterator[None]:
        """Within this, the code calls `on_step` after each step, and `on_print` at each print; what they raise ends the
        run, and is raised then."""
        raised: list[BaseException] = []

        def safe(call: Callable[[], None]) -> int:
            try:
                call()
            except BaseException as wrong:  # noqa: BLE001  (it cannot pass through C; it is raised below)
                raised.append(wrong)
            return len(raised)

        hooks: list[tuple[str, Any]] = []
        if on_step is not None:
            hooks.append(("assay_hook", _HOOK(lambda step: safe(lambda: on_step(step)))))
        if on_print is not None and self.source.prints:
            hooks.append(
                (
                    "assay_print_hook",
                    _PRINT(lambda step, at, dims: safe(lambda: on_print(step, self.shown(step, at, dims)))),
                )
            )
        try:
            places = [(ctypes.c_void_p.in_dll(self.loaded, name), hook) for name, hook in hooks]
        except ValueError:
            raise Crash(f"{self.source.name} was compiled without trace") from None
        for place, hook in places:
            place.value = ctypes.cast(hook, ctypes.c_void_p).value
        try:
            yield
        finally:
            for place, _ in places:
                place.value = None
        if raised:
            raise raised[0]

    def shown(self, step: int, addresses: Any, dims: Any) -> list[Array]:
        """What a print shows: tensors at addresses, with all their dims in a row."""
        line = next((p for p in self.source.prints if p.step == step), None)
        if line is None:
            raise Trap(
                "hooks", f"{self.source.name}_run tells of step {step}, which prints nothing", label="compiled.T9"
            )
        found: list[Array] = []
        at = 0
        for k, (of, rank) in enumerate(line.shown):
            shape = tuple(dims[at + i] for i in range(rank))
            at += rank
            nbytes = of.itemsize * prod(shape)
            memory = (ctypes.c_uint8 * nbytes).from_address(addresses[k]) if nbytes else b""
            found.append(np.frombuffer(memory, np.uint8).copy().view(of.numpy).reshape(shape))
        return found

    def call(self, *addresses: int | None) -> str:
        """The entry on raw addresses, None for NULL; the name of the status without the model's prefix."""
        return tools.status_name(self._enter(addresses))

    def _enter(self, addresses: Sequence[int | None]) -> int:
        call = self.loaded.assay_call
        call.restype = ctypes.c_int
        self._message.value = None
        return int(call((ctypes.c_void_p * len(addresses))(*addresses)))

    @property
    def _message(self) -> ctypes.c_char_p:
        """What the last call said of its failure."""
        return ctypes.c_char_p.in_dll(self.loaded, "assay_message")

    def _raise(self, status: int) -> None:
        message = self._message.value if status else None
        failure = tools.status_error(self.source, status, (message or b"").decode("ascii", "replace"))
        if failure is not None:
            raise failure


_PATTERN: Array = np.random.default_rng(0).integers(0, 256, GUARD, np.uint8)


class _Guarded:
    """Memory of exactly the given size between two zones that must stay as they are."""

    def __init__(self, what: str, size: int, alignment: int, fill: int) -> None:
        self.what = what
        whole: Array = np.empty(size + 2 * GUARD + alignment, np.uint8)
        start = GUARD + -(whole.ctypes.data + GUARD) % alignment
        self.bytes = whole[start : start + size]
        self.bytes[:] = fill
        self.address = whole.ctypes.data + start
        self.before = whole[start - GUARD : start]
        self.after = whole[start + size : start + size + GUARD]
        self.before[:] = self.after[:] = _PATTERN

    def check(self) -> None:
        """Trap if a zone was written to."""
        for side, zone in (("before", self.before), ("after", self.after)):
            touched = np.flatnonzero(zone != _PATTERN)
            if touched.size:
                far = int(GUARD - touched[-1] if side == "before" else touched[0] + 1)
                message = f"{touched.size} bytes {side} {self.what} were written to, the nearest {far} bytes off"
                raise Trap("out of bounds", message, label="compiled.T3")
