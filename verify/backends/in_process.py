"""A backend of another package, held to the protocol (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid, Trap, Unpredictable, Unsupported
from assay.verify.app.foreign import Raised, foreign
from assay.verify.backends.declared import Declared, declared_by
from assay.verify.backends.protocol import Backend, Prepared, Subject, cannot, crashed, whole
from assay.verify.oracle.declarations import Accepts

Made = TypeVar("Made")


@dataclass(frozen=True)
class InProcess:
    """A backend in this process. What it raises is a refusal (backend.C2), a trap of the program, or a crash of the
    backend (backend.C10). Crash and EnvironmentFailure say nothing of it, and pass. What it prints goes to standard
    error. A program that it does not declare to take is refused without it."""

    backend: Backend

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @cached_property
    def declared(self) -> Declared:
        """What the backend says of itself. Invalid (backend.C4): that is not of its form."""
        return declared_by(self.backend, self.name)

    @property
    def accepts(self) -> Accepts:
        """The freedoms that the backend declares."""
        return self.declared.accepts

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare as the backend does."""
        missing = self._guarded(lambda: self.declared.undeclared(subject.model))
        if missing:
            raise cannot(self.name, missing)
        subject = whole(subject)
        made = self._guarded(lambda: self.backend.prepare(subject, wanted), preparing=True)
        if not callable(made):
            raise Unsupported(
                f"the backend {self.name}: its prepare gives a {type(made).__name__}, and a function is wanted",
                label="backend.C7",
            )
        return lambda inputs: self._guarded(lambda: made(inputs))

    def _guarded(self, work: Callable[[], Made], preparing: bool = False) -> Made:
        with foreign(lambda raised: self._failure(raised, preparing), (Crash, EnvironmentFailure)):
            return work()

    def _failure(self, raised: Raised, preparing: bool) -> AssayError:
        """What it means that the backend raised this."""
        match raised.error:
            case Invalid() as wrong if wrong.label.startswith("backend."):
                return wrong
            case Trap() as trap:
                return trap
            case ModuleNotFoundError() if preparing:
                return Invalid(f"the backend {self.name} is not installed: {raised}", label="backend.C1")
            case wrong if isinstance(wrong, (NotImplementedError, Invalid, Unpredictable, *self.declared.refuses)):
                return cannot(self.name, wrong)
            case wrong if isinstance(wrong, self.declared.traps):
                return Trap("", raised.first_line)
        return crashed(self.name, raised, raised.place_in(self.declared.package))
