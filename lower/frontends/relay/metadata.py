"""The section `#[metadata]` of a Relay text: constants and virtual devices (specs/lower.md, "Relay").

It is JSON as `tvm.ir.save_json` wrote it: a list of nodes that name one another by their places, and tensors in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.lower.frontends.places import Places, Token
from assay.semantics.devices import DLPACK, VirtualDevice
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.strict_json import typed
from assay.semantics.text.constants_text import from_dlpack

Array = np.ndarray[Any, Any]


class Metadata:
    """What the section holds. Parts are read when they are asked for."""

    def __init__(self, places: Places, text: str | None) -> None:
        self.there = text is not None
        self.nodes: list[Mapping[str, Any]] = []
        self.tensors: list[str] = []
        self.table: dict[str, list[int]] = {}
        if text is None:
            return
        try:
            content = json.loads(text)
            self.nodes = content["nodes"]
            self.tensors = content.get("b64ndarrays", [])
            root = self.nodes[content["root"]]
            for kind, at in zip(root.get("keys", ()), root["data"], strict=True):
                self.table[kind] = list(self.nodes[at]["data"])
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            end = len(places.text)
            start = places.text.rfind("#[metadata]")
            message = "the section metadata is not of the form that TVM wrote: JSON with root, nodes and b64ndarrays"
            raise places.failure(Invalid, start, min(start + 11, end), message, "relay.C4") from None

    def value(self, places: Places, token: Token) -> Array | VirtualDevice:
        """What `meta[kind][number]` stands for."""
        found = re.fullmatch(r"meta\[\s*([\w.]+)\s*\]\s*\[\s*([0-9]+)\s*\]", token.text)
        assert found is not None
        kind, number = found.group(1), int(found.group(2))
        if not self.there:
            advice = "print it with mod.astext(show_meta_data=True)"
            message = f"the text has no section metadata, so {token.text} is not known: {advice}"
            raise places.failure(Invalid, token.start, token.end, message, "relay.C4")
        entries = self.table.get(kind, [])
        if number >= len(entries):
            message = f"the section metadata has {len(entries)} of {kind}"
            raise places.failure(Invalid, token.start, token.end, message, "relay.C4")
        try:
            node = self.nodes[entries[number]]
            if kind == "relay.Constant":
                return from_dlpack(base64.b64decode(self.tensors[int(node["attrs"]["data"])], validate=True))
            if kind == "VirtualDevice":
                return self.device(node["attrs"])
        except (binascii.Error, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
            message = f"{token.text} is not of the form that TVM wrote"
            raise places.failure(Invalid, token.start, token.end, message, "relay.C4") from None
        except Invalid as wrong:  # of the tensor's bytes
            raise places.failure(type(wrong), token.start, token.end, wrong.message, wrong.label) from None
        message = f"{kind} in the section metadata; relay.Constant and VirtualDevice are read"
        raise places.failure(Unsupported, token.start, token.end, message, "relay.C9")

    def device(self, attrs: Mapping[str, Any]) -> VirtualDevice:
        """The virtual device that a node of the section describes by DLPack's number, id, target and memory scope."""
        kind = int(attrs.get("device_type_int", -1))
        scope = self.nodes[int(attrs["memory_scope"])].get("repr_str", "") if "memory_scope" in attrs else ""
        target = self.nodes[int(attrs.get("target", 0))]
        named = target.get("attrs", {}).get("kind")
        name = self.nodes[int(named)].get("repr_str", "") if named is not None else ""
        of = DLPACK.get(kind, "" if kind < 1 else f"device{kind}")
        return VirtualDevice(of, int(attrs.get("virtual_device_id", -1)), typed(str, name), typed(str, scope))
