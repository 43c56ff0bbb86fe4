"""BitShift by the width of the type shifts by nothing.

BitShift: 'If Y is negative, or is greater than or equal to the number of bits of T, then the result is whatever the
sign bit extension alone produces: -1 for a right shift on a negative X, where the fill is a sign bit of 1, and 0 in
every other case'. With AVX-512 instructions it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int8[2] x, int8[2] by) => (int8[2] y) {
    y = BitShift <direction = "LEFT"> (x, by)
}
"""
INPUTS = {"x": np.array([1, -1], np.int8), "by": np.array([8, -1], np.int8)}
RIGHT = np.array([0, 0], np.int8)
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
