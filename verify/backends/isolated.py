"""A backend in a process of its own, so that it may die (specs/verify.md, "Backends").

    with Isolated("onnxruntime", seconds=10.0) as backend:
        outcome = attempt(backend, subject, subject.outputs, inputs)

The process stays for the next program. One that dies or takes too long is replaced when it is next wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from types import TracebackType
from typing import Any

import onnx

from assay.lower.frontends.onnx.outside import files_of, size_of
from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid, Trap, Unsupported
from assay.semantics.types import TensorType
from assay.verify.backends.catalogue import split_place
from assay.verify.backends.channel import Garbled, packed, unpack
from assay.verify.backends.protocol import (
    ABSENT,
    OUTCOMES,
    Array,
    Crashed,
    Crossed,
    Prepared,
    Subject,
    UnreadSubject,
    cannot,
    whole,
    without_words,
)
from assay.verify.backends.registry import of_ours, require_known
from assay.verify.backends.talking import BEGINNING, CHILD, ProcessGone, Talking
from assay.verify.oracle.declarations import Accepts

LARGEST = 1 << 34
"""Bytes of the longest answer that is taken."""
COURIER = "assay.verify.backends.courier"
"""The module that is a process which carries requests to another machine."""
MOST_CARRIED = 2_000_000_000
"""Bytes of a model with all its data that are carried there: a message of protobuf holds hardly more."""
JOURNEY = 240.0
"""Seconds that an answer from there may take beside those of the backend: a worker that was lost may come back in
them."""
_LABEL = re.compile(r"[a-z_0-9.]{1,40}\.[A-Z][0-9]{1,3}")


@dataclass(eq=False)
class Isolated:
    """The backend of a name, in another process; of NAME@ADDRESS, on another machine. `seconds` is how long one answer
    may take.

    Raises what the backend raises, and Unsupported where its process died (backend.C5), took too long (backend.C6), or
    answers what is no answer (backend.C9); Invalid where nobody is at the address (backend.C12). The program goes there
    as its ONNX model, and only names, texts and arrays come back: the process is not trusted. A backend of another
    package is imported there, and not here.
    """

    name: str
    seconds: float = 60.0
    _numbers: Any = field(default_factory=count, init=False, repr=False)
    _process: Talking = field(init=False, repr=False)
    _greeted: bool = field(default=False, init=False, repr=False)
    """Whether the process has said that it is there."""

    def __post_init__(self) -> None:
        arguments = (self._address, f"{self.seconds}")
        self._process = Talking(COURIER, arguments, grace=3.0) if self._address else Talking(CHILD)

    @property
    def _there(self) -> str:
        """The name that the backend has where it runs."""
        return split_place(self.name)[0]

    @property
    def _address(self) -> str:
        """The scheduler through which it is asked, "" for this machine."""
        return split_place(self.name)[1]

    def begin(self) -> None:
        """Start the process, where there is none; whatever becomes of that is said by what is asked first."""
        if not self._process.is_running:
            self._process.start()
            self._greeted = False

    @cached_property
    def accepts(self) -> Accepts:
        """The freedoms that the backend declares. Invalid: what has this name is no backend (backend.C4), or there is
        none of this name (backend.C3)."""
        if (ours := of_ours(self.name)) is not None:
            return Accepts.of(getattr(ours, "accepts", None))
        match self._ask(("describe", self._there)):
            case {"accepts": dict(said)}:
                try:
                    return Accepts.of(said)
                except Invalid as wrong:
                    raise self._garbled(wrong.message) from None
            case _:
                raise self._garbled("it does not say what it accepts")

    def require(self) -> None:
        """Invalid: there is no backend of this name (backend.C3), or who registers it gives none (backend.C4). One that
        cannot say it, because its process dies, is one."""
        require_known(self.name)
        try:
            _ = self.accepts
        except Invalid as wrong:
            if wrong.label not in OUTCOMES:
                raise

    def require_installed(self) -> None:
        """The same, and Invalid where its tool is not installed (backend.C1), or has not the passes that its name lists
        (backend.C3): it is asked for next to nothing. Whatever else it says to that, it says of any program too."""
        self.require()
        x, y = (onnx.helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
        least = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "least", [x], [y])
        model = onnx.helper.make_model(least, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        try:
            self.prepare(UnreadSubject(model, {}), ["y"])
        except AssayError as why:
            if why.label in ABSENT:
                raise

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare in the other process; a run prepares once more if that process has been replaced."""
        number = next(self._numbers)
        subject = self._crossing(subject)
        model = subject.model
        files = list(files_of(model))
        data, dims = model.SerializeToString(), dict(subject.dims)
        form = (self._text(subject), subject.original, dict(subject.values))
        why = without_words(model)
        if why and not form[0] and not (subject.original and getattr(of_ours(self.name), "takes_originals", False)):
            raise cannot(self.name, why)
        request = ("prepare", number, self._there, data, dims, list(wanted), files, *form)
        self._ask(request)
        most = _longest(subject, wanted)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            answer = self._ask(("run", number, dict(inputs)), most)
            if answer is None:  # it is another process by now, or it has prepared much else
                self._ask(request)
                answer = self._ask(("run", number, dict(inputs)), most)
            if not isinstance(answer, dict) or any(isinstance(v, (bytes, bool, int, str)) for v in answer.values()):
                raise self._garbled("no tensors by name")
            return answer

        return Crossed(run)

    def _text(self, subject: Subject) -> str:
        """The module as text, where it is the program and the backend takes modules; else ""."""
        if not subject.is_exported or not getattr(of_ours(self.name), "takes_modules", False):
            return ""
        from assay.semantics.text.module_text import show

        return show(subject.module)

    def _crossing(self, subject: Subject) -> Subject:
        """The subject as it goes there: to another machine with all data in the model. Unsupported (backend.C2): a
        model is too large."""
        if not self._address:
            return subject
        if size_of(subject.model) > MOST_CARRIED:
            raise cannot(self.name, "no more than 2 GB of a model cross to another machine")
        return whole(subject)

    def close(self) -> None:
        """End the process, if there is one."""
        self._process.close()

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    # --- talking

    def _ask(self, request: tuple[Any, ...], most: int = LARGEST) -> Any:
        """The answer to one request, of so many bytes at most."""
        self._meet()
        answer = self._answer(request, self.seconds + (JOURNEY if self._address else 0.0), most)
        match answer:
            case ("done", value):
                return value
            case ("invalid", str(message), str(label), bool(unsupported)):
                known = label if _LABEL.fullmatch(label) else ""
                raise (Unsupported if unsupported else Invalid)(self._from_there(message, known), label=known)
            case ("crashed", str(message), str(raised), str(place)):
                raise Crashed(message, raised, place)
            case ("trap", str(kind), str(message)):
                raise Trap(kind, message)
            case ("environment", str(message), str(label)) if of_ours(self.name) is not None:
                raise EnvironmentFailure(message, label=label)
            case ("crash", str(message)) if of_ours(self.name) is not None:
                raise Crash(f"the backend {self.name} in its process: {message}")
            case _:
                self._require_journey(answer)
                raise self._garbled("neither tensors nor a reason")

    def _require_journey(self, answer: Any) -> None:
        """Raises what came of a request on its way to another machine, if the answer says that."""
        match answer if self._address else None:
            case ("absent", str(why)):
                raise Invalid(f"{self.name}: {why}", label="backend.C12")
            case ("died", str(how)):
                raise self._died(how)
            case ("lost", str(why)):
                raise Unsupported(f"the backend {self.name} died: {why}", label="backend.C5")
            case ("late", _):
                raise self._late()
            case ("garbled", str(why)):
                raise self._garbled(why)

    def _from_there(self, message: str, label: str) -> str:
        """A message; what is missing is missing there."""
        return f"at {self._address}: {message}" if self._address and label in ABSENT else message

    def _answer(self, request: tuple[Any, ...], seconds: float, most: int = LARGEST) -> Any:
        """What the process answers, whatever that is."""
        try:
            _, description, contents = self._process.exchange(packed(request), seconds, most)
            return unpack(description, contents)
        except ProcessGone as how:
            self.close()
            raise self._died(str(how)) from None
        except Garbled as wrong:
            raise self._garbled(str(wrong)) from None
        except TimeoutError:
            self.close()
            raise self._late() from None

    def _garbled(self, why: str) -> Unsupported:
        """It says what the protocol does not allow; from then on nothing that it says can be understood."""
        self.close()
        return Unsupported(f"the process of backend {self.name} answers what is no answer: {why}", label="backend.C9")

    def _late(self) -> Unsupported:
        """It has taken too long."""
        return Unsupported(
            f"the backend {self.name} took more than {self.seconds:g} seconds, and was ended", label="backend.C6"
        )

    def _died(self, how: str) -> Unsupported:
        """It has ended."""
        return Unsupported(f"the process of backend {self.name} died {how}", label="backend.C5")

    def _meet(self) -> None:
        """A process that has said that it is there, where there is none."""
        self.begin()
        if not self._greeted:
            self._require_journey(self._answer(("hello",), BEGINNING + (JOURNEY if self._address else 0.0)))
            self._greeted = True


def _longest(subject: Subject, wanted: Sequence[str]) -> int:
    """How many bytes an answer with these tensors may have: some times what they have, as far as that is known."""
    if isinstance(subject, UnreadSubject):
        return LARGEST
    types = [subject.tensors[n].type if n in subject.tensors else None for n in wanted]
    sizes = [t.nbytes if isinstance(t, TensorType) and t.is_static else None for t in types]
    known = [size for size in sizes if size is not None]
    return LARGEST if len(known) < len(sizes) else min(LARGEST, (64 << 20) + 8 * sum(known))
