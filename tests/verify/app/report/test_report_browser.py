"""The page of a report in a real browser: no error, and hovering, zooming, sorting and finding do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.verify.app.report.model import CheckReport, GraphNode, ProgramGraph
from assay.verify.app.report.page import page
from tests.verify.app.report.programs import hostile, many, rich
from tests.verify.app.report.test_report import moved, report_of
from tests.verify.judge.planted import Off, two_outputs

BROWSER = next((b for name in ("chromium", "chromium-browser", "google-chrome") if (b := shutil.which(name))), None)

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(BROWSER is None, reason="no browser here: needs chromium (Debian: apt install chromium)"),
    pytest.mark.row("U10"),
]

HELP = """
const one = (query) => document.querySelector(query);
const all = (query) => [...document.querySelectorAll(query)];
const say = () => one('#tip').hidden ? '' : one('#tip').textContent;
const centre = (e) => { const r = e.getBoundingClientRect(); return {clientX: r.x + r.width / 2, clientY: r.y + \
r.height / 2}; };
const send = (e, kind, at) => e.dispatchEvent(new PointerEvent(kind,
  {bubbles: true, cancelable: true, pointerType: 'mouse', button: 0, ...(at || centre(e))}));
const hover = (e, at) => { send(e, 'pointermove', at); return say(); };
const column = (i) => all('#buffers tbody tr').map((r) => r.cells[i].textContent);
"""


def browse(tmp_path: Path, made: str, script: str) -> Any:
    """What `script` returns at the end of loading a copy of a page; the test fails if anything throws."""
    before = "<script>window.wrong = []; addEventListener('error', (e) => wrong.push(e.message));</script>"
    after = f"""<script>{HELP}
      addEventListener('load', () => {{
        let result = null;
        try {{ result = (() => {{ {script} }})(); }} catch (e) {{ wrong.push(String(e)); }}
        document.body.replaceChildren(document.createElement('pre'));
        one('pre').textContent = JSON.stringify({{wrong, result}});
      }});</script>"""
    copy = made.replace("<head>", "<head>" + before, 1).replace("</body>", after + "</body>", 1)
    (tmp_path / "page.html").write_text(copy, "utf-8")
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1280,900",
        f"--user-data-dir={tmp_path / 'user'}",
    ]
    command += ["--virtual-time-budget=10000", "--dump-dom", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = re.search(r"<pre>(.*?)</pre>", done.stdout.decode(), re.DOTALL)
    assert found is not None, done.stderr.decode()
    data = json.loads(unescape(found[1]))
    assert data["wrong"] == []
    return data["result"]


def test_hovering_names_the_buffer(tmp_path: Path) -> None:
    script = """
      const box = one('#m5'), words = hover(box), hot = one('tr.hot').id;
      const again = hover(box), titles = box.querySelectorAll('title').length;
      const r = one('svg.map').getBoundingClientRect();
      const free = hover(one('svg.map .frame').parentElement, {clientX: r.right - 60, clientY: r.top + 20});
      const press = hover(all('svg.pressure')[0], {clientX: r.left + r.width * 0.1, clientY: \
centre(all('svg.pressure')[0]).clientY});
      const lane = hover(one('svg.lanes .area'));
      const cursors = all('.cursor').filter((c) => c.getAttribute('d')).length;
      send(one('svg.lanes'), 'pointerleave');
      return {words, hot, again, titles, free, press, lane, cursors, after: say()};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    words = "s\n32 bytes at offset 72\nproduced by step 0 load at n0\nlast read by step 0 load at n0\nat step 0 load"
    assert got["words"] == got["again"] == words and got["hot"] == "b5" and got["titles"] == 0
    assert got["free"] == "free\nat step 5 store" and got["press"] == "32 bytes live\nat step 0 load"
    assert got["lane"] == "step 0: load at n0\non cpu" and got["after"] == ""
    assert got["cursors"] == 5  # two maps, two of pressure, the lanes


