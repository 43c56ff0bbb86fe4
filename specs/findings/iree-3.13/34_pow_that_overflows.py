"""Pow of 0.25 and the constant -100 is -inf.

Pow: 'the function `f(x) = x^exponent`, is applied to the data tensor elementwise'. No power of a number above 0 is
below. 0.25^100 is 0 in float32. With an exponent that is no constant it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    z = Constant <value = float {-100.0}> ()
    y = Pow(x, z)
}
"""
INPUTS = {"x": np.array([0.25], np.float32)}
RIGHT = np.array([np.inf], np.float32)
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
