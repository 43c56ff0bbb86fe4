"""What compiles a model with each tool that takes ONNX (specs/verify.md, "Backends").

Each is asked for what its users ask for on the CPU, but for one thing: where a tool may choose a narrower float by
itself, it is told not to. What differs by that is nothing that anybody wants to know.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from assay.semantics.dtypes import DTYPES
from assay.verify.backends.onnx_tools import OnnxTool, Run, declared_dtypes, heard, signed_as, telling, without_loss
from assay.verify.backends.protocol import Array

# --- OpenVINO ---------------------------------------------------------------------------------------------------------


def openvino_run(model: onnx.ModelProto) -> Run:
    """OpenVINO's plugin for the CPU, by its own reader of ONNX."""
    import openvino

    core = openvino.Core()
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", hints)
    request = compiled.create_infer_request()

    def run(given: Mapping[str, Array]) -> list[Array]:
        if len(compiled.inputs) != len(given):
            raise NotImplementedError(f"it has {len(compiled.inputs)} inputs for {len(given)}")
        for i, (port, array) in enumerate(zip(compiled.inputs, given.values(), strict=True)):
            made = openvino.Tensor(port.element_type, openvino.Shape(array.shape))
            if array.nbytes != made.byte_size or array.dtype.kind not in "biufV":
                raise NotImplementedError(f"its input {i} is of {port.element_type.get_type_name()}, not {array.dtype}")
            made.data.reshape(-1).view(np.uint8)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            request.set_input_tensor(i, made)
        request.infer()
        return [_from_openvino(request.get_output_tensor(i)) for i in range(len(compiled.outputs))]

    return run


def _from_openvino(tensor: Any) -> Array:
    """The array of a tensor; element types that NumPy lacks come as bits."""
    array = np.array(tensor.data)
    name = tensor.element_type.get_type_name()
    if name in _OPENVINO_NARROW:
        return array.view(DTYPES[_OPENVINO_NARROW[name]].numpy)
    if tensor.element_type.bitwidth < 8 and name != "boolean":
        raise NotImplementedError(f"its Python interface gives {name} packed")
    return array


_OPENVINO_NARROW = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu"}
"""OpenVINO's names of floats that NumPy lacks, with ours."""


# --- tract ------------------------------------------------------------------------------------------------------------


def tract_run(model: onnx.ModelProto) -> Run:
    """tract's optimised plan."""
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        runnable = tract.onnx().load(path).into_model().into_runnable()

    def run(given: Mapping[str, Array]) -> list[Array]:
        return [v.to_numpy() for v in runnable.run([_to_tract(a) for a in given.values()])]

    return run


def _to_tract(array: Array) -> Array:
    if array.dtype.isbuiltin != 1 or array.dtype.kind not in "biuf":
        raise NotImplementedError(f"its Python interface takes no {array.dtype}")
    return array


def panics(wrong: BaseException) -> bool:
    """Whether a tool in Rust says that it panicked."""
    return "panicked" in str(wrong) or type(wrong).__name__ == "PanicException"


# --- OpenCV -----------------------------------------------------------------------------------------------------------


def opencv_run(model: onnx.ModelProto) -> Run:
    """OpenCV's module dnn."""
    import cv2

    cv2.setNumThreads(1)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    net = cv2.dnn.readNetFromONNX(np.frombuffer(model.SerializeToString(), np.uint8))
    names = [o.name for o in model.graph.output]
    wanted = declared_dtypes(model)

    def run(given: Mapping[str, Array]) -> list[Array]:
        for name, array in given.items():
            net.setInput(np.ascontiguousarray(array).reshape(array.shape), name)
        results = net.forward(names)
        if any(r is None for r in results):
            raise NotImplementedError("its Python interface gives nothing where there are no elements")
        return [without_loss(r, of).copy() for r, of in zip(results, wanted, strict=True)]

    return run


# --- MNN --------------------------------------------------------------------------------------------------------------


def mnn_run(model: onnx.ModelProto) -> Run:
    """MNN's converter, and its sessions with high precision. Whole numbers and truth values have 32 or 8 bits there."""
    import _tools  # the package's command mnnconvert also installs packages and reports over the network
    import MNN.expr
    import MNN.nn

    kinds = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8, "int8": MNN.expr.int8}
    names = [i.name for i in model.graph.input], [o.name for o in model.graph.output]
    wanted = declared_dtypes(model)
    manager = MNN.nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    with tempfile.TemporaryDirectory() as folder, heard() as said:
        source, made = (str(Path(folder) / n) for n in ("model.onnx", "model.mnn"))
        onnx.save(model, source)
        _tools.mnnconvert(["MNNConvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", made, "--bizCode", "assay"])
        if not Path(made).exists():
            raise NotImplementedError(telling(said()) or "its converter makes nothing")
        net = MNN.nn.load_module_from_file(made, *names, runtime_manager=manager)

    def variable(array: Array) -> Any:
        array = array if array.dtype.name in kinds else without_loss(array, np.dtype(np.int32))
        return MNN.expr.const(np.ascontiguousarray(array), list(array.shape), MNN.expr.NCHW, kinds[array.dtype.name])

    def run(given: Mapping[str, Array]) -> list[Array]:
        results = net.forward([variable(a) for a in given.values()])
        return [without_loss(np.array(r.read()), of) for r, of in zip(results, wanted, strict=False)]

    return run


