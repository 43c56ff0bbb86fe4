"""Pow of -2 and 3 is NaN.

Pow: 'the function `f(x) = x^exponent`, is applied to the data tensor elementwise', and (-2)^3 is -8. That of
1 and an infinity is NaN too, and 1 is right (IEEE 754, 9.2.1).
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] z) => (float[2] y) {
    y = Pow(x, z)
}
"""
INPUTS = {"x": np.array([-2, 2], np.float32), "z": np.array([3, 3], np.float32)}
RIGHT = np.array([-8, 8], np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


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
