"""CastLike of 1000 to float8e4m3fn is NaN.

CastLike: 'It is true by default', of saturate; so a number that is out of range is the largest one. Of
float8e5m2 an infinity is given.
"""

import ml_dtypes
import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[2] x, float8e4m3fn[1] like) => (float8e4m3fn[2] y) {
    y = CastLike(x, like)
}
"""
INPUTS = {"x": np.array([1000, 448], np.float32), "like": np.array([0], ml_dtypes.float8_e4m3fn)}
RIGHT = np.array([448, 448], ml_dtypes.float8_e4m3fn)
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
    x, like = INPUTS.values()
    given = np.array(machine.modules.module["g"](x, like.view(np.uint8)))
    return given.view(np.uint8).view(RIGHT.dtype)


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
