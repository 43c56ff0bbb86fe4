"""Names and comments of the generated C (specs/lower.md, "c").

Names in models are any text at all. Each becomes an identifier that is no keyword of C or C++, no macro of the headers
in use, and no other name of its scope.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

RESERVED = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof bool complex constexpr false generic imaginary noreturn nullptr thread_local true typeof
    typeof_unqual static_assert asm fortran
    and and_eq bitand bitor catch class compl concept consteval constinit const_cast co_await co_return co_yield
    decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq operator or or_eq
    private protected public reinterpret_cast requires static_cast template this throw try typeid typename using
    virtual wchar_t char8_t char16_t char32_t xor xor_eq final override import module near far huge interrupt
    NULL EOF I NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL WCHAR_MAX WCHAR_MIN SIZE_MAX errno offsetof assert
    ptrdiff_t size_t max_align_t rsize_t float_t double_t math_errhandling
    memcpy memmove memset memcmp memchr strlen strcpy strcat strcmp index rindex main signgam
    linux unix i386 sun vax mips arm BSD PIC __int128 _Bool _Complex _Imaginary _Generic _Static_assert
    svc
    """.split()
)
"""Keywords of C and C++, names and macros of the headers in use, macros that compilers predefine in gnu modes, and what
begins a name that the C library has for itself: its `svc_run` would be called in place of that of a shared library."""

_MATH = re.compile(
    r"(a?(sin|cos|tan)h?|atan2|exp|exp2|exp10|expm1|log|log2|log10|log1p|logb|ilogb|pow|sqrt|cbrt|hypot|erfc?|[lt]?gamma"
    r"|ceil|floor|trunc|l?l?round|l?l?rint|nearbyint|fabs|fmod|fmax|fmin|fma|fdim|remainder|remquo|copysign|nan"
    r"|nextafter|nexttoward|ldexp|frexp|modf|scalb|scalbl?n|[jy][01n]|abs|labs|llabs|div|drem|significand|pow10)[fl]?"
)
_TYPE = re.compile(r"u?int(_least|_fast)?(8|16|32|64|max|ptr)(_t|_c)?|u?int\w*_(min|max)", re.IGNORECASE)


def identifier(text: str) -> str:
    """`text` as an identifier that C and C++ leave to programs; not yet unique."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", text).strip("_")[:48] or "v"
    if word[0].isdigit():
        word = f"v{word}"
    if word in RESERVED or word.lower() in RESERVED or _MATH.fullmatch(word) or _TYPE.fullmatch(word):
        word += "_"
    return word


class ScopeNames:
    """The names of one scope: `fresh` never gives one twice, nor one that starts with one of `closed`."""

    def __init__(self, taken: Iterable[str] = (), closed: tuple[str, ...] = ()) -> None:
        self._taken = set(taken)
        self._closed = closed
        self._next: dict[str, int] = {}

    def fresh(self, text: str, upper: bool = False) -> str:
        """An unused identifier like `text`, in capitals for a macro."""
        base = identifier(text)
        if upper:
            base = base.upper()
        if self._closed and base.startswith(self._closed):
            base = f"v_{base}"
        word, count = base, self._next.get(base, 1)
        while word in self._taken:
            count += 1
            word = f"{base.rstrip('_')}_{count}"
        self._next[base] = count
        self._taken.add(word)
        return word


def comment(text: str) -> str:
    """`text` as it may stand inside a C comment: printable ASCII, no comment marks, no trigraphs, no line joins."""
    plain = text.encode("ascii", "backslashreplace").decode()
    plain = "".join(c if c.isprintable() else " " for c in plain)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").rstrip("\\ ")


def quote(text: str) -> str:
    """`text` in quotes as it may stand inside a C comment, nothing lost: JSON without comment marks and trigraphs."""
    plain = json.dumps(text)
    return plain.replace("*/", r"*\u002f").replace("/*", r"/\u002a").replace("??", r"?\u003f")


def text_literal(text: str) -> str:
    """`text` as a string constant of C: printable ASCII, no trigraphs, no longer than every compiler takes."""
    plain = text.encode("ascii", "backslashreplace").decode()
    plain = "".join(c if c.isprintable() else " " for c in plain[:400])
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.replace("?", chr(92) + "?") if "??" in escaped else escaped}"'


def string_literal(text: str) -> str:
    """`text` as a string constant of C, every byte of it in UTF-8."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{plain}"'


def unquote(text: str) -> str:
    """The text that `quote` was given; ValueError for what it did not make."""
    return str(json.loads(text))