# --- tinygrad ---------------------------------------------------------------------------------------------------------


def tinygrad_run(model: onnx.ModelProto) -> Run:
    """tinygrad's runner of ONNX, on the device CPU, which compiles kernels by clang."""
    import os

    os.environ.setdefault("DEV", "CPU")
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(Tensor(model.SerializeToString()))
    names = [o.name for o in model.graph.output]

    def run(given: Mapping[str, Array]) -> list[Any]:
        results = runner({n: Tensor(np.array(a)) for n, a in given.items()})
        return [_from_tinygrad(results[n]) for n in names]

    return run


def _from_tinygrad(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_from_tinygrad(v) for v in value]
    if not hasattr(value, "numpy"):
        return np.array(value)
    # NumPy has none of these by itself, and what it gives for them is float32
    narrow = _TINYGRAD_NARROW.get(value.dtype.name)
    return np.array(value.numpy()) if narrow is None else np.array(value.numpy()).astype(narrow)


_TINYGRAD_NARROW = {
    "__bf16": ml_dtypes.bfloat16, "float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
"""Element types of tinygrad, by their names there."""


# --- IREE -------------------------------------------------------------------------------------------------------------


IREE_FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false")
"""For this machine; and float64 stays what it is, which it does not by default."""


def iree_run(model: onnx.ModelProto) -> Run:
    """IREE's importer of ONNX, its compiler for the processor of this machine, and its runtime, in this thread."""
    import iree.compiler.ir
    import iree.runtime
    from iree.compiler.api import Output, Session, Source
    from iree.compiler.extras import onnx_importer

    model.graph.name = "main"
    wanted = declared_dtypes(model)
    info = onnx_importer.ModelInfo(model)
    with iree.compiler.ir.Context() as context:
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        text = module.get_asm()
    session = Session()
    session.set_flags("--iree-hal-target-backends=llvm-cpu", *IREE_FLAGS)
    with heard() as said:
        invocation = session.invocation()
        invocation.enable_console_diagnostics()
        source = Source.wrap_buffer(session, text.encode() + b"\0")
        if not invocation.parse_source(source) or not invocation.execute():
            raise NotImplementedError(telling(said()) or "its compiler fails")
        made = Output.open_membuffer()
        invocation.output_vm_bytecode(made)
        program = bytes(made.map_memory())
    whole = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    whole.add_vm_module(iree.runtime.VmModule.copy_buffer(whole.instance, program))
    function = whole.modules.module["main"]

    def run(given: Mapping[str, Array]) -> list[Array]:
        results = function(*given.values())
        arrays = [np.array(r) for r in (results if isinstance(results, tuple) else (results,))]
        return [signed_as(a, of) for a, of in zip(arrays, wanted, strict=False)]

    return run


# --- emx-onnx-cgen ----------------------------------------------------------------------------------------------------


def emx_run(model: onnx.ModelProto) -> Run:
    """The C that it writes, compiled with the program that it writes for its own tests, which is run for each set of
    inputs."""
    from emx_onnx_cgen.onnx_backend import prepare

    _keep_templates()
    ready = prepare(model)
    return lambda given: ready.run(list(given.values()))


@cache
def _keep_templates() -> None:
    """Compile its templates, which are the same for every model, once: that takes seconds."""
    import jinja2

    environment: Any = jinja2.Environment
    compile_template, kept = environment.compile, {}

    def compiled(self: Any, source: Any, *rest: Any, **named: Any) -> Any:
        key = (source, rest, tuple(named.items()))
        if key not in kept:
            kept[key] = compile_template(self, source, *rest, **named)
        return kept[key]

    environment.compile = compiled


# --- by name ----------------------------------------------------------------------------------------------------------

RUNNERS: tuple[OnnxTool, ...] = (
    OnnxTool("openvino", openvino_run, sized=False),
    OnnxTool("tract", tract_run, is_crash=panics),
    OnnxTool("opencv", opencv_run),
    OnnxTool("mnn", mnn_run),
    OnnxTool("tinygrad", tinygrad_run),
    OnnxTool("iree", iree_run),
    OnnxTool("emx-onnx-cgen", emx_run),
)
