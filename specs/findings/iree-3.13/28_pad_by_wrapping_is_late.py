"""Pad by wrapping over three axes is compiled without end.

Pad: '`wrap` - wrap-around padding as if the data tensor forms a torus'. The other modes are compiled in a second; over
one axis or two the mode is refused.
"""

import os
import signal
import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,2] x) => (float[1,1,3] y) {
    p = Constant <value = int64[6] {0, 0, 1, 0, 0, 0}> ()
    y = Pad <mode = "wrap"> (x, p)
}
"""
INPUTS = {"x": np.array([[[1, 2]]], np.float32)}
RIGHT = np.array([[[2, 1, 2]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def run():
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


def given():
    """Nothing, if it takes more than twenty seconds; the compiler is a process of its own, and ends with it."""
    command = [sys.executable, __file__, "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        try:
            said, _ = started.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return np.zeros(0, RIGHT.dtype)
    return np.array(said.split(), RIGHT.dtype).reshape(RIGHT.shape)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        print(*run().reshape(-1).tolist())
    else:
        print("given", given().tolist())
        print("right", RIGHT.tolist())
