"""Equal of NaN and itself is true.

Equal: 'the `equal` logical operation elementwise on the input tensors'. NaN is equal to nothing (IEEE 754, 5.11). Of
two inputs it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (bool[2] y) {
    y = Equal(x, x)
}
"""
INPUTS = {"x": np.array([np.nan, 1], np.float32)}
RIGHT = np.array([False, True])
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
