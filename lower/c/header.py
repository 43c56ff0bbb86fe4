"""The header and the first lines of the source (specs/lower.md, "c"): all that a caller must know stands here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.lower.c.convention import VERBS, Device, Devices, Interface
from assay.lower.c.kernel import TRAPS, CKernel
from assay.lower.c.names import comment, quote
from assay.lower.c.packed_abi import PACKED_PARAMETERS, TYPES, SpecNames
from assay.lower.c.tables import Blob
from assay.semantics.module import Branch, Module, Program
from assay.semantics.types import TensorType

FLAGS = "-std=c99 -ffp-contract=off"
"""What the generated C needs to keep its meaning."""

STATUSES = {
    "NULL_POINTER": "a pointer to something that has bytes is NULL",
    "MISALIGNED": "a pointer is not aligned as declared, tensors to their elements",
    "OVERLAP": "an output or the workspace shares a byte with another argument",
    "BAD_WEIGHTS": "the weights are not those that this code was generated for",
    **{f"TRAP_{word}": meaning for word, meaning in TRAPS.values()},
}
"""What the generated code returns when it has not done its work, in the order of the numbers from 1 on."""

PACKED_STATUSES = {
    "WRONG_COUNT": "there are more or fewer arguments than parameters",
    "WRONG_CODE": "an argument has another type code than its parameter",
    "WRONG_DEVICE": "a tensor is not in memory that this code can read",
    "WRONG_DTYPE": "a tensor has other elements than its parameter",
    "WRONG_RANK": "a tensor has more or fewer dims than its parameter",
    "WRONG_SHAPE": "a tensor has other sizes than its parameter",
    "WRONG_STRIDES": "a tensor is not dense and row-major",
    "NO_FUNCTION": "no function of that name is in the table",
}
"""The rest, of the packed conventions alone."""

FOREIGN = 256
"""Statuses from here on, and those below 0, are for kernels and hooks that the user writes."""


def statuses(interface: Interface) -> dict[str, str]:
    return STATUSES if interface is Interface.UNPACKED else {**STATUSES, **PACKED_STATUSES}


ARGUMENT = r' \*   (\w+): (\w+)((?:\[\d+\])*), \d+ bytes, called (".*")'
"""The line of an input or output in the header: its name in C, dtype, dims, and name in the model."""

DEVICE = r' \*   (\w+): number (\d+), called (".*")'
"""The line of a device in the header."""


@dataclass(frozen=True)
class Argument:
    """An input or output of the C function: its slot, its names as a parameter and in macros, its types."""

    slot: str
    name: str
    macro: str
    type: TensorType
    ctype: str

    @property
    def nbytes(self) -> int:
        return self.type.nbytes


@dataclass(frozen=True, eq=False)
class Layout:
    """Where everything lies."""

    name: str
    macro: str
    program: Program
    module: Module
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    offsets: Mapping[str, str]
    """Workspace slot to the last part of the macro that holds its offset."""
    tables: Mapping[str, str]
    """Constant slot to the C name of its table, for constants that stand in the source."""
    blob: Blob | None
    workspace_bytes: int
    interface: Interface
    default_device: str
    """The device of steps that name none; empty if they have no hooks."""
    devices: Devices
    external: Mapping[str, str]
    """Kernel to the macro that says that its code is elsewhere."""
    packed: Mapping[str, str]
    """Kernel to its packed function."""
    specs: Mapping[str, SpecNames]
    """Kernel to the table of its parameters."""
    entry_specs: SpecNames

    @property
    def has_handle(self) -> bool:
        """Whether the entry takes a resource handle, which hooks and kernels get."""
        return self.interface is not Interface.UNPACKED or bool(self.devices.all)

    def offset(self, slot: str) -> str:
        return f"{self.macro}_OFFSET_{self.offsets[slot]}"

    def signature(self) -> str:
        """The entry without its semicolon."""
        if self.interface is not Interface.UNPACKED:
            return f"int {self.name}_run({PACKED_PARAMETERS})"
        words = [f"const {a.ctype} *{a.name}" for a in self.inputs]
        words += [f"{a.ctype} *{a.name}" for a in self.outputs]
        words.append("void *workspace")
        if self.blob is not None:
            words.append("const void *weights")
        if self.has_handle:
            words.append("void *handle")
        inner = ", ".join(words)
        if len(inner) > 90:
            inner = "\n    " + ",\n    ".join(words)
        return f"int {self.name}_run({inner})"

    def hook(self, device: Device, verb: str) -> str:
        return f"{self.name}_device_{device.c}_{verb}"


def size(value: int) -> str:
    """A number of bytes or elements as an unsigned constant."""
    return f"{value}u" if value < 2**32 else f"{value}ull"


def prologue(layout: Layout, uses_math: bool) -> Iterator[str]:
    """The first lines of the source: headers, and what the compiler must be like."""
    yield f'/* Generated by Assay; see {layout.name}.h. Needs {FLAGS}{" and -lm" if uses_math else ""}. */\n\n'
    yield f'#include "{layout.name}.h"\n\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n'
    yield "#include <math.h>\n" if uses_math else ""
    m = layout.name
    if layout.external:
        yield f"\n#if defined({layout.macro}_HAS_EXTERNAL) && defined(__GNUC__)\n"
        yield '#pragma GCC diagnostic ignored "-Wunused-function" /* what only such a kernel would have used */\n#endif\n'
    yield f"""
