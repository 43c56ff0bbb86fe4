"""HammingWindow begins at 0.0869560.

HammingWindow: 'Generates a Hamming window as described in the paper', of 25/46 and 21/46 by its function in ONNX: it
begins at 4/46. What is given is the difference of two constants of six digits.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32 n) => (float[2] y) {
    y = HammingWindow(n)
}
"""
INPUTS = {"n": np.array(2, np.int32)}
RIGHT = np.array([0.08695652, 1], np.float32)
WITHIN = 1e-6
"""Ten units in the last place."""


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
