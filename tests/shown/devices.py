"""Rows on virtual devices, through commands."""

from __future__ import annotations

from tests.shown.case import Shown

ON_TWO = """
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        return R.add(R.exp(x), x)
    @R.function
    def main(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        u = A.on_device(Module.f(a), "cuda", constrain_body=True, constrain_result=True)
        v = A.on_device(Module.f(b), "cpu", constrain_body=True, constrain_result=True)
        return (u, v)
"""
"""A function that is annotated on two devices by its calls."""

SAYS = ON_TWO.replace("R.exp(x)", 'A.on_device(R.exp(x), "cuda", constrain_body=True, constrain_result=True)')
CALLED = (
    ON_TWO.replace("def main", 'def g(x: R.Tensor((4,), "float32")):\n        return Module.f(x)\n    @R.function\n    def main')
    .replace("Module.f(a)", "Module.g(a)")
    .replace("Module.f(b)", "Module.g(b)")
)
RECURSIVE = """
    @R.function
    def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if R.less(R.sum(x), R.const(3, "float32")):
            r = Module.f(R.add(x, R.const(1, "float32")))
        else:
            r = x
        return r
""" + ON_TWO[ON_TWO.index("    @R.function\n    def main") :]

DEVICES = "--on cuda --on cpu --stop-after anf"
SAME = r"devices checked .* 2 devices, 1 copy; .*the source without devices; planned again the same"

SHOWN: tuple[Shown, ...] = (
    Shown("V21", "check FILE.py --on cuda --on cpu --dump DIR", ON_TWO, (SAME, "compare tested"), files={"02-devices.py": r"(?s)cls\.f_cuda\(a\).*cls\.f_cpu.*\(b\).*def f_cpu.*def f_cuda"}),
    Shown("V21", f"check FILE.py --dump DIR {DEVICES}", CALLED, (SAME,), files={"02-devices.py": r"(?s)(?=.*def f_cpu).*def g_cpu"}),
    Shown("V21", f"check FILE.py --dump DIR {DEVICES}", RECURSIVE, (SAME.replace("1 copy", "3 copies"),), files={"02-devices.py": r"(?s)cls\.f_cpu.*def f_cpu"}),
    Shown("V21 V11", f"check FILE.py --dump DIR {DEVICES}\ncheck DIR/03-anf.py {DEVICES}", ON_TWO, (f"{SAME}.*{SAME}",)),
    Shown("V21", f"check FILE.py {DEVICES}", SAYS, (r"is said to be on (cpu|cuda).*\[devices.C1\]",), code=2),
)
