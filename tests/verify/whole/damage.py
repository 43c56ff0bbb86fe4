"""Small random damage to the bytes of files and to the fields of models."""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import onnx

NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "255",
    "2147483648",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1" + "0" * 30,
    "9" * 5000,
    "1e400",
    "nan",
    "0x" + "f" * 5000,
    "0x10",
    "1.5",
    "-0",
    "007",
]
TEXTS = [
    "",
    "x",
    "x" * 100_000,
    "\0",
    "\x1b[2J",
    "\udcff",
    "../outside.txt",
    "/etc/passwd",
    "é",
    "None",
    "main",
    "T",
    "a b",
    "%s%n",
    "{}",
    "\n",
    "0",
    "-1",
    "float32",
    "bfloat16",
    "string",
    "n",
    "Add",
    "Loop",
]


# --- damage ---------------------------------------------------------------------------------------------------------


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few places changed, cut, doubled or moved."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice([1, 2, 8, 64]))
        match rng.randrange(7):
            case 0:
                out[at:end] = b""
            case 1:
                out[at:at] = rng.randbytes(rng.choice([1, 4, 32]))
            case 2 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 3:
                out[at:at] = out[at:end] * rng.choice([1, 2, 50])
            case 4 if at < len(out):
                out[at] = rng.choice(b"\x00\xff\x7f\x80\n\"'(,")
            case 5:
                out = out[:at] if rng.random() < 0.3 else out
            case _:
                other = rng.randrange(len(out) + 1)
                out[at:end] = out[other : other + end - at]
    return bytes(out)


def damage_text(text: str, rng: random.Random) -> bytes:
    """Numbers, words and lines changed; sometimes bytes."""
    if rng.random() < 0.2:
        return damage_bytes(text.encode(), rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        numbers = list(re.finditer(r"\d+", text))
        lines = text.splitlines(keepends=True)
        kind = rng.randrange(8)
        if kind < 3 and numbers:
            found = rng.choice(numbers)
            text = text[: found.start()] + rng.choice(NUMBERS) + text[found.end() :]
        elif kind < 5 and words:
            found, other = rng.choice(words), rng.choice(words)
            text = text[: found.start()] + rng.choice([other[0], other[0], rng.choice(TEXTS), ""]) + text[found.end() :]
        elif kind == 5 and lines:
            at = rng.randrange(len(lines))
            lines[at : at + 1] = rng.choice(
                [[], [lines[at]] * 2, [rng.choice(lines), lines[at]], [lines[at][:-1], "\\\n"]]
            )
            text = "".join(lines)
        elif kind == 6 and words:
            found = rng.choice(words)
            deep, (left, right) = rng.choice([20, 300, 3000]), rng.choice([("(", ")"), ("[", "]")])
            text = text[: found.start()] + left * deep + found[0] + right * deep + text[found.end() :]
        elif words:
            found = rng.choice(words)
            text = (
                text[: found.start()]
                + rng.choice(["*", "-", "[0]", "lambda: ", "await ", "f'{x}'", "...", "None", "x"])
                + text[found.start() :]
            )
    return text.encode("utf-8", "surrogatepass")


def damage_model(proto: onnx.ModelProto, rng: random.Random) -> bytes:
    """Fields of the messages set, cleared, doubled, exchanged; sometimes bytes."""
    if rng.random() < 0.25:
        return damage_bytes(proto.SerializeToString(), rng)
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    for _ in range(rng.choice([1, 1, 2, 3])):
        messages: list[Any] = [changed]
        for message in messages:
            for field, value in message.ListFields():
                if field.message_type is not None:
                    messages += list(value) if field.is_repeated else [value]
        message = rng.choice(messages)
        field = rng.choice(message.DESCRIPTOR.fields)
        with contextlib.suppress(ValueError, TypeError, OverflowError, AttributeError, UnicodeError):
            _damage_field(message, field, rng)
    return bytes(changed.SerializeToString())


def _damage_field(message: Any, field: Any, rng: random.Random) -> None:
    if rng.random() < 0.2:
        message.ClearField(field.name)
        return
    value = getattr(message, field.name)
    if field.is_repeated:
        if len(value) and rng.random() < 0.3:
            del value[rng.randrange(len(value))]
        elif field.message_type is not None:
            if len(value):
                value.add().CopyFrom(value[rng.randrange(len(value))])
            else:
                value.add()
        elif len(value) and rng.random() < 0.7:
            value[rng.randrange(len(value))] = _scalar(field, rng)
        else:
            value.append(_scalar(field, rng))
    elif field.message_type is not None:
        value.SetInParent()
    else:
        setattr(message, field.name, _scalar(field, rng))


def _scalar(field: Any, rng: random.Random) -> Any:
    if field.cpp_type in (field.CPPTYPE_STRING,):
        text = rng.choice(TEXTS)
        return text.encode("utf-8", "surrogatepass") if field.type == field.TYPE_BYTES else text
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")])
    return rng.choice([0, 1, -1, 2, 3, 7, 8, 11, 16, 21, 100, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63)])
