"""The packed conventions in C: tagged values, tensors, and the checks of arguments (specs/lower.md, "c", I4 to I7).

A tensor is laid out as DLPack's, a value and a function as those of tvm-ffi, so that either can be handed over as it
is. In the text `@` stands for the model's prefix, `$` for that of its macros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from assay.lower.c.names import text_literal
from assay.semantics.dtypes import DType

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
    const int64_t *shape;
    const int64_t *strides;
    size_t bytes;
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
/* Whether a tensor is what a parameter takes. */
static int @_fits(const struct assay_tensor *tensor, const struct @_spec *spec)
{
    int64_t stride = 1;
    int32_t i;
    if (tensor->device_type != 1) {
        return $_WRONG_DEVICE;
    }
    if (tensor->dtype_code != spec->code || tensor->dtype_bits != spec->bits || tensor->dtype_lanes != 1) {
        return $_WRONG_DTYPE;
    }
    if (tensor->ndim != spec->ndim) {
        return $_WRONG_RANK;
    }
    if (tensor->ndim != 0 && tensor->shape == NULL) {
        return $_NULL_POINTER;
    }
    for (i = 0; i < spec->ndim; ++i) {
        if (tensor->shape[i] < spec->shape[i] || (tensor->shape[i] > spec->shape[i] && spec->at_least == 0u)) {
            return $_WRONG_SHAPE;
        }
    }
    for (i = spec->ndim; i > 0 && tensor->strides != NULL && spec->bytes != 0u; --i) {
        if (tensor->shape[i - 1] != 1 && tensor->strides[i - 1] != stride) {
            return $_WRONG_STRIDES;
        }
        stride *= tensor->shape[i - 1];
    }
    return $_OK;
}

/* Check the arguments of a function and find their bytes. */
static int @_arguments(
    const struct assay_value *args, int32_t count, const struct @_spec *specs, int32_t wanted, void **data,
    struct assay_value *result)
{
    int32_t i;
    if (result == NULL) {
        return $_NULL_POINTER;
    }
    result->code = ASSAY_CODE_NONE;
    result->zero = 0u;
    result->as.number = 0;
    if (count != wanted) {
        return $_WRONG_COUNT;
    }
    if (args == NULL && count != 0) {
        return $_NULL_POINTER;
    }
    for (i = 0; i < count; ++i) {
        const unsigned char *object = (const unsigned char *)args[i].as.pointer;
        const struct assay_tensor *tensor;
        int status;
        if (args[i].code != ASSAY_CODE_TENSOR && args[i].code != ASSAY_CODE_OBJECT) {
            return @_fail(result, $_WRONG_CODE, specs[i].what);
        }
        if (object == NULL) {
            return @_fail(result, $_NULL_POINTER, specs[i].what);
        }
        /* the tensor of an object stands behind its header of 24 bytes */
        object += (args[i].code == ASSAY_CODE_OBJECT) ? 24 : 0;
        tensor = (const struct assay_tensor *)(const void *)object;
        status = @_fits(tensor, &specs[i]);
        if (status != $_OK) {
            return @_fail(result, status, specs[i].what);
        }
        data[i] = NULL;
        if (tensor->data != NULL) {
            data[i] = (unsigned char *)tensor->data + (size_t)tensor->byte_offset;
        } else if (specs[i].bytes != 0u) {
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
    const struct @_spec *specs, int32_t count, const void *const *data, struct assay_tensor *tensors,
    struct assay_value *args)
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
        tensors[i].shape = specs[i].shape;
        tensors[i].strides = specs[i].strides;
        tensors[i].byte_offset = 0u;
        args[i].code = ASSAY_CODE_TENSOR;
        args[i].zero = 0u;
        args[i].as.number = 0;
        args[i].as.pointer = &tensors[i];
    }
}
"""

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


def dlpack(of: DType) -> tuple[int, int]:
    """Type code and bits of an element as DLPack has them."""
    if of.name == "bfloat16":
        return 4, 16
    code = {"int": 0, "uint": 1, "float": 2, "bool": 6}[of.kind]
    return code, 8 * of.itemsize


@dataclass(frozen=True)
class Spec:
    """A parameter of a packed function."""

    what: str
    """What a message says of it."""
    shape: tuple[int, ...]
    dtype: DType
    align: int
    at_least: bool = False


@dataclass(frozen=True)
class SpecNames:
    """The C names of a table of parameters, and of the sizes that it points to."""

    table: str
    dims: str


def spec_tables(prefix: str, names: SpecNames, specs: Sequence[Spec]) -> Iterator[str]:
    """The table of the parameters of one function, shapes and strides before it."""
    places: list[int] = []
    numbers: list[int] = []
    for s in specs:
        places.append(len(numbers))
        numbers += s.shape
        numbers += [prod(s.shape[i + 1 :]) for i in range(len(s.shape))]
    dims = names.dims
    if numbers:
        yield f"\nstatic const int64_t {dims}[{len(numbers)}] = {{\n"
        for s, at in zip(specs, places, strict=True):
            if s.shape:
                yield f"    {', '.join(map(str, numbers[at : at + 2 * len(s.shape)]))},\n"
        yield "};\n"
    yield f"static const struct {prefix}_spec {names.table}[{max(len(specs), 1)}] = {{\n"
    for s, at in zip(specs, places, strict=True):
        code, bits = dlpack(s.dtype)
        where = f"&{dims}[{at}], &{dims}[{at + len(s.shape)}]" if s.shape else "NULL, NULL"
        nbytes = prod(s.shape) * s.dtype.itemsize
        size = f"{nbytes}u" if nbytes < 2**32 else f"{nbytes}ull"
        yield (
            f"    {{{text_literal(s.what)}, {where}, {size}, {s.align}u,"
            f" {len(s.shape)}, {code}u, {bits}u, {int(s.at_least)}u}},\n"
        )
    if not specs:
        yield "    {NULL, NULL, NULL, 0u, 1u, 0, 0u, 0u, 0u}\n"
    yield "};\n"