def test_zooming_is_common_to_all_plots(tmp_path: Path) -> None:
    script = """
      const views = () => all('svg.inner').map((s) => s.getAttribute('viewBox'));
      const ticks = () => all('svg.map')[0].querySelector('.grid.x').textContent;
      const first = views(), map = one('svg.map'), r = map.getBoundingClientRect();
      const at = (x, y) => ({clientX: r.left + x / 1000 * r.width, clientY: r.top + y / 440 * r.height});
      send(map, 'pointerdown', at(80 + 908 / 4 + 5, 60));
      send(window, 'pointermove', at(80 + 908 / 2, 300));
      const picked = all('.picked').length;
      send(window, 'pointerup', at(80 + 908 / 2 - 5, 300));
      const drawn = views(), labels = ticks(), names = map.querySelector('.names').textContent;
      const [, out, earlier, later, reset] = all('.tools button');
      out.click();
      const wider = views();
      later.click(); later.click(); later.click();
      const moved = views();
      earlier.click();
      const back = views();
      reset.click();
      return {first, picked, drawn, labels, names, wider, moved, back, last: views(), left: all('.picked').length};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    assert got["first"] == got["last"] and got["picked"] == 1 and got["left"] == 0
    assert [v.split()[0::2] for v in got["drawn"]] == [["2", "2"]] * 5
    assert float(got["drawn"][0].split()[3]) < 128 and got["drawn"][2].split()[1::2] == ["-64", "64"]
    assert got["labels"] == "12" and got["names"] == "a"
    assert [v.split()[0::2] for v in got["wider"]] == [["1", "4"]] * 5
    assert [v.split()[0::2] for v in got["moved"]] == [["4", "4"]] * 5
    assert [v.split()[0::2] for v in got["back"]] == [["2", "4"]] * 5


def test_sorting_finding_and_links(tmp_path: Path) -> None:
    script = """
      const heads = all('#buffers th [role=button]');
      heads[3].click();
      const up = column(3), state = one('#buffers th[aria-sort]').getAttribute('aria-sort');
      heads[3].click();
      const down = column(3);
      heads[1].dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', cancelable: true}));
      const names = column(1);
      const input = one('#buffers input');
      input.value = 'flag'; input.dispatchEvent(new Event('input'));
      const found = all('#buffers tbody tr').filter((r) => !r.hidden).map((r) => r.id), count = one('#buffers .tools \
span').textContent;
      location.hash = '#s2';
      window.dispatchEvent(new HashChangeEvent('hashchange'));
      return {up, state, down, names, found, count, open: one('#steps details').open};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    assert got["up"] == ["0", "1", "4", "4", "4", "16", "32", "40", "64"] and got["state"] == "ascending"
    assert got["down"] == got["up"][::-1] and got["names"] == ["a", "b", "c", "flag", "none", "s", "w", "x", "y"]
    assert got["found"] == ["b4"] and got["count"] == "1 of 9" and got["open"] is True


def test_names_cannot_do_anything(tmp_path: Path) -> None:
    script = "return {alerts: window.alerts || 0, images: all('img').length, words: hover(one('#m1'))};"
    made = page(report_of(hostile())).replace(
        "<head>", "<head><script>window.alert = () => { window.alerts = 1; }</script>", 1
    )
    got = browse(tmp_path, made, script)
    assert got["alerts"] == 0 and got["images"] == 0 and got["words"].startswith("\"'><img src=x onerror=alert(1)>1\n")


def test_a_refutation(tmp_path: Path) -> None:
    program = rich()
    wrong = moved(program, flag=replace(program.slots["flag"], offset=63))
    script = (
        "return {words: hover(one('.refuted .first'), centre(one('.refuted .frame'))), row: one('tr.wrong').id, plots:"
        " all('svg.plot').length};"
    )
    got = browse(tmp_path, page(report_of(wrong, "wrong")), script)
    assert got == {"words": "a, 64 bytes at offset 0", "row": "b3", "plots": 6}


def test_ten_thousand_buffers(tmp_path: Path) -> None:
    script = """
      const words = hover(one('#m5000'));
      const dense = one('svg.map').classList.contains('dense');
      for (let i = 0; i < 7; i++) one('.tools button').click();
      return {words, dense, zoomed: one('svg.map').classList.contains('dense'), rows: all('#buffers tbody tr').length,
              names: one('.names').children.length > 0};
    """
    got = browse(tmp_path, page(report_of(many(10_000))), script)
    assert got["words"].startswith("/model/layers.500/attention/MatMul_5000_output\n6,000 bytes at offset 80,000\n")
    assert got["dense"] is True and got["zoomed"] is False and got["rows"] == 10_000 and got["names"] is True