#if defined(__FAST_MATH__)
#error "this code needs IEEE arithmetic: compile without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__)
#if __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2
#error "this code needs float arithmetic in float: compile with -msse2 -mfpmath=sse or the like"
#endif
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__STRICT_ANSI__)
#pragma GCC optimize("fp-contract=off")
#endif

typedef char {m}_assert_float[(sizeof(float) == 4 && sizeof(double) == 8) ? 1 : -1];
typedef char {m}_assert_wraps[((int32_t)0xffffffffu == -1 && (int8_t)0x80 == -128) ? 1 : -1];
"""


def header(layout: Layout, kernels: Mapping[str, CKernel], digest: str) -> Iterator[str]:
    """The header, in pieces."""
    macro, program = layout.macro, layout.program
    yield f"/* {layout.name}: generated by Assay.\n *\n"
    yield f" * Compile {layout.name}.c with: {FLAGS}\n"
    yield f" * and with -D{macro}_REPRODUCIBLE for transcendental functions that give the same bits on every target.\n"
    if layout.interface is not Interface.UNPACKED:
        yield f" * -D{macro}_TVM_FFI makes a shared library one that tvm-ffi loads, with a function {layout.name}_run.\n"
    yield " * It allocates nothing, keeps no state, and may run on several threads with a workspace for each.\n"
    yield f" * Module: {comment(digest) or 'no digest given'}\n *\n"
    yield from _listing(layout, kernels)
    yield f" */\n#ifndef {macro}_H_INCLUDED\n#define {macro}_H_INCLUDED\n\n#include <stddef.h>\n#include <stdint.h>\n"
    yield '\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
    yield f'#define {macro}_MODULE_DIGEST "{comment(digest).replace(chr(34), "").replace(chr(92), "")}"\n'
    yield f"#define {macro}_WORKSPACE_BYTES {size(layout.workspace_bytes)}\n"
    yield f"#define {macro}_WORKSPACE_ALIGN {size(program.alignment)}\n"
    yield f"#define {macro}_WEIGHTS_BYTES {size(layout.blob.nbytes if layout.blob else 0)}\n"
    yield f"#define {macro}_WEIGHTS_ALIGN {size(layout.blob.alignment if layout.blob else 1)}\n"
    for what, arguments in (("INPUT", layout.inputs), ("OUTPUT", layout.outputs)):
        for a in arguments:
            count = a.type.nbytes // a.type.dtype.itemsize
            yield f"#define {macro}_{what}_{a.macro}_ELEMENTS {size(count)} /* {type_text(a.type)} {comment(a.slot)} */\n"
    yield from _statuses(layout)
    if layout.interface is not Interface.UNPACKED:
        yield TYPES
    if layout.blob is not None:
        yield f"\n/* Whether these are the weights: {layout.name}.weights, little-endian, with this SHA-256:\n"
        yield f" * {layout.blob.digest}\n"
        yield " * Reads all of them; once after loading is enough. */\n"
        yield f"enum {layout.name}_status {layout.name}_check_weights(const void *weights, size_t bytes);\n"
    yield from _hooks(layout)
    yield from _externals(layout, kernels)
    yield from _entry(layout)
    yield "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"


def _statuses(layout: Layout) -> Iterator[str]:
    """The enumeration, and the function that says what a status means."""
    macro = layout.macro
    yield f"\nenum {layout.name}_status {{\n    {macro}_OK = 0"
    before = ""
    for word, meaning in statuses(layout.interface).items():
        yield f",{before}\n    {macro}_{word}"
        before = f" /* {meaning} */"
    yield f"{before}\n}};\n\n/* What a status means; it is never NULL. */\n"
    yield f"const char *{layout.name}_status_text(int status);\n"


def _hooks(layout: Layout) -> Iterator[str]:
    """The prototypes of what the user has to write for each device."""
    if not layout.devices.all:
        return
    yield f"""
/* Hooks, for you to write. A run activates each device once, in the order of their first steps, and deactivates them
 * in the reverse order. It opens a device before each stretch of its steps, and closes it behind. A hook returns 0, or a
 * status (of {FOREIGN} or above, or below 0), which ends the run: no step follows, but what was activated and opened is
 * deactivated and closed all the same, and the first status that is not 0 is returned. A hook that fails has done
 * nothing: what it was to undo is not asked for. `handle` is the one that the run was given. */
