"""LSTM takes no notice of peepholes.

LSTM: 'ft = f(Xt*(Wf^T) + Ht-1*(Rf^T) + Pf (.) Ct-1 + Wbf + Rbf)'. All weights are 0 but Pf, which is 2, and the cell
begins at 1: it becomes the sigmoid of 2, of which half the hyperbolic tangent is given out.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,1] x, float[1,4,1] w, float[1,4,1] r, float[1,8] b, float[1,1,1] h, float[1,1,1] c, float[1,3] p)
    => (float[1,1,1] y) {
    _, y = LSTM <hidden_size = 1> (x, w, r, b, , h, c, p)
}
"""
INPUTS = {
    "x": np.zeros((1, 1, 1), np.float32),
    "w": np.zeros((1, 4, 1), np.float32),
    "r": np.zeros((1, 4, 1), np.float32),
    "b": np.zeros((1, 8), np.float32),
    "h": np.zeros((1, 1, 1), np.float32),
    "c": np.ones((1, 1, 1), np.float32),
    "p": np.array([[0, 0, 2]], np.float32),
}
RIGHT = np.array([[[0.3534092]]], np.float32)
WITHIN = 1e-6
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
