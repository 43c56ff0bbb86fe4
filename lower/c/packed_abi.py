"""The packed conventions in C: tagged values, tensors, and the checks of arguments (specs/lower.md, "c", I4 to I7).

A tensor is laid out as DLPack's, a value and a function as those of tvm-ffi, so that either can be handed over as it
is. In the text `@` stands for the model's prefix, `$` for that of its macros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from assay.lower.c.names import text_literal
from assay.semantics.dtypes import DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Dim, Expr

PACKED_PARAMETERS = "void *handle, const struct assay_value *args, int32_t count, struct assay_value *result"

TYPES = """
/* What the packed conventions of all models share. */
#ifndef ASSAY_PACKED_TYPES
#define ASSAY_PACKED_TYPES 1

/* A dense tensor, laid out as DLTensor of DLPack. Strides count elements; NULL is row-major. */
struct assay_tensor {
    void *data;
    int32_t device_type; /* 1: memory of the host */
    int32_t device_id;
    int32_t ndim;
    uint8_t dtype_code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
    uint8_t dtype_bits;
    uint16_t dtype_lanes;
    const int64_t *shape;
    const int64_t *strides;
    uint64_t byte_offset;
};

enum assay_code {
    ASSAY_CODE_NONE = 0,
    ASSAY_CODE_INTEGER = 1, /* as.number */
    ASSAY_CODE_POINTER = 4, /* as.pointer */
    ASSAY_CODE_TENSOR = 7, /* as.pointer, to a struct assay_tensor */
    ASSAY_CODE_TEXT = 8, /* as.text */
    ASSAY_CODE_OBJECT = 70 /* as.pointer, to a tensor object of tvm-ffi */
};

/* A value with its type, laid out as TVMFFIAny. */
struct assay_value {
    int32_t code; /* an assay_code */
    uint32_t zero;
    union {
        int64_t number;
        double real;
        void *pointer;
        const char *text;
    } as;
};

/* Returns 0, or why it has not done its work; then the result may be a text that says more. */
typedef int (*assay_function)(
    void *handle, const struct assay_value *args, int32_t count, struct assay_value *result);

/* A row of a table of functions; the last row has no name. The handle is handed to the function. */
struct assay_function_row {
    const char *name;
    assay_function function;
    void *handle;
};

#endif
"""

SPEC = """
struct @_spec {
    const char *what;
    size_t at; /* where its sizes begin in a table of dims; its strides come next */
    size_t align;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint8_t at_least; /* whether the tensor may be larger */
};
"""

FAIL = """
static int @_fail(struct assay_value *result, int status, const char *text)
{
    result->code = ASSAY_CODE_TEXT;
    result->as.text = text;
    return status;
}
"""

ARGUMENTS = """
/* Whether a tensor is what a parameter takes, whatever its sizes are. */
static int @_is_kind(const struct assay_tensor *tensor, const struct @_spec *spec)
{
    if (tensor->device_type != 1) {
        return $_WRONG_DEVICE;
    }
    if (tensor->dtype_code != spec->code || tensor->dtype_bits != spec->bits || tensor->dtype_lanes != 1) {
        return $_WRONG_DTYPE;
    }
    if (tensor->ndim != spec->ndim) {
        return $_WRONG_RANK;
    }
    return (tensor->ndim != 0 && tensor->shape == NULL) ? $_NULL_POINTER : $_OK;
}

/* Whether it has the sizes that it should have, and is dense; `bytes` is set to 0 if it has no element. */
static int @_fits(
    const struct assay_tensor *tensor, const struct @_spec *spec, const int64_t *shape, size_t *bytes)
{
    int64_t stride = 1;
    int32_t i;
    *bytes = 1u;
    for (i = 0; i < spec->ndim; ++i) {
        if (tensor->shape[i] < shape[i] || (tensor->shape[i] > shape[i] && spec->at_least == 0u)) {
            return $_WRONG_SHAPE;
        }
        *bytes = (shape[i] == 0) ? 0u : *bytes;
    }
    for (i = spec->ndim; i > 0 && tensor->strides != NULL && *bytes != 0u; --i) {
        if (tensor->shape[i - 1] != 1 && tensor->strides[i - 1] != stride) {
            return $_WRONG_STRIDES;
        }
        stride *= tensor->shape[i - 1];
    }
    return $_OK;
}