"""
    numbers: dict[str, list[str]] = {}
    for d in layout.devices.all:
        numbers.setdefault(d.c, []).append(str(d.id))
    for d in {d.c: d for d in layout.devices.all}.values():
        yield f"/* {comment(d.name)}; id is {' or '.join(numbers[d.c])} */\n"
        for verb in VERBS:
            yield f"int {layout.hook(d, verb)}(void *handle, int32_t id);\n"


def _externals(layout: Layout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The kernels that others may call, and what to define for one whose code is elsewhere."""
    if not kernels:
        return
    yield "\n/* The kernels. Define the macro of one whose code is yours"
    match layout.interface:
        case Interface.UNPACKED:
            yield ", then its function is called."
        case Interface.C_PACKED:
            yield "; its function is called all the same."
        case Interface.PACKED:
            yield "; its function is looked up in your table, by name."
    yield f" It returns 0, or a\n * status (of {FOREIGN} or above, or below 0), which ends the run."
    if layout.interface is not Interface.UNPACKED:
        yield " Its arguments are inputs, outputs and scratch, as in the\n"
        yield " * model. Called by others, these may share no memory, and scratch has to be there."
    yield " */\n"
    for name, kernel in kernels.items():
        if layout.interface is Interface.C_PACKED:
            yield f"int {layout.packed[name]}(\n    {PACKED_PARAMETERS});\n"
        yield f"#ifdef {layout.external[name]}"
        yield f' /* "{layout.packed[name]}" */' if layout.interface is Interface.PACKED else ""
        yield f"\n#define {layout.macro}_HAS_EXTERNAL 1\n"
        yield f"int {kernel.signature()};\n" if layout.interface is Interface.UNPACKED else ""
        yield "#endif\n"
    if layout.interface is Interface.PACKED:
        yield "\n/* The kernels of this model by name. */\n"
        yield f"extern const struct assay_function_row {layout.name}_functions[];\n"


def _entry(layout: Layout) -> Iterator[str]:
    """The function that runs the model, and what it takes."""
    yield "\n/* Compute the outputs. A tensor is dense and row-major; bool is 0 or 1 in a byte; float16 and bfloat16 are\n"
    yield " * given as their bits. After any status but OK the outputs are undefined. No argument may share memory with\n"
    yield " * an output or the workspace. The status is one of those above, or what a kernel or a hook of yours returned."
    if layout.interface is not Interface.UNPACKED:
        words = ["the inputs", "the outputs", "the workspace"] + (["the weights"] if layout.blob is not None else [])
        yield f"\n *\n * The arguments are tensors: {', '.join(words)}, in the order in which they are listed at the top.\n"
        yield " * The workspace is uint8 of rank 1 and of at least WORKSPACE_BYTES"
        yield "; the weights of just WEIGHTS_BYTES.\n" if layout.blob is not None else ".\n"
        if layout.interface is Interface.PACKED:
            yield " * One more may follow: a pointer to a table of functions, which are called instead of this model's own of the\n"
            yield " * same names, each with the handle of its row.\n"
        yield " * The result is none, or a text that says more of a failure"
        yield "." if layout.interface is Interface.PACKED else ". The handle is handed to every kernel."
    elif layout.has_handle:
        yield "\n * The handle is handed to every hook and kernel."
    yield f" */\n{layout.signature()};\n"


def type_text(of: TensorType) -> str:
    return f"{of.dtype}[{']['.join(map(str, of.static_shape))}]" if of.ndim else str(of.dtype)


def _listing(layout: Layout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """Inputs, outputs, steps and plan, as lines of a comment."""
    program = layout.program
    yield f" * Interface: {layout.interface}\n"
    if layout.default_device:
        yield f" * Steps that name no device: {quote(layout.default_device)}\n"
    if layout.devices.all:
        yield " * Devices:\n"
        for d in layout.devices.all:
            yield f" *   {d.c}: number {d.id}, called {quote(d.name)}\n"
    for what, arguments in (("Inputs", layout.inputs), ("Outputs", layout.outputs)):
        yield f" * {what}:\n"
        for a in arguments:
            yield f" *   {a.name}: {type_text(a.type)}, {a.nbytes} bytes, called {quote(a.slot)}\n"
    yield " * Steps:\n"
    for i, (step, device) in enumerate(zip(program.steps, layout.devices.of_step, strict=True)):
        if isinstance(step, Branch):
            yield f" *   {i:4d}  if {comment(step.condition)}: to {step.then - 1}, else to {step.end - 1}\n"
            continue
        operator = layout.module.kernel(step.kernel).attrs.get("operator", "")
        of = f" ({operator})" if operator else ""
        text = f"{step.kernel}{of} {', '.join(step.reads)} -> {', '.join(step.writes)}"
        text += f" on {device.name}:{device.id}" if device is not None else ""
        yield f" *   {i:4d}  {comment(text)}\n"
    yield f" * Workspace: {layout.workspace_bytes} bytes, aligned to {program.alignment}; live from step to step:\n"
    for s in sorted(program.placed("workspace"), key=lambda s: (s.offset or 0, s.start)):
        yield f" *   {s.offset:8d} +{s.nbytes:8d}  {s.start:4d} to {s.stop:4d}  {comment(s.name)}\n"
    if layout.blob is not None:
        yield f" * Weights: {layout.blob.nbytes} bytes, aligned to {layout.blob.alignment}.\n"
