"""The archive that `torch.export.save` writes, read without PyTorch (specs/lower.md, "torch.export").

It is a zip file of a program as JSON and of tensors as plain bytes. Whatever is a pickle in it is never read: one can
run any code.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.budget import claim
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.walk import pre_order

Array = np.ndarray[Any, Any]
Json = dict[str, Any]

MAJOR = 8
"""The version of the schema of the JSON that is read; PyTorch changes it when older readers cannot read it."""
MOST_JSON = 1 << 28
"""Bytes of the program's JSON at most."""
MOST_FILES = 1 << 17

ELEMENTS: Mapping[int, DType] = {
    1: DTYPES["uint8"], 2: DTYPES["int8"], 3: DTYPES["int16"], 4: DTYPES["int32"], 5: DTYPES["int64"],
    6: DTYPES["float16"], 7: DTYPES["float32"], 8: DTYPES["float64"], 12: DTYPES["bool"], 13: DTYPES["bfloat16"],
    28: DTYPES["uint16"], 29: DTYPES["float8_e4m3fn"], 30: DTYPES["float8_e5m2"], 31: DTYPES["float8_e4m3fnuz"],
    32: DTYPES["float8_e5m2fnuz"], 34: DTYPES["uint32"], 35: DTYPES["uint64"],
}  # fmt: skip
"""ScalarType of the schema."""
UNREAD_ELEMENTS = {0: "unknown", 9: "complex32", 10: "complex64", 11: "complex128", 33: "float8_e8m0fnu"}


def element(number: object) -> DType:
    """A dtype by its number in the schema. Unsupported (`torch_export.C3`): there is none."""
    if isinstance(number, int) and number in ELEMENTS:
        return ELEMENTS[number]
    name = UNREAD_ELEMENTS.get(number, number) if isinstance(number, int) else number
    raise Unsupported(f"elements of type {name} are not handled", label="torch_export.C3")


def broken(why: str) -> Invalid:
    """The failure (`torch_export.C1`) for a file that is no archive of a program."""
    return Invalid(f"no program of torch.export: {why}", label="torch_export.C1")


@dataclass
class Archive:
    """A program and its tensors: parameters and buffers by name, and constants by name."""

    program: Json
    weights: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    pickled: frozenset[str] = frozenset()
    """The names of tensors that are pickles, and are not read."""
    sharing: dict[str, frozenset[str]] = field(default_factory=dict)
    """By the name of a tensor the other tensors that lie in the same memory, some elsewhere in it."""


