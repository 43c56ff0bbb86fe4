"""MaxPool of int8 along three axes ends the compiler with SIGSEGV.

MaxPool: 'computing the max on all values of a subset of the input tensor according to the kernel size'. So it does of
uint8; along two axes, and of floats, it does not.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 12]>
g (int8[1,1,2,1,1] x) => (int8[1,1,1,1,1] y) {
    y = MaxPool <kernel_shape = [2, 1, 1]> (x)
}
"""
INPUTS = {"x": np.array([1, 2], np.int8).reshape(1, 1, 2, 1, 1)}
RIGHT = np.array([2], np.int8).reshape(1, 1, 1, 1, 1)
WITHIN = 0.0
"""It is exact."""


def given():
    """Nothing, if the compiler ends by a signal."""
    import iree.compiler
    import iree.runtime
    from iree.compiler.extras import onnx_importer

    with iree.compiler.ir.Context() as context:
        info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MODEL)))
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        text = module.get_asm()
    try:
        program = iree.compiler.compile_str(
            text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"]
        )
    except iree.compiler.CompilerToolError as ended:
        if "Error code: -11" in str(ended):
            return np.zeros(0, RIGHT.dtype)
        raise
    machine = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    machine.add_vm_module(iree.runtime.VmModule.copy_buffer(machine.instance, program))
    return np.array(machine.modules.module["g"](*INPUTS.values()))


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
