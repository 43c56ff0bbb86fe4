"""SoftmaxCrossEntropyLoss divides by a whole number.

SoftmaxCrossEntropyLoss: 'ReduceSum(L) / ReduceSum(W)', where W has the weights of the labels, here 0.5: what is given
is divided by 0, as if it were cut off.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[1,2] x, int64[1] label, float[2] w) => (float y) {
    y = SoftmaxCrossEntropyLoss(x, label, w)
}
"""
INPUTS = {
    "x": np.zeros((1, 2), np.float32),
    "label": np.array([1], np.int64),
    "w": np.array([0.5, 0.5], np.float32),
}
RIGHT = np.array(0.6931472, np.float32)
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