def test_bytes_are_zoomed_alone(tmp_path: Path) -> None:
    script = """
      const view = () => one('svg.map .inner').getAttribute('viewBox').split(' ').map(Number);
      const press = (label) => all('.tools button').find((b) => b.textContent === label).click();
      const whole = view();
      press('Fewer bytes');
      const fewer = view();
      press('Up'); press('Up'); press('Up');
      const up = view();
      press('Down');
      const down = view(), others = all('svg.map .inner')[1].getAttribute('viewBox');
      press('More bytes'); press('More bytes');
      const more = view(), map = one('svg.map'), r = map.getBoundingClientRect();
      const wheel = (shiftKey) => !map.dispatchEvent(new WheelEvent('wheel', {bubbles: true, cancelable: true,
        deltaY: -100,
        shiftKey, clientX: r.left + r.width / 2, clientY: r.top + r.height / 2}));
      return {whole, fewer, up, down, more, others, plain: wheel(false), shifted: wheel(true), wheeled: view()};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    x, y, long, high = got["whole"]
    assert got["fewer"] == [x, -high * 3 // 4, long, high // 2] and got["up"] == [x, -high, long, high // 2]
    assert got["down"] == got["fewer"][:1] + [-high * 3 // 4, long, high // 2] and got["more"] == got["whole"]
    assert got["plain"] is False and got["shifted"] is True
    assert got["wheeled"][2] == long and got["wheeled"][3] < high


def test_a_buffer_is_found_on_the_map(tmp_path: Path) -> None:
    script = """
      const input = one('.tools .find');
      const enter = (shiftKey = false) => { input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter',
        shiftKey})); return say(); };
      const write = (words) => { input.value = words; input.dispatchEvent(new Event('input'));
        return all('.found').map((p) => p.id); };
      const found = write('FLAG'), count = input.parentElement.nextSibling.textContent,
        pale = one('svg.map').matches('.searching');
      const first = enter(), hot = all('path.hot').map((p) => p.id),
        view = one('svg.map .inner').getAttribute('viewBox');
      const kernel = write('load'), none = write('nothing of this name'), silent = enter();
      input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
      return {found, count, pale, first, hot, view, kernel, none, silent, after: one('svg.map').matches('.searching')};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    assert got["found"] == ["m4"] and got["count"].startswith("1 of ") and got["pale"] is True
    assert got["first"].startswith("flag\n") and got["hot"] == ["m4"]
    assert len(got["kernel"]) > 1 and got["none"] == [] and got["after"] is False


