"""Where values live (specs/semantics.md, "M8 Devices"). The pass "devices" plans what stands here; `specs/devices` has
more, with what TVM gives."""

n = TypeVar("n")
m = TypeVar("m")


@I.ir_module
class Module:
    A.devices({"cpu:0": ("cpu", 0, "llvm", "global"), "cuda:0": ("cuda", 0, "cuda", "global")})

    @R.function
    def main(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32"), c: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32"
    ):
        return R.subtract(A.on_device(R.add(a, b), "cpu"), c)

    @R.function
    def main_planned(
        a: A.on(R.Tensor((2,), dtype="float32"), "cpu:0"),
        b: A.on(R.Tensor((2,), dtype="float32"), "cpu:0"),
        c: R.Tensor((2,), dtype="float32"),
    ) -> R.Tensor((2,), dtype="float32"):
        A.home("cuda:0")
        return R.subtract(A.device_copy(A.on(R.add(a, b), "cpu:0")), c)

    @R.function
    def main_bare(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32"), c: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32"
    ):
        return R.subtract(R.add(a, b), c)

    @R.function
    def all_on_cuda(
        a: R.Tensor((2,), dtype="float32"), b: R.Tensor((2,), dtype="float32"), c: R.Tensor((2,), dtype="float32")
    ) -> R.Tensor((2,), dtype="float32"):
        A.home("cuda:0")
        return R.subtract(R.add(a, b), c)

    @R.function
    def shape(x: R.Tensor((n, m), "float32")) -> R.Shape([n, m]):
        return R.shape_of(A.on_device(x, "cuda", constrain_result=True))

    @R.function
    def shape_planned(x: A.on(R.Tensor((n, m), dtype="float32"), "cuda:0")) -> R.Shape([n, m]):
        A.home("cpu:0")
        return R.shape_of(x)

    @R.function
    def pair(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        t = (A.on_device(x, "cpu", constrain_result=True), y)
        return R.add(t[0], t[1])

    @R.function
    def pair_planned(x: R.Tensor((2,), dtype="float32"), y: R.Tensor((2,), dtype="float32")) -> R.Tensor(
        (2,), dtype="float32"
    ):
        A.home("cpu:0")
        t: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32")) = (x, y)
        return R.add(t[0], t[1])


A.same(
    "targets_say_the_type",
    "main",
    "main_planned",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="cpu is the type of llvm",
    rules="M8.1 M8.3 M8.4 M8.5",
)
A.refused(
    "target_of_another_type",
    """
@I.ir_module
class Module:
    A.devices({"odd:0": ("cuda", 0, "llvm", "global")})

    @R.function
    def main(x: A.on(R.Tensor((2,), "float32"), "odd:0")) -> R.Tensor((2,), "float32"):
        return x
""",
    label="device.C1",
    source="llvm is for a cpu",
    rules="M8.1",
)
A.same(
    "what_both_say",
    "pair",
    "pair_planned",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="a tuple and its fields are joined",
    rules="M8.2 M8.7",
)
A.refused(
    "what_one_denies",
    """
@I.ir_module
class Module:
    @R.function
    def f(p: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.abs(p)

    @R.function
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
        @R.function
        def k(p: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.negative(p)
        with A.graph():
            h = A.if_(c, A.on_device(k, "cpu"), A.on_device(cls.f, "cuda"))
            r = h(x)
        return r
""",
    label="devices.C1",
    stage="devices",
    devices="llvm; cuda; default cuda",
    source="the two are one value, and a function is never copied",
    rules="M8.2 M8.4 M8.7",
)
A.differs(
    "demands_are_not_left",
    "main",
    "main",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="after planning every field is said",
    rules="M8.3",
)
A.differs(
    "nothing_crosses_by_itself",
    "main",
    "all_on_cuda",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="the sum is on the cpu, by its annotation",
    rules="M8.5",
)
A.same(
    "shape_on_the_host",
    "shape",
    "shape_planned",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="what it is the shape of lives anywhere",
    rules="M8.6",
)
A.refused(
    "shape_on_the_device",
    """
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), "float32")) -> R.Shape([n]):
        return A.on_device(R.shape_of(x), "cuda", constrain_result=True)
""",
    label="devices.C1",
    stage="devices",
    devices="llvm; cuda; default cuda",
    source="a shape lives on the host",
    rules="M8.6",
)
A.same(
    "default_of_one",
    "main_bare",
    "all_on_cuda",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="nothing is demanded, so all is at the default",
    rules="M8.8",
)
A.refused(
    "no_such_device",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return A.on_device(R.negative(x), "vulkan", constrain_result=True)
""",
    label="config.C6",
    stage="devices",
    devices="llvm; cuda; default cuda",
    source="there is no vulkan here",
    rules="M8.8",
)
A.same(
    "erased",
    "main",
    "main_bare",
    after="devices erased",
    devices="llvm; cuda; default cuda",
    source="without devices it is what it was",
    rules="M8.9",
)
A.same(
    "planned_twice",
    "main_planned",
    "main_planned",
    after="devices",
    devices="llvm; cuda; default cuda",
    source="a planned program is its own plan",
    rules="M8.9",
)
A.differs(
    "erased_and_kept",
    "main",
    "main_planned",
    after="devices erased",
    devices="llvm; cuda; default cuda",
    source="the copy is gone",
    rules="M8.9",
)
A.case(
    "a_device_changes_no_value",
    inputs={"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]},
    expect={"output_0": [-1.0, 0.0]},
    source="by hand",
    rules="M8.5",
)
