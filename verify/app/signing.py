"""Signatures of certificates by a key of the user's (specs/verify.md, "Certificate"): Ed25519, by the package
cryptography, which is imported here alone.

    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out key.pub.pem
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from assay.semantics.errors import Invalid
from assay.semantics.files import read_bytes

LENGTH = 64
"""Bytes of a signature."""


def signer(path: Path) -> Callable[[bytes], bytes]:
    """What signs with the private key in a PEM file. Invalid (certificate.C6): there is no such key, or no
    cryptography."""
    key = _key(path, "private")
    return lambda data: bytes(key.sign(data))


def verifier(path: Path) -> Callable[[bytes, bytes], bool]:
    """What says whether a signature of some data was made with the key whose public half is in a PEM file. Invalid as
    `signer`."""
    key = _key(path, "public")
    wrong = import_module("cryptography.exceptions").InvalidSignature

    def holds(signature: bytes, data: bytes) -> bool:
        try:
            key.verify(signature, data)
        except wrong:
            return False
        return True

    return holds


def _key(path: Path, half: str) -> Any:
    try:
        reading: Any = import_module("cryptography.hazmat.primitives.serialization")
        kinds: Any = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError:
        raise Invalid(
            "signatures need the package cryptography; pip install 'assay[sign]'", label="certificate.C6"
        ) from None
    try:
        data = read_bytes(path)
    except OSError as wrong:
        raise Invalid(f"cannot be read: {wrong.strerror}", where=str(path), label="certificate.C6") from None
    try:
        key = reading.load_pem_private_key(data, None) if half == "private" else reading.load_pem_public_key(data)
    except Exception as wrong:  # noqa: BLE001  (it raises what it likes on what is no key)
        message = f"is no {half} key in PEM that can be read: {wrong}"
        raise Invalid(message, where=str(path), label="certificate.C6") from None
    if not isinstance(key, getattr(kinds, f"Ed25519{half.capitalize()}Key")):
        raise Invalid(f"is a {type(key).__name__}; an Ed25519 key is wanted", where=str(path), label="certificate.C6")
    return key