def test_a_map_is_read_with_keys(tmp_path: Path) -> None:
    script = """
      const map = one('svg.map'), key = (k) => map.dispatchEvent(new KeyboardEvent('keydown', {key: k,
        cancelable: true, bubbles: true}));
      const view = () => one('svg.map .inner').getAttribute('viewBox'), first = view();
      key('+');
      const zoomed = view();
      key('0');
      const back = view(), seen = [];
      for (let i = 0; i < 3; i++) { key('n'); seen.push(say().split('\\n')[0]); }
      key('p');
      const before = say().split('\\n')[0];
      key('Enter');
      return {stop: map.tabIndex, first, zoomed, back, seen, before, hash: location.hash,
        live: one('#tip').getAttribute('role')};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    assert got["stop"] == 0 and got["live"] == "status" and got["zoomed"] != got["first"] == got["back"]
    assert len(set(got["seen"])) == 3 and got["before"] == got["seen"][1]
    assert re.fullmatch(r"#b\d+", got["hash"])


def test_colours_by_operator_and_device(tmp_path: Path) -> None:
    script = """
      const choice = one('.tools select'), legend = one('.legend.hues');
      const choose = (v) => { choice.value = v; choice.dispatchEvent(new Event('change'));
        return one('svg.map path.hue') && [...legend.children].map((l) => l.textContent); };
      const fill = () => getComputedStyle(one('#m5')).fill;
      const kind = fill(), operators = choose('operator'), operator = fill(), devices = choose('device');
      choose('kind');
      return {kind, operators, operator, devices, back: fill(), hidden: legend.hidden};
    """
    got = browse(tmp_path, page(report_of(rich())), script)
    assert got["kind"] == got["back"] != got["operator"] and got["hidden"] is True
    assert any(o.startswith("load (") for o in got["operators"]) and any(d.startswith("cpu (") for d in got["devices"])


def drawn() -> CheckReport:
    """A graph of four nodes: the second and the third read the first, and the last reads both."""
    kernels = (("conv", "proved", "bit-exact"), ("relu", "tested", "too large"), ("exp", "proved", ""), ("add", "", ""))
    nodes = tuple(GraphNode(f"lv{i}", k, "Tensor((2,), float32)", "", *said) for i, (k, *said) in enumerate(kernels))
    return replace(report_of(rich()), graph=ProgramGraph("legalize", nodes, ((0, 1), (0, 2), (1, 3), (2, 3))))


def test_a_graph_is_read_with_keys(tmp_path: Path) -> None:
    script = """
      const graph = one('svg.graph'), said = one('.said'), seen = [];
      const key = (k) => { graph.dispatchEvent(new KeyboardEvent('keydown', {key: k, cancelable: true, bubbles: true}));
        seen.push(said.textContent.split(',')[0] + '; ' + said.textContent.split('; ').pop()); };
      for (const k of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowUp', 'ArrowUp', 'End', 'Home']) key(k);
      const near = all('.graph rect.near').length, at = all('.graph rect.at').length;
      const input = one('.graphtools .find');
      input.value = 'TESTED'; input.dispatchEvent(new Event('input'));
      input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', cancelable: true}));
      return {stop: graph.tabIndex, role: said.getAttribute('role'), seen, near, at,
        found: all('.graph rect.found').length, went: said.textContent, pale: graph.matches('.searching'),
        colours: all('.graph rect').map((r) => getComputedStyle(r).fill), legend: all('#graph .legend li').length};
    """
    got = browse(tmp_path, page(drawn()), script)
    order = [words.split(":")[1].split(";")[0].strip() for words in got["seen"]]
    assert order == ["conv", "relu", "add", "relu", "conv", "add", "conv"]
    assert got["seen"][0].endswith("reads 0, is read by 2") and (got["near"], got["at"]) == (2, 1)
    assert got["stop"] == 0 and got["role"] == "status" and got["found"] == 1 and got["pale"] is True
    assert got["went"].startswith("2 of 4: relu") and "tested, too large" in got["went"]
    assert got["colours"][0] == got["colours"][2] and len(set(got["colours"])) == got["legend"] == 3


def test_tensors_are_sifted_and_led_to(tmp_path: Path) -> None:
    assay.judge(two_outputs(), Off(), kinds=["random"], page=tmp_path / "page")
    script = """
      const kind = one('section.judged select'), shown = () => all('.tensors tbody tr').filter((r) => !r.hidden).length;
      const whole = shown();
      kind.value = 'wrong'; kind.dispatchEvent(new Event('change'));
      const wrong = shown(), words = one('.count').textContent;
      const graph = one('svg.graph');
      for (const key of ['End', 'Enter']) graph.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
      return {whole, wrong, words, row: one(location.hash).cells[1].textContent,
        outside: getComputedStyle(one('.bars .outside')).fill, bad: getComputedStyle(one('p.bad')).color};
    """
    got = browse(tmp_path, (tmp_path / "page" / "index.html").read_text("utf-8"), script)
    assert got["whole"] > got["wrong"] > 0 and got["words"] == f"{got['wrong']} of {got['whole']} rows"
    assert got["row"] in ("a", "b") and got["outside"] == got["bad"]


def test_a_page_is_printed_whole(tmp_path: Path) -> None:
    script = """
      const asked = document.createElement('details'), is = () => [one('#steps details').open, asked.open];
      const before = is();
      asked.innerHTML = '<pre>' + 'a question<br>\\n'.repeat(99) + '</pre>';
      document.body.append(asked);
      window.dispatchEvent(new Event('beforeprint'));
      const during = is();
      window.dispatchEvent(new Event('afterprint'));
      return [before, during, is()];
    """
    assert browse(tmp_path, page(report_of(rich())), script) == [[False, False], [True, False], [False, False]]
