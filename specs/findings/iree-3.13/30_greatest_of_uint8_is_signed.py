"""TopK of uint8 is signed.

TopK: 'then the k largest elements are returned'. 255 is read as -1. Clip of 255 to 0 and 1 is 0, and MaxPool of 200
and 3 is 3; ReduceMax and Max are right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8[2] x, int64[1] k) => (uint8[1] y) {
    y, place = TopK(x, k)
}
"""
INPUTS = {"x": np.array([255, 3], np.uint8), "k": np.array([1])}
RIGHT = np.array([255], np.uint8)
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
    return np.array(machine.modules.module["g"](*INPUTS.values())).view(np.uint8)


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
