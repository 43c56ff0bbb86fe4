"""Virtual devices are a lattice, and a compilation has a host and a default device (rows V1 and V4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from assay.semantics.compilation import CPU as PLAIN_CPU, CompilationConfig, read_device
from assay.semantics.devices import ANYWHERE, GLOBAL, TYPES, VirtualDevice, kind_of
from assay.semantics.errors import Invalid

FIELDS = ("type", "id", "target", "scope")
OPEN = {"type": "", "id": -1, "target": "", "scope": ""}


def _all() -> list[VirtualDevice]:
    """Every device of a small world."""
    made = []
    for parts in itertools.product(
        ("", "cpu", "cuda", "npu"),
        (-1, 0, 1),
        ("", "llvm", "cuda", "cuda -arch=sm_80", "own -fast"),
        ("", "global", "shared"),
    ):
        try:
            made.append(VirtualDevice(*parts))
        except Invalid:
            continue
    return list(dict.fromkeys(made))


ALL = _all()
some = st.sampled_from(ALL)


def said(d: VirtualDevice) -> dict[str, object]:
    """The fields that a device does not leave open."""
    return {f: getattr(d, f) for f in FIELDS if getattr(d, f) != OPEN[f]}


# --- the lattice (V1) ---------------------------------------------------------------------------------------------


@pytest.mark.row("V1")
@given(some, some)
def test_join_says_what_both_say(a: VirtualDevice, b: VirtualDevice) -> None:
    assert a.join(a) == a and a.join(ANYWHERE) == a and ANYWHERE.join(a) == a
    both = a.join(b)
    assert b.join(a) == both
    conflict = any(said(a)[f] != said(b)[f] for f in said(a).keys() & said(b).keys())
    assert (both is None) == conflict == (not a.agrees(b))
    if both is not None:
        assert both.covers(a) and both.covers(b)
        assert said(both) == {**said(a), **said(b)}
        assert (a.covers(b)) == (both == a)


@pytest.mark.row("V1")
@given(some, some)
def test_join_is_the_least_that_covers_both(a: VirtualDevice, b: VirtualDevice) -> None:
    both = a.join(b)
    above = [d for d in ALL if d.covers(a) and d.covers(b)]
    assert (both is None) == (not above)
    assert both is None or (both in above and all(d.covers(both) for d in above))


@pytest.mark.row("V1")
@given(some, some, some)
def test_join_is_associative(a: VirtualDevice, b: VirtualDevice, c: VirtualDevice) -> None:
    ab, bc = a.join(b), b.join(c)
    left = None if ab is None else ab.join(c)
    right = None if bc is None else a.join(bc)
    assert left == right
    if left is not None and a.covers(b) and b.covers(c):
        assert a.covers(c)


@pytest.mark.row("V1")
@given(some, some)
def test_default_keeps_what_is_said(a: VirtualDevice, b: VirtualDevice) -> None:
    made = a.default(b)
    assert made.covers(a) and made.default(b) == made and made.default(a) == made
    assert a.default(ANYWHERE) == a and ANYWHERE.default(b) == b
    assert made.id == (a.id if a.id >= 0 else b.id) and made.scope == (a.scope or b.scope)
    same = made.type == b.type or not b.type
    assert made.target == (a.target or (b.target if same else ""))
    both = a.join(b)
    if both is not None:
        assert made == both


@pytest.mark.row("V1")
def test_one_meaning_is_one_device() -> None:
    """A target that is for one type of device says it: the two ways of saying so are equal, and are met as one."""
    for target, of in TYPES.items():
        assert VirtualDevice(target=target) == VirtualDevice(of, target=target)
    assert VirtualDevice(target='{"kind": "cuda", "arch": "sm_80"}').type == "cuda"
    assert VirtualDevice(target="own -fast").type == ""
    assert VirtualDevice(target="cuda").join(VirtualDevice("cpu")) is None
    assert VirtualDevice(target="cuda").join(VirtualDevice("cuda", 1)) == VirtualDevice("cuda", 1, "cuda")
    assert (kind_of('{"kind": "llvm"}'), kind_of(" llvm -mcpu=x"), kind_of("")) == ("llvm", "llvm", "")


@pytest.mark.row("V1")
def test_upstreams_cases() -> None:
    """What tests/cpp/target/virtual_device_test.cc of TVM says. Its third pair that cannot be joined is two objects of
    one target; a target is a text here, so those two are equal (apache/tvm#12095), and two different texts stand for
    it."""
    full = VirtualDevice("cuda", 3, "cuda", "global")
    joined = [
        (VirtualDevice("cuda", 3), VirtualDevice("cuda", -1, "cuda", "global"), full),
        (VirtualDevice("cuda", -1, "cuda", "global"), VirtualDevice("cuda", 3), full),
        (VirtualDevice("cuda"), VirtualDevice("cuda", 2, "cuda"), VirtualDevice("cuda", 2, "cuda")),
        (VirtualDevice(), full, full),
    ]
    for a, b, both in joined:
        assert a.join(b) == both
    apart = [
        (VirtualDevice("cuda"), VirtualDevice("cpu")),
        (VirtualDevice("cuda", 3), VirtualDevice("cuda", 4)),
        (VirtualDevice("cuda", 3, "cuda"), VirtualDevice("cuda", 3, "cuda -arch=sm_80")),
        (VirtualDevice("cuda", 3, "cuda", "local"), VirtualDevice("cuda", 3, "cuda", "global")),
    ]
    for a, b in apart:
        assert a.join(b) is None
    left, right = VirtualDevice("cuda", -1, "", "global"), VirtualDevice("cuda", 3, "cuda", "local")
    assert left.default(right) == full
    # the cache: equal devices are equal wherever they were made, and serve as keys
    assert len({full, VirtualDevice("cuda", 3, "cuda", "global"), VirtualDevice("cuda", 3, "cuda", "local")}) == 2


@pytest.mark.row("V1")
@pytest.mark.parametrize(
    "parts", [("cpu", -1, "cuda"), ("cuda", 0, "llvm -mcpu=x"), ("npu", 0, '{"kind": "metal"}'), ("cuda", -2, "")]
)
def test_what_is_no_device(parts: tuple[str, int, str]) -> None:
    with pytest.raises(Invalid, match=r"\[device.C1\]"):
        VirtualDevice(*parts)


@pytest.mark.row("V1")
def test_places_and_words() -> None:
    d = VirtualDevice("cuda", 1, "cuda -arch=sm_80", "global.texture")
    assert d.is_full and not d.place.is_full and d.place.join(VirtualDevice(scope=d.scope)) == d
    assert str(d) == "cuda:1 (cuda -arch=sm_80) global.texture"
    assert (str(ANYWHERE), str(VirtualDevice(scope="shared")), str(VirtualDevice("cpu", 0))) == (
        "anywhere",
        "any shared",
        "cpu:0",
    )


# --- what a program is compiled for (V4) --------------------------------------------------------------------------

CPU, LLVM = VirtualDevice("cpu", 0, "c"), VirtualDevice("cpu", 0, "llvm -mcpu=native")
CUDA = VirtualDevice("cuda", 0, "cuda -arch=sm_80")
METAL = VirtualDevice("metal", 0, "metal")


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", VirtualDevice("cpu")),
        ("c", VirtualDevice("cpu", target="c")),
        ("llvm", VirtualDevice("cpu", target="llvm")),
        ("llvm -mcpu=native", VirtualDevice("cpu", target="llvm -mcpu=native")),
        ("cuda:1", VirtualDevice("cuda", 1)),
        ("cuda:0=cuda -arch=sm_80", CUDA),
        ("cuda = nvptx -x=y", VirtualDevice("cuda", target="nvptx -x=y")),
        ("npu:2=own -fast", VirtualDevice("npu", 2, "own -fast")),
        ("own-kind -fast", VirtualDevice("own-kind", target="own-kind -fast")),
        ('{"kind": "cuda", "arch": "sm_80"}', VirtualDevice("cuda", target='{"kind": "cuda", "arch": "sm_80"}')),
    ],
)
def test_how_a_device_is_written(text: str, device: VirtualDevice) -> None:
    assert read_device(text) == device


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    "text", ["", " ", ":0", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "=cuda", "cuda:0=", '{"no": 1}', "-mcpu=native"]
)
def test_what_names_no_device(text: str) -> None:
    with pytest.raises(Invalid, match=r"\[device.C2\]"):
        read_device(text)


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    ("devices", "roles", "wanted"),
    [
        # one device: it is the default, and a plain cpu is the host where it is none
        (["cpu"], {}, ([CPU], CPU, CPU)),
        (["llvm -mcpu=native"], {}, ([LLVM], LLVM, LLVM)),
        (["cuda:0=cuda -arch=sm_80"], {}, ([CUDA, PLAIN_CPU], PLAIN_CPU, CUDA)),
        # several: the only cpu is the host, and the default
        (["cuda:0=cuda -arch=sm_80", "cpu"], {}, ([CUDA, CPU], CPU, CPU)),
        (["cuda:0=cuda -arch=sm_80", "cpu"], {"default": "cuda"}, ([CUDA, CPU], CPU, CUDA)),
        (["cuda:0=cuda -arch=sm_80", "metal"], {"default": "metal"}, ([CUDA, METAL, PLAIN_CPU], PLAIN_CPU, METAL)),
        # an explicit host: one of them, or one more; it may be the default
        (
            ["cpu:0", "cpu:1=llvm"],
            {"host": "cpu:1"},
            ([CPU, VirtualDevice("cpu", 1, "llvm")], VirtualDevice("cpu", 1, "llvm"), VirtualDevice("cpu", 1, "llvm")),
        ),
        (["cuda:0=cuda -arch=sm_80"], {"host": "llvm -mcpu=native"}, ([CUDA, LLVM], LLVM, CUDA)),
        (["cuda:0=cuda -arch=sm_80"], {"host": "cpu", "default": "cpu"}, ([CUDA, CPU], CPU, CPU)),
        (
            ["hexagon"],
            {"host": "hexagon"},
            (
                [VirtualDevice("hexagon", 0, "hexagon")],
                VirtualDevice("hexagon", 0, "hexagon"),
                VirtualDevice("hexagon", 0, "hexagon"),
            ),
        ),
    ],
)
def test_host_and_default(
    devices: list[str], roles: dict[str, str], wanted: tuple[list[VirtualDevice], VirtualDevice, VirtualDevice]
) -> None:
    config = CompilationConfig.read(devices, **roles)
    assert (list(config.devices), config.host, config.default) == wanted
    assert config.host in config.devices and config.default in config.devices
    assert CompilationConfig.make(config.devices, config.host, config.default) == config


@pytest.mark.row("V4")
@pytest.mark.parametrize(
    ("label", "says", "devices", "roles"),
    [
        ("config.C1", "name a device", [], {}),
        ("config.C2", "leave it out", [VirtualDevice("cuda", 0, scope="shared")], {}),
        ("config.C2", "say it", [VirtualDevice(id=3)], {}),
        ("config.C3", "its own id", [CUDA, VirtualDevice("cuda", 0, "cuda")], {}),
        ("config.C3", "its own id", [VirtualDevice("cuda"), VirtualDevice("cuda", 0)], {}),
        ("config.C4", "say which one it is", [CPU, VirtualDevice("cpu", 1)], {}),
        ("config.C4", "among the devices it is cpu:0", [CPU], {"host": LLVM}),
        ("config.C4", "without a scope", [CPU], {"host": VirtualDevice("cpu", scope="global")}),
        ("config.C5", "which is not there; there are", [CUDA, CPU], {"default": METAL}),
        ("config.C5", "one of", [CUDA, CPU], {"default": ANYWHERE}),
        ("config.C5", "say which one is the default", [CUDA, METAL], {}),
    ],
)
def test_what_is_contradictory(
    label: str, says: str, devices: list[VirtualDevice], roles: dict[str, VirtualDevice]
) -> None:
    with pytest.raises(Invalid) as wrong:
        CompilationConfig.make(devices, **roles)
    assert wrong.value.label == label and says in str(wrong.value)


@pytest.mark.row("V4")
@given(some)
def test_canonical(d: VirtualDevice) -> None:
    config = CompilationConfig.read(["cuda:0=cuda", "cuda:1=cuda -arch=sm_80", "llvm"], default="cuda:1")
    there = [c for c in config.devices if c.agrees(d.place)]
    if not there:
        with pytest.raises(Invalid, match=r"there are .*\[config.C6\]"):
            config.canonical(d)
        return
    made = config.canonical(d)
    assert made.is_full and made.covers(d) and made.place in there and config.canonical(made) == made
    assert made.scope == (d.scope or GLOBAL)
    assert made.place == (config.default if config.default in there else there[0])


@pytest.mark.row("V4")
def test_upstreams_configurations() -> None:
    """What tests/cpp/target/compilation_config_test.cc of TVM and the tests of its earlier form say.

    Not restated: the host inside of a target (a target has no host here: the configuration has one), the map of legacy
    targets, the one target of a homogeneous compilation, and the order of targets of external code generators, which
    are no devices here: a function says by its attribute `compiler` who compiles it, and two targets of one device are
    config.C3. An explicit host beside a cpu of another target is one device here (config.C4), there two.
    """
    # homogeneous, host by default; the default device is the only one
    config = CompilationConfig.make([CUDA])
    assert (config.host, config.default) == (PLAIN_CPU, CUDA)
    # homogeneous, a cpu: it is the host too
    config = CompilationConfig.make([LLVM])
    assert config.host == config.default == LLVM
    # heterogeneous, the fallback device is said
    config = CompilationConfig.make([LLVM, CUDA], default=VirtualDevice("cuda"))
    assert (config.host, config.default) == (LLVM, CUDA)
    # heterogeneous, with an explicit host
    assert CompilationConfig.make([LLVM, CUDA], VirtualDevice("cpu"), VirtualDevice("cuda")) == config
    # a fallback of no type, of a type without a device; none, and no cpu
    for default in (ANYWHERE, METAL):
        with pytest.raises(Invalid, match="config.C5"):
            CompilationConfig.make([CUDA], default=default)
    with pytest.raises(Invalid, match="config.C5"):
        CompilationConfig.make([CUDA, VirtualDevice("ext_dev")])
    # canonical: a type becomes the device that there is; there, nothing said is an error: here it is the default device
    assert config.canonical(VirtualDevice("cpu")) == LLVM.default(VirtualDevice(scope=GLOBAL))
    assert config.canonical(VirtualDevice("cuda")).target == CUDA.target
    assert config.canonical(ANYWHERE).place == CUDA
    with pytest.raises(Invalid, match="config.C6"):
        config.canonical(VirtualDevice(id=3, scope="local"))
    with pytest.raises(Invalid, match="config.C6"):
        config.canonical(VirtualDevice("metal"))
