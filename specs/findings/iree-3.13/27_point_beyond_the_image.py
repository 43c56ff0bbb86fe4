"""GridSample of a point far beyond the image is the pixel, where 0 is asked for.

GridSample: 'zeros: use 0 for out-of-bound grid locations'. The pixel lies from -1 to 1, the point is at 10. In an image
of more pixels what is read lies beyond it, and what stands in memory there is given.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1,1,1,1] x, float[1,1,1,2] grid) => (float[1,1,1,1] y) {
    y = GridSample <padding_mode = "zeros"> (x, grid)
}
"""
INPUTS = {"x": np.array([[[[1]]]], np.float32), "grid": np.array([[[[10, 0]]]], np.float32)}
RIGHT = np.array([[[[0]]]], np.float32)
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
