"""Rows on passes, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

SMALL = """
    @R.function
    def main(x: R.Tensor((4, 3), "float32")):
        y = R.exp(x)
        z = R.add(y, x)
        return R.tanh(z)
"""
STAGES = ("import", "devices", "anf", "legalize", "fuse", "constants", "schedule", "liveness", "pool")

SHOWN: tuple[Shown, ...] = (
    Shown(
        "A22",
        "check FILE.py --dump DIR --stop-after pool",
        SMALL,
        (r" ".join(rf"{s} \w+ +[\d.]+ s .*" for s in STAGES), "pool proved.*$"),
        files={
            "03-anf.py": r"R\.exp\(x\)",
            "04-legalize.py": r"cls\.exp",
            "05-fuse.py": "exp_add_tanh|fused",
            "09-pool.main.txt": r"steps\[0\]",
        },
    ),
    Shown("A22", "check FILE.py --skip fuse --stop-after fuse", SMALL, ("fuse proved .*3 to 3 calls",)),
    Shown("A22", "check FILE.py --stop-after fuse", SMALL, ("fuse proved .*3 to 1 call;.*$",)),
    Shown("A22", "check FILE.py --skip anf", SMALL, (r"--skip takes fuse or schedule, not 'anf'",), code=2),
    Shown("A22", "check FILE.py --stop-after end", SMALL, (r"--stop-after takes one of import, .*not 'end'",), code=2),
    Shown("A22", "check FILE.py --dump FILE.py", SMALL, (r"cannot write: .*\[output\.C1\]",), code=2),
    Shown(
        "A15",
        "build FILE.py -o DIR --interface packed",
        SMALL,
        ("compare tested",),
        files={"FILE.c": r"(?s)__tvm_ffi_FILE_run\(.*__tvm_ffi_FILE\(.*__tvm_ffi_main\(.*__tvm_ffi_run\("},
    ),
    Shown(
        "A22",
        "build FILE.py -o DIR --skip fuse --dump DIR/../stages\ncheck stages/02-devices.py --stop-after"
        " anf\nverify DIR",
        SMALL,
        ("fuse proved .*3 to 3 calls", "certificate checked"),
    ),
)