def read_archive(data: bytes) -> Archive:
    """The program in an archive. Invalid (`torch_export.C1`): it is none; Unsupported (`torch_export.C2`): of a form
    that is not read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return _read(file)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError) as wrong:
        raise broken(f"the zip file cannot be read ({wrong})") from None


def _read(file: zipfile.ZipFile) -> Archive:
    names = file.namelist()
    if len(names) > MOST_FILES or len(set(names)) != len(names):
        raise broken("a name is there twice, or there are too many files")
    roots = {n.partition("/")[0] for n in names}
    if len(roots) != 1:
        raise broken("its files are not in one folder")
    (root,) = roots
    models = [n for n in names if n.startswith(f"{root}/models/") and n.endswith(".json")]
    if not models:
        if any(n.endswith("serialized_exported_program.json") for n in names):
            message = "the file is of a PyTorch before 2.8, whose weights are pickles; save it with a newer one"
            raise Unsupported(message, label="torch_export.C2")
        raise broken("it has no models/NAME.json")
    if len(models) > 1:
        raise Unsupported(f"the file has {len(models)} programs; one is read", label="torch_export.C2")
    order = f"{root}/byteorder"
    if order in names and _bytes(file, order).strip() != b"little":
        raise Unsupported("its tensors are big-endian", label="torch_export.C2")
    name = models[0].rpartition("/")[2].removesuffix(".json")
    made = Archive(_json(_bytes(file, models[0])))
    version = made.program.get("schema_version")
    if not isinstance(version, dict) or version.get("major") != MAJOR:
        message = f"its schema is of version {version}; {MAJOR} is read, that of PyTorch 2.8 and later"
        raise Unsupported(message, label="torch_export.C2")
    pickled: set[str] = set()
    for folder, into in (("weights", made.weights), ("constants", made.constants)):
        config = f"{root}/data/{folder}/{name}_{folder}_config.json"
        if config in names:
            said = _json(_bytes(file, config))
            pickled |= _tensors(file, f"{root}/data/{folder}/", said, into)
            made.sharing |= _sharing(said.get("config", {}), into)
    made.pickled = frozenset(pickled)
    return made


def _bytes(file: zipfile.ZipFile, name: str, most: int = MOST_JSON) -> bytes:
    info = file.getinfo(name)
    if info.file_size > most:
        raise broken(f"{name} has {info.file_size} bytes; {most} are the most")
    claim(info.file_size, name)
    with file.open(info) as part:
        found = part.read(info.file_size + 1)
    if len(found) != info.file_size:
        raise broken(f"{name} has {len(found)} bytes, not {info.file_size}")
    return found


def _json(text: bytes) -> Json:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise broken(f"its JSON cannot be read ({str(wrong)[:200]})") from None
    if not isinstance(found, dict):
        raise broken("its JSON is no object")
    return found


def _tensors(file: zipfile.ZipFile, folder: str, config: Json, into: dict[str, Array]) -> set[str]:
    """Read the tensors that a table lists; the names of those that are pickles."""
    pickled: set[str] = set()
    for name, said in config.get("config", {}).items():
        try:
            path, meta = folder + said["path_name"], said["tensor_meta"]
            if said["use_pickle"] or meta is None:
                pickled.add(name)
                continue
            into[name] = _tensor(name, _bytes(file, path, most=1 << 40), meta)
        except (KeyError, TypeError, AttributeError):
            raise broken(f"what is said of the tensor {name} is not of its form") from None
    return pickled


def _sharing(config: Json, read: Collection[str]) -> dict[str, frozenset[str]]:
    """Tensors that were read and are not all the same part of one storage, each with the others."""
    storages: dict[str, dict[str, list[Any]]] = {}
    for name in read:
        meta = config[name]["tensor_meta"]
        part = [meta[p] for p in ("sizes", "strides", "storage_offset")]
        storages.setdefault(config[name]["path_name"], {})[name] = part
    found: dict[str, frozenset[str]] = {}
    for group in storages.values():
        if any(part != next(iter(group.values())) for part in group.values()):
            found |= {name: frozenset(group) - {name} for name in group}
    return found


def _tensor(name: str, data: bytes, meta: Json) -> Array:
    """A tensor as it lies in its storage: sizes, strides and an offset, all in elements."""
    of = element(meta["dtype"])
    shape = [known_size(name, d) for d in meta["sizes"]]
    strides = [known_size(name, d) for d in meta["strides"]]
    start = known_size(name, meta["storage_offset"])
    if meta["layout"] != 7:
        raise Unsupported(f"the tensor {name} is sparse", label="torch_export.C2")
    width = of.numpy.itemsize
    last = start + sum((d - 1) * s for d, s in zip(shape, strides, strict=True)) if 0 not in shape else -1
    if last >= len(data) // width:
        # PyTorch writes a storage that is larger than its tensor as the tensor alone
        raise broken(f"the tensor {name} has {len(data)} bytes, too few for its sizes and strides")
    if 0 in shape:
        return np.zeros(shape, of.numpy)
    flat = np.frombuffer(data, of.numpy, count=len(data) // width)[start:]
    view = np.lib.stride_tricks.as_strided(flat, shape, [s * width for s in strides], writeable=False)
    return np.array(view)


def known_size(name: str, of: Json) -> int:
    """A size that is a number, of 0 or more."""
    size = of.get("as_int")
    if not isinstance(size, int) or size < 0:
        raise broken(f"a size or a stride of {name} is {of}; a number is wanted")
    return size


def plain_archive(archive: Archive) -> bytes:
    """The program again, as an archive that PyTorch reads: nothing but what was read here, no pickle, no code as text
    and no notes. For a program that was translated whole, so that every word of it is known."""
    program = _without_notes(archive.program)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:

        def add(name: str, data: bytes | str) -> None:
            file.writestr(zipfile.ZipInfo(name), data)  # which has no time of now: the same program is the same bytes

        add("a/archive_format", "pt2")
        add("a/archive_version", "0")
        add("a/byteorder", "little")
        add("a/.data/version", "3\n")
        add("a/models/model.json", json.dumps(program))
        for folder, stem, tensors in (
            ("weights", "weight", archive.weights),
            ("constants", "tensor", archive.constants),
        ):
            config = {}
            for k, (name, array) in enumerate(tensors.items()):
                add(f"a/data/{folder}/{stem}_{k}", np.ascontiguousarray(array).tobytes())
                config[name] = _payload(f"{stem}_{k}", array, folder == "weights" and name in _parameters(program))
            add(f"a/data/{folder}/model_{folder}_config.json", json.dumps({"config": config}))
    return out.getvalue()


def _parameters(program: Json) -> set[str]:
    specs = program["graph_module"]["signature"]["input_specs"]
    return {s["parameter"]["parameter_name"] for s in specs if "parameter" in s}


def _payload(path: str, array: Array, is_param: bool) -> Json:
    number = next(k for k, d in ELEMENTS.items() if d.numpy == array.dtype)
    steps = [int(np.prod(array.shape[a + 1 :], dtype=np.int64)) for a in range(array.ndim)]
    meta = {
        "dtype": number,
        "sizes": [{"as_int": d} for d in array.shape],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": s} for s in steps],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }
    return {"path_name": path, "is_param": is_param, "use_pickle": False, "tensor_meta": meta}


def _without_notes(program: Json) -> Json:
    """A copy in which nodes have no notes and the program has no guards as code."""
    made: Json = json.loads(json.dumps(program))
    made["guards_code"] = []
    made["graph_module"]["metadata"] = {}
    _in_own_containers(made)
    for graph in pre_order(made["graph_module"]["graph"], inner_graphs):
        for node in graph["nodes"]:
            node["metadata"] = {}
    return made


CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
"""What PyTorch itself puts several values into."""


def _in_own_containers(program: Json) -> None:
    """Put tuples in place of containers that somebody has told PyTorch of, such as a library's outputs of a model: the
    process that is given the program does not know them, and only what is in them counts."""
    for call in program["graph_module"].get("module_call_graph") or ():
        for name in ("in_spec", "out_spec"):
            given = (call.get("signature") or {}).get(name)
            if not given:
                continue
            version, tree = json.loads(given)
            for node in pre_order(tree, lambda n: n["children_spec"]):
                if node["type"] is not None and node["type"] not in CONTAINERS:
                    node.update(type="builtins.tuple", context="null")
            call["signature"][name] = json.dumps([version, tree])


def inner_graphs(graph: Json) -> list[Json]:
    """The graphs that are arguments of a graph's nodes."""
    return [i["arg"]["as_graph"]["graph"] for n in graph["nodes"] for i in n["inputs"] if "as_graph" in i["arg"]]
