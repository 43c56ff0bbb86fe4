"""AveragePool counts what is behind the end.

AveragePool: 'The output of each pooling window is divided by the number of elements (exclude pad when attribute
count_include_pad is zero)'. There is no padding here; with ceil_mode the second window has one element, 3.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,3] x) => (float[1,1,2] y) {
    y = AveragePool <kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1> (x)
}
"""
INPUTS = {"x": np.array([[[1, 2, 3]]], np.float32)}
RIGHT = np.array([[[1.5, 3]]], np.float32)
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
