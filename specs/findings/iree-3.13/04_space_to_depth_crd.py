"""SpaceToDepth takes no notice of mode.

SpaceToDepth: 'Use CRD for column-row-depth order'. The attribute is new in version 28, which the model names: it is
taken, and read as if the attribute were not there.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[1,2,2,2] x) => (float[1,8,1,1] y) {
    y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x)
}
"""
INPUTS = {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)}
RIGHT = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
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
