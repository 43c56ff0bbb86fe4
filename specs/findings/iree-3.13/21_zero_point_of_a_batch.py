"""QLinearMatMul of three axes takes no notice of a zero point.

QLinearMatMul: 'It consumes two quantized input tensors, their scales and zero points': (100 - -100) * 1 / 10. A
product of two axes is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 21]>
g (int8[1,1,1] a, float s, int8 z, int8[1,1,1] b, float t, int8 o) => (int8[1,1,1] y) {
    y = QLinearMatMul(a, s, z, b, s, o, t, o)
}
"""
INPUTS = {
    "a": np.array([[[100]]], np.int8),
    "s": np.array(1, np.float32),
    "z": np.array(-100, np.int8),
    "b": np.array([[[1]]], np.int8),
    "t": np.array(10, np.float32),
    "o": np.array(0, np.int8),
}
RIGHT = np.array([[[20]]], np.int8)
WITHIN = 0.0
"""It is exact."""


def given():
    import iree.compiler
    import iree.runtime
    from iree.compiler.extras import onnx_importer

    with iree.compiler.ir.Context() as context:
        info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MODEL)))
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        text = module.get_asm()
    program = iree.compiler.compile_str(
        text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"]
    )
    machine = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    machine.add_vm_module(iree.runtime.VmModule.copy_buffer(machine.instance, program))
    return np.array(machine.modules.module["g"](*INPUTS.values()))


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
