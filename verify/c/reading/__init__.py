"""The text of the C is read back, and held against the planned program (specs/verify.md, "c").

Nothing here is shared with `assay.lower.c`, which writes the text, but the description of the arguments that it hands
out. A file is read once for each configuration of its macros. What is not read is said with its reason, and nothing
is shown of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from assay.lower.c.source import CSource
from assay.lower.interfaces import Interface
from assay.semantics.instance import sizes_of_step
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.common import same_entry
from assay.verify.c.reading.entry import EntryReader
from assay.verify.c.reading.expressions import ScalarTerms, nowhere, routine_term
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.functions import Functions
from assay.verify.c.reading.kernel import KernelReader
from assay.verify.c.reading.kernel_reading import KernelReading
from assay.verify.c.reading.parse import CFile, read_file
from assay.verify.c.reading.preprocess import Differs, NoConfiguration, NotRead, Preprocessor
from assay.verify.c.reading.recognised import Recognised
from assay.verify.c.reading.sizes import EntrySizes
from assay.verify.c.reading.terms import Interval, TermTable
from assay.verify.proof_texts import keeping, note_proof

ALIGNED = re.compile(r"__attribute__\(\(aligned\((\d+)\)\)\)[^;{}=]*?\bstatic const \w+ (\w+)\[")
PLAIN = {"__STDC_VERSION__": "199901L"}
ATTRIBUTE = re.compile(
    r"__attribute__\(\((?:aligned\(\d+\)|noinline|section\(\"[^\"]*\"\))\)\)|_Alignas\(\d+\)"
    r"|__declspec\((?:align\(\d+\)|noinline|allocate\(\"[^\"]*\"\))\)"
)
MOST_TEXT = 5_000_000
"""Characters of a text that is read: some seconds for each million."""
CONTRACTION = {
    "__clang__": ("STDC FP_CONTRACT OFF",),
    "__GNUC__": ('GCC optimize("fp-contract=off")',),
}
"""What a compiler has to be told by the file, so that it rounds each product."""
VALUES = {
    "__GNUC__": "12",
    "__clang__": "12",
    "__BYTE_ORDER__": "1234",
    "__ORDER_BIG_ENDIAN__": "4321",
    "__FLT_EVAL_METHOD__": "0",
}
"""What macros of compilers are defined as; others as 1."""
STANDARDS = ("201112L", "201710L", "202311L")
"""Later versions of the standard than that of PLAIN."""
VERSIONS = ("__STDC_VERSION__", "__cplusplus")
"""What says which language it is."""
MOST_NAMES = 40
"""Names that a file may ask for."""
CUT = re.compile(r"^(( *)static const \w+ \w+\[\d+\] = \{\n)(.*?)^\2\};$", re.DOTALL | re.MULTILINE)
"""A table, which is large; it ends where it is indented as it began."""


@dataclass
class ReadBack:
    """What was read: of each kernel why it was not, "" if it was, or None if nothing got so far; the calls whose
    arguments were shown, and why the entry was not read, or ""."""

    kernels: dict[str, str | None] = field(default_factory=dict)
    calls: int = 0
    entry: str = ""
    differs: bool = False
    """Whether the entry was read, and is certain to do something else than the program."""
    asked: int = 0
    texts: dict[str, str] | None = None
    """Where the texts of proofs are kept."""

    @property
    def read(self) -> int:
        """How many kernels were read."""
        return sum(reason == "" for reason in self.kernels.values())

    @property
    def holds(self) -> bool:
        """Whether all was."""
        return not self.entry and self.read == len(self.kernels)


def read_back(source: CSource, module: Module, texts: dict[str, str] | None = None) -> ReadBack:
    """Read the C of a planned program in each configuration of its macros; what is not read in one is not. What z3 was
    asked goes to `texts`, that of helper functions with the kernel that was the first to call them."""
    module = module.resolved()
    total = ReadBack({s.kernel: None for s in module.program.calls}, texts=texts)
    failed = ""
    try:
        _read_each(source, module, total)
    except NotRead as why:
        failed = str(why)
    except (AttributeError, LookupError, TypeError, ValueError) as why:  # a tree of a form that is not known
        failed = f"the reader cannot follow it ({type(why).__name__}: {str(why)[:80]})"
    if failed:
        total.entry = total.entry or failed
        total.kernels = {n: r or "the file is not read" for n, r in total.kernels.items()}
    return total


def called_names(file: CFile, prefix: str) -> Iterator[str]:
    """The functions that the steps of the entry call, and those of its parts, in the order of the text."""
    entry = file.functions.get(f"{prefix}_run")
    work = Worklist([entry.tree.body] if entry is not None else [])
    for node in work:
        if type(node).__name__ == "FuncCall" and getattr(node.name, "name", "") in file.functions:
            name = node.name.name
            if name.startswith(f"{prefix}_part_"):
                work.add([file.functions[name].tree.body])
            elif name not in (f"{prefix}_check", f"{prefix}_find_plan"):
                yield name
        work.add(child for _, child in node.children())


def _read_each(source: CSource, module: Module, total: ReadBack) -> None:
    """Read the file under each configuration."""
    if source.interface is not Interface.UNPACKED or source.devices:
        raise NotRead("the calling convention is not read")
    if len(source.source) > MOST_TEXT:
        raise NotRead(f"the text has more than {MOST_TEXT} characters")
    require_alike(source)
    before: _Configuration | None = None
    for reproducible in (False, True):
        macros = {f"{source.macro}_REPRODUCIBLE": "1"} if reproducible else {}
        file = read_file(f"{source.name}.h", source.header, source.source, {**PLAIN, **macros})
        one = _Configuration(source, module, total, reproducible, file)
        if before is None or not one.is_as(before):
            one.run()
        before = one


def require_alike(source: CSource) -> None:
    """Every compiler gets the text that is read, but for attributes, whatever it defines of the names that the file
    asks for, alone or all of them, and by whatever standard; where the file refuses to be compiled, it gets none. The
    two that are known are told before the first function not to contract."""
    short = CUT.sub(_words, source.source)
    plain = _preprocessed(source, short, {})
    require_traced(source, short, plain.text)
    first = [{name: VALUES[name]} for name in CONTRACTION] + [{"__STDC_VERSION__": v} for v in STANDARDS]
    known: dict[str, None] = dict.fromkeys(VERSIONS)
    together: dict[str, str] = {}
    work = Worklist(first)
    for macros in work:
        told = " and ".join(macros)
        try:
            found = _preprocessed(source, short, macros)
        except NoConfiguration:
            continue
        if len(macros) == 1 and any(w not in found.pragmas for w in CONTRACTION.get(told, ())):
            raise NotRead(f"where {told} is defined, the file allows a product and a sum to be contracted")
        if found.text != plain.text:
            raise NotRead(f"where {told} is defined, the file has another text")
        if [*macros] == ["__GNUC__"]:
            require_aligned(found.raw)
        together |= {n: v for n, v in macros.items() if n not in VERSIONS}
        new = {n: VALUES.get(n, "1") for n in sorted(found.asked | plain.asked) if n not in known}
        known |= dict.fromkeys(new)
        if len(known) > MOST_NAMES:
            raise NotRead(f"the text hangs on more than {MOST_NAMES} macros")
        work.add([*({n: v} for n, v in new.items()), *([together] if new else [])])


def require_traced(source: CSource, text: str, plain: str) -> None:
    """Where each step is told to whoever watches, the file has the same text beside: what is compared step by step is
    what was read."""
    name, macro = source.name, source.macro
    call = rf"if \(status == {macro}_OK\) \{{ status = {name}_trace\(\d+\); \}}"
    found = _preprocessed(source, text, {f"{macro}_TRACE": "1"}).text
    if " ".join(re.sub(rf"\bint {name}_trace\(int step\);|{call}", " ", found).split()) != plain:
        raise NotRead(f"where {macro}_TRACE is defined, the file has another text")


@dataclass(frozen=True)
class _Preprocessed:
    """The pragmas before the first function, the text without attributes and layout, and the names that others than
    who writes the file may define."""

    pragmas: list[str]
    text: str
    asked: set[str]
    raw: str


def require_aligned(text: str) -> None:
    """The tables whose alignment the entry asks for have it by an attribute, or every call would be refused."""
    lists = [re.search(rf"\b{n}\[\d+\] = \{{([^}}]*)\}}", text) for n in ("constants", "constant_align")]
    names, sizes = (m[1].replace(" ", "").split(",") if m is not None else [] for m in lists)
    has = {m[2]: int(m[1]) for m in ALIGNED.finditer(text)}
    for name, size in zip(names, sizes, strict=True):
        if has.get(name, 1) % int(size.rstrip("uUlL")):
            raise NotRead(f"the table {name} is not aligned to {size}")


def _words(table: re.Match[str]) -> str:
    """A table with the words of its elements alone: macros may stand for them."""
    words = dict.fromkeys(re.findall(r"(?<![\w.])[A-Za-z_]\w*|#.*", table[3]))
    return table[1] + "\n".join(words) + f"\n{table[2]}}};"


def _preprocessed(source: CSource, text: str, macros: Mapping[str, str]) -> _Preprocessed:
    """A text under some macros."""
    reader = Preprocessor({f"{source.name}.h": source.header})
    for name, value in {**PLAIN, **macros}.items():
        reader.define(name, value)
    lines = reader.run(text).split("\n")
    first = next((i for i, line in enumerate(lines) if line.startswith("{")), len(lines))
    pragmas = [p for at, p in reader.pragmas if at < first]
    asked = {n for n in reader.asked if not n.startswith(f"{source.macro}_")}
    return _Preprocessed(pragmas, " ".join(ATTRIBUTE.sub(" ", "\n".join(lines)).split()), asked, "\n".join(lines))


@dataclass
class _Configuration:
    """The file under one configuration."""

    source: CSource
    module: Module
    total: ReadBack
    reproducible: bool
    file: CFile
    readings: dict[tuple[str, str], KernelReading | None] = field(default_factory=dict)
    is_read: bool = False
    """Whether the entry was read to its end."""

    def __post_init__(self) -> None:
        self.functions = Functions(self.file, TermTable(), Recognised(routine_term, self.reproducible))

    def is_as(self, before: _Configuration) -> bool:
        """Whether the entry is that of another configuration, which was read, and its kernels, which are read, take the
        same."""
        kernels = {name for name, _ in before.readings}
        if not before.is_read or not same_entry(before.file, self.file, self.source.name, kernels):
            return False
        return all([_as_called(self.kernel(*key)) == _as_called(found) for key, found in before.readings.items()])

    def run(self) -> None:
        """Read entry and kernels."""
        file = self.file
        sizes = EntrySizes(self.functions, self.source, self.module.program)
        entry = EntryReader(file, self.source, self.module, self.kernel, sizes)
        try:
            with keeping(self.total.texts, "c-entry"):
                note_proof("the arguments and places of each call are those of the plan")
                entry.compare()
            self.is_read = True
        except NotRead as why:
            if isinstance(why, Differs) and not self.total.differs:
                self.total.entry, self.total.differs = str(why), True
            self.total.entry = self.total.entry or str(why)
            self.pair(file)
        self.total.calls = min(self.total.calls, entry.shown) if self.reproducible else entry.shown

    def pair(self, file: CFile) -> None:
        """Read the kernels of an entry that is not read: its calls, in the order of the text, as the steps are."""
        names = list(called_names(file, self.source.name))
        steps = [s.kernel for s in self.module.program.calls]
        for i, wanted in enumerate(steps):
            if len(names) == len(steps):
                self.kernel(names[i], wanted)
            elif not any(k == wanted for _, k in self.readings):
                self.total.kernels[wanted] = self.total.kernels[wanted] or "its call is not found"

    def symbols(self, wanted: str) -> dict[Var, Interval]:
        """Where the symbols and scalars of a tensor function lie, at all steps that call it, for the sizes that the
        entry takes."""
        kernel = self.module.kernel(wanted)
        terms = ScalarTerms(Arithmetic(self.functions.table, Facts(), self.functions.recognised.lemmas), nowhere)
        for a in self.source.sizes:
            terms.env[a.symbol] = self.functions.table.fresh(a.symbol.name, "int", (a.low, a.high))
        found: dict[Var, Interval] = {}
        for step in self.module.program.calls:
            if step.kernel == wanted:
                for v, dim in sizes_of_step(step, kernel).items():
                    low, high = terms.math.facts.interval(terms.dim(dim))
                    before = found.get(v, (low, high))
                    found[v] = (min(low, before[0]), max(high, before[1]))
        return found

    def kernel(self, name: str, wanted: str) -> KernelReading | None:
        """The function of a call, read as the kernel of a step; None: it is not."""
        key = (name, wanted)
        if key not in self.readings:
            self.readings[key] = None
            function = self.functions.file.functions.get(name)
            try:
                if function is None:
                    raise NotRead(f"the function {name} is not there")
                reader = KernelReader(
                    self.functions, function, self.module.kernel(wanted), self.source.macro, self.symbols(wanted)
                )
                with keeping(self.total.texts, f"c-{wanted}"):
                    note_proof(f"the function {name} of the C is the kernel {wanted}, and defined for every input")
                    self.readings[key] = found = reader.run()
                if not self.total.kernels[wanted]:
                    self.total.kernels[wanted] = ""
                self.total.asked += found.asked
            except NotRead as why:
                self.total.kernels[wanted] = self.total.kernels[wanted] or str(why)
        return self.readings[key]


def _as_called(found: KernelReading | None) -> KernelReading | None:
    """What a call depends on of a kernel that was read."""
    return None if found is None else replace(found, asked=0)
