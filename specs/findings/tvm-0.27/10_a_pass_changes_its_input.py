"""tirx.AnnotateEntryFunc changes the module that it is given, and returns that very module.

Passes take a module and return one (documentation of tvm.transform.Pass); modules are copied on write. Who keeps the
module from before a pass, to compare with it, has another one afterwards.
"""

import sys

import tvm
from tvm.script import tirx as T
from tvm_ffi import structural_hash


@T.prim_func(s_tir=True)
def f(a: T.Buffer((2,), "float32")):
    a[0] = a[1]


def case():
    before = tvm.IRModule({"f": f.without_attr("tirx.is_entry_func")})
    hashed = structural_hash(before)
    tvm.tirx.transform.AnnotateEntryFunc()(before)
    return "the module before is another one", "it is the same", structural_hash(before) != hashed


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)