/* Find the tensors among the arguments of a function; behind them come whole numbers, if it takes some. */
static int @_tensors(
    const struct assay_value *args, int32_t count, const struct @_spec *specs, int32_t wanted, int32_t numbers,
    const struct assay_tensor **tensors, struct assay_value *result)
{
    int32_t i;
    if (result == NULL) {
        return $_NULL_POINTER;
    }
    result->code = ASSAY_CODE_NONE;
    result->zero = 0u;
    result->as.number = 0;
    if (count != wanted + numbers) {
        return $_WRONG_COUNT;
    }
    if (args == NULL && count != 0) {
        return $_NULL_POINTER;
    }
    for (i = 0; i < wanted; ++i) {
        const unsigned char *object = (const unsigned char *)args[i].as.pointer;
        int status;
        if (args[i].code != ASSAY_CODE_TENSOR && args[i].code != ASSAY_CODE_OBJECT) {
            return @_fail(result, $_WRONG_CODE, specs[i].what);
        }
        if (object == NULL) {
            return @_fail(result, $_NULL_POINTER, specs[i].what);
        }
        /* the tensor of an object stands behind its header of 24 bytes */
        object += (args[i].code == ASSAY_CODE_OBJECT) ? 24 : 0;
        tensors[i] = (const struct assay_tensor *)(const void *)object;
        status = @_is_kind(tensors[i], &specs[i]);
        if (status != $_OK) {
            return @_fail(result, status, specs[i].what);
        }
    }
    for (i = wanted; i < count; ++i) {
        if (args[i].code != ASSAY_CODE_INTEGER) {
            return @_fail(result, $_WRONG_CODE, "a size behind the tensors: an integer");
        }
    }
    return $_OK;
}

