"""Tensors of who was judged: verdicts, errors and histograms, as tables (specs/verify.md, "Report")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.verify.app.report.plot import html_escaped
from assay.verify.judge.histograms import shares_text, ulps_text
from assay.verify.judge.outcome import GRAVEST, BackendVerdict, SampleVerdict, TensorError

MOST_ROWS = 5_000
"""How many rows of one backend a page has."""
COLUMNS = (
    ("inputs", ""), ("tensor", ""), ("made by", ""), ("verdict", ""), ("error", "n"), ("bound", "n"), ("mean", "n"),
    ("spread", "n"), ("of the bound", ""), ("errors", ""), ("furthest", ""),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A tensor on one set of inputs."""

    sample: str
    tensor: str
    maker: str
    outcome: str
    error: TensorError | None


def rows_of(sample: SampleVerdict, outputs: Mapping[str, TensorError]) -> Iterator[Row]:
    """Outputs, then every other tensor that was shown."""
    makers = {t.tensor: t.maker for t in sample.tensors}
    for name, error in outputs.items():
        yield Row(sample.sample, name, makers.get(name, ""), sample.of_output(name), error)
    for t in sample.tensors:
        if t.tensor not in outputs:
            yield Row(sample.sample, t.tensor, t.maker, t.outcome, t.error)


def tensor_rows(verdict: BackendVerdict) -> list[Row]:
    """All rows of a backend, the gravest first."""
    rows = [r for s in verdict.samples for r in rows_of(s, {e.tensor: e for e in s.errors})]
    return sorted(rows, key=lambda r: GRAVEST.index(r.outcome))


def row_name(number: int, place: int) -> str:
    """What the row at a place of the backend of that number is called in the page."""
    return f"t{number}-{place}"


def backend_columns(verdicts: Sequence[BackendVerdict]) -> Iterator[str]:
    """The verdict on each tensor by each of several backends: the gravest of all sets of inputs."""
    if len(verdicts) < 2:
        return
    found: dict[str, dict[int, str]] = {}
    for k, verdict in enumerate(verdicts):
        for row in reversed(tensor_rows(verdict)):  # the gravest comes last, and stays
            found.setdefault(row.tensor, {})[k] = row.outcome
    heads = "".join(f'<th scope="col">{html_escaped(v.name)}' for v in verdicts)
    yield "<section id=beside><h2>Each tensor by each backend</h2><div class=scroll><table class=sortable><thead><tr>"
    yield f'<th scope="col">tensor{heads}</tr></thead><tbody>'
    ranked = sorted(found.items(), key=lambda item: min(map(GRAVEST.index, item[1].values())))
    for tensor, words in ranked[:MOST_ROWS]:
        cells = "".join(f'<td class="word {words.get(k, "none")}">{words.get(k, "")}' for k in range(len(verdicts)))
        yield f'<tr><th scope="row">{html_escaped(tensor)}{cells}</tr>'
    yield "</tbody></table></div></section>"


def tensor_table(number: int, verdict: BackendVerdict) -> Iterator[str]:
    """The table of a backend, the one of that number in the page."""
    rows = tensor_rows(verdict)
    words = "".join(f"<option>{o}" for o in GRAVEST if any(r.outcome == o for r in rows))
    heads = "".join(f'<th class="{kind}" scope="col">{title}' for title, kind in COLUMNS)
    yield (
        "<h3>Tensors</h3><p class=note>Errors are in units in the last place. A bound <em>any</em> excludes nothing; an"
        " output's error is then from the middle of correct runs, another tensor's from that of its bounds. Histograms"
        " count elements, on a logarithmic scale: of the bound, how much of its own bound each uses, from nothing over"
        " 1/1024, 1/512 to all of it, and outside; there is none where the bound excludes nothing. Errors: none, at"
        " most 1, 2, 4 and so on units in the last place.</p>"
        '<p class=tools><label>with <input placeholder="name, operator ..."></label>'
        f"<label>verdict <select><option value=''>any{words}</select></label><span class=count></span></p>"
        f"<div class=scroll><table class='tensors sortable'><thead><tr>{heads}</tr></thead><tbody>"
    )
    for place, row in enumerate(rows[:MOST_ROWS]):
        yield _row(row_name(number, place), row)
    yield "</tbody></table></div>"
    if len(rows) > MOST_ROWS:
        yield f"<p>{len(rows) - MOST_ROWS:,} more rows are left out; report.json has them.</p>"


def _row(name: str, row: Row) -> str:
    e = row.error
    numbers = ["", "", "", ""]
    shares = bars = far = ""
    if e is not None:
        numbers = [_ulps(e.error), _ulps(e.bound), _ulps(e.mean), "" if e.times is None else f"{e.times:.2g} x"]
        shares, bars = _bars(shares_text(e.shares), "share"), _bars(ulps_text(e.histogram), "ulps")
        if e.furthest:
            places = "<br>".join(
                html_escaped(f"{list(i)}: {got!r}, the middle is {middle!r}: {_ulps(off)}")
                for i, got, middle, off in e.furthest
            )
            far = f"<details><summary>{html_escaped(str(list(e.index)))}</summary>{places}</details>"
    cells = "".join(f'<td class="n">{n}' for n in numbers)
    return (
        f'<tr id="{name}" data-word="{row.outcome}"><td>{html_escaped(row.sample)}<td>{html_escaped(row.tensor)}'
        f'<td>{html_escaped(row.maker)}<td class="word {row.outcome}">{row.outcome}{cells}<td>{shares}<td>{bars}'
        f"<td>{far}</tr>"
    )


def _ulps(number: float) -> str:
    return "any" if number == float("inf") else f"{number:.3g}"


def _bars(counts: Sequence[tuple[str, int]], kind: str) -> str:
    """A histogram as a small picture, each bar as high as its count is long in digits; of the bound the last bar is
    what is outside."""
    most = max((c for _, c in counts), default=0)
    if not most:
        return ""
    said = ", ".join(f"{name}: {c:,}" for name, c in counts if c)
    full = len(str(most)) + 1
    last = len(counts) - 1
    boxes = "".join(
        f'<rect{" class=outside" if i == last and kind == "share" else ""} x="{4 * i}" y="{18 - h}" width="3"'
        f' height="{h}"/>'
        for i, (_, c) in enumerate(counts)
        if c and (h := max(1, round(18 * (len(str(c)) + c / 10 ** len(str(c))) / full)))
    )
    width = 4 * len(counts)
    return (
        f'<svg class="bars {kind}" role="img" aria-label="{said}" width="{width}" height="19">'
        f'<title>{said}</title><path d="M0 18.5H{width - 1}"/>{boxes}</svg>'
    )