/* Check the tensors of a function against their sizes, and find their bytes. */
static int @_arguments(
    const struct assay_tensor *const *tensors, const struct @_spec *specs, int32_t count, const int64_t *dims,
    void **data, struct assay_value *result)
{
    int32_t i;
    for (i = 0; i < count; ++i) {
        size_t bytes;
        const int status = @_fits(tensors[i], &specs[i], (specs[i].ndim != 0) ? dims + specs[i].at : NULL, &bytes);
        if (status != $_OK) {
            return @_fail(result, status, specs[i].what);
        }
        data[i] = NULL;
        if (tensors[i]->data != NULL) {
            data[i] = (unsigned char *)tensors[i]->data + (size_t)tensors[i]->byte_offset;
        } else if (bytes != 0u) {
            return @_fail(result, $_NULL_POINTER, specs[i].what);
        }
        if ((uintptr_t)data[i] % specs[i].align != 0u) {
            return @_fail(result, $_MISALIGNED, specs[i].what);
        }
    }
    return $_OK;
}
"""

PACK = """
/* Make the arguments of a kernel. */
static void @_pack(
    const struct @_spec *specs, int32_t count, const void *const *data, const int64_t *dims,
    struct assay_tensor *tensors, struct assay_value *args)
{
    int32_t i;
    for (i = 0; i < count; ++i) {
        tensors[i].data = (void *)(uintptr_t)data[i];
        tensors[i].device_type = 1;
        tensors[i].device_id = 0;
        tensors[i].ndim = specs[i].ndim;
        tensors[i].dtype_code = specs[i].code;
        tensors[i].dtype_bits = specs[i].bits;
        tensors[i].dtype_lanes = 1u;
        tensors[i].shape = (specs[i].ndim != 0) ? dims + specs[i].at : NULL;
        tensors[i].strides = (specs[i].ndim != 0) ? dims + specs[i].at + specs[i].ndim : NULL;
        tensors[i].byte_offset = 0u;
        args[i].code = ASSAY_CODE_TENSOR;
        args[i].zero = 0u;
        args[i].as.number = 0;
        args[i].as.pointer = &tensors[i];
    }
}
"""

STRIDES = """
/* Complete a table of dims, in which the sizes stand, by the strides of dense tensors. */
static void @_strides(const struct @_spec *specs, int32_t count, int64_t *dims)
{
    int32_t i;
    int32_t k;
    for (i = 0; i < count; ++i) {
        uint64_t stride = 1u; /* of no use, and anything, where there are no elements */
        for (k = specs[i].ndim; k > 0; --k) {
            int64_t *const sizes = dims + specs[i].at;
            sizes[specs[i].ndim + k - 1] = (int64_t)(stride & 0x7fffffffffffffffu);
            stride *= (uint64_t)sizes[k - 1];
        }
    }
}
"""
"""For kernels whose sizes are known in a run only."""

FIND = """
static const struct assay_function_row *@_find(const struct assay_function_row *row, const char *name)
{
    for (; row != NULL && row->name != NULL; ++row) {
        if (strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

/* Call a function by name: of the caller's table if it is there, else of this model's. */
static int @_call(
    const struct assay_function_row *functions, const char *name, const struct assay_value *args, int32_t count,
    struct assay_value *result)
{
    const struct assay_function_row *row = @_find(functions, name);
    if (row == NULL) {
        row = @_find(@_functions, name);
    }
    if (row == NULL || row->function == NULL) {
        return @_fail(result, $_NO_FUNCTION, name);
    }
    return row->function(row->handle, args, count, result);
}
"""


TVM_FFI = """
#if defined($_TVM_FFI) || (defined(__GNUC__) && defined(__ELF__) && defined(__PIC__) && !defined(__PIE__))
/* The entry as tvm-ffi finds it in a shared library; what fails is an error there. Of two models in one library, one
 * has the names that are not a model's. */
#if defined(__GNUC__) && defined(__ELF__)
#define $_FFI_WEAK __attribute__((weak))
#else
#define $_FFI_WEAK
#endif
$_FFI_WEAK void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count);
int __tvm_ffi_@_run(
    void *handle, const struct assay_value *args, int32_t count, struct assay_value *result);
int __tvm_ffi_@_run(
    void *handle, const struct assay_value *args, int32_t count, struct assay_value *result)
{
    const int status = @_run(handle, args, count, result);
    if (status != $_OK) {
        const char *parts[3] = {@_status_text(status), "", ""};
        if (result->code == ASSAY_CODE_TEXT) {
            parts[1] = ": ";
            parts[2] = result->as.text;
        }
        result->code = ASSAY_CODE_NONE;
#if defined(__GNUC__) && defined(__ELF__)
        if (TVMFFIErrorSetRaisedFromCStrParts == NULL) {
            return -1; /* whoever calls is not tvm-ffi */
        }
#endif
        TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 3);
    }
    return (status != $_OK) ? -1 : 0;
}
%#endif
"""
"""For tvm-ffi; at % stand other names."""

FFI_NAME = """
WEAKint __tvm_ffi_NAME(
    void *handle, const struct assay_value *args, int32_t count, struct assay_value *result);
WEAKint __tvm_ffi_NAME(
    void *handle, const struct assay_value *args, int32_t count, struct assay_value *result)
{
    return __tvm_ffi_@_run(handle, args, count, result);
}
"""


def tvm_ffi(name: str, macro: str) -> str:
    """The functions that tvm-ffi finds: `NAME_run` and `NAME` for a model of that name, and `main` and `run`."""
    # of a model x and a model x_run in one library only the first may have __tvm_ffi_x_run
    own = "" if name.endswith("_run") else FFI_NAME.replace("WEAK", "").replace("NAME", name)
    every = [FFI_NAME.replace("WEAK", "$_FFI_WEAK ").replace("NAME", n) for n in ("main", "run") if n != name]
    weak = f"#if defined(__GNUC__) && defined(__ELF__){''.join(every)}#endif\n"
    return TVM_FFI.replace("%", own + weak).replace("@", name).replace("$", macro)


FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
"""Floats of 8 bits in the order of DLPack's codes, of which the first is 7."""


def dlpack(of: DType) -> tuple[int, int]:
    """Type code and bits of an element as DLPack has them."""
    if of.name == "bfloat16":
        return 4, 16
    if of.bits < 8 and of.kind != "bool":
        raise Unsupported(f"DLPack has several {of} in a byte, and here each has its own", label="c.C1")
    if of.bits == 8 and of.is_float:
        return 7 + FLOAT8.index(of.name.removeprefix("float8_")), 8
    code = {"int": 0, "uint": 1, "float": 2, "bool": 6}[of.kind]
    return code, 8 * of.itemsize


@dataclass(frozen=True)
class Spec:
    """A parameter of a packed function."""

    what: str
    """What a message says of it."""
    shape: tuple[Dim, ...]
    dtype: DType
    align: int
    at_least: bool = False


@dataclass(frozen=True)
class SpecNames:
    """The C names of a table of parameters, and of the sizes and strides that it points into; or, where sizes are known
    in a run only, of the function that finds them."""

    table: str
    dims: str


def places(specs: Sequence[Spec]) -> list[int]:
    """Where the sizes of each parameter begin in the table of dims, and how long that is."""
    return [0, *accumulate(2 * len(s.shape) for s in specs)]


def is_sized(specs: Sequence[Spec]) -> bool:
    """Whether some sizes are known in a run only."""
    return any(isinstance(d, Expr) for s in specs for d in s.shape)


def spec_tables(prefix: str, names: SpecNames, specs: Sequence[Spec]) -> Iterator[str]:
    """The table of the parameters of one function; before it sizes and strides, where they are numbers."""
    at = places(specs)
    if at[-1] and not is_sized(specs):
        yield f"\nstatic const int64_t {names.dims}[{at[-1]}] = {{\n"
        for s in specs:
            shape = tuple(int(d) for d in s.shape if isinstance(d, int))
            if shape:
                numbers = (*shape, *(prod(shape[i + 1 :]) for i in range(len(shape))))
                yield f"    {', '.join(map(str, numbers))},\n"
        yield "};\n"
    yield f"static const struct {prefix}_spec {names.table}[{max(len(specs), 1)}] = {{\n"
    for s, place in zip(specs, at, strict=False):
        code, bits = dlpack(s.dtype)
        yield (
            f"    {{{text_literal(s.what)}, {place}u, {s.align}u, {len(s.shape)}, {code}u, {bits}u,"
            f" {int(s.at_least)}u}},\n"
        )
    if not specs:
        yield "    {NULL, 0u, 1u, 0, 0u, 0u, 0u}\n"
    yield "};\n"


def sizes_table(specs: Sequence[Spec]) -> Iterator[tuple[int, Dim]]:
    """The places in the table of dims that hold sizes, and these."""
    for s, place in zip(specs, places(specs), strict=False):
        yield from ((place + i, d) for i, d in enumerate(s.shape))
