'use strict';
// Hovering, zooming, colouring, sorting and finding. The page says all it has to say without this.
(() => {
const all = (query, inside = document) => [...inside.querySelectorAll(query)];
const SVG = 'http://www.w3.org/2000/svg';
const LEFT = 80, RIGHT = 12, TOP = 8, BOTTOM = 40, WIDTH = 1000, LETTER = 6.6, DENSE = 300;
const make = (name, attributes, words) => {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (words !== undefined) made.textContent = words;
  return made;
};
for (const e of all('.js')) e.classList.remove('js');

// --- the words at the pointer
const tip = document.createElement('div');
tip.id = 'tip';
tip.hidden = true;
tip.setAttribute('role', 'status');
document.body.append(tip);
const say = (words, event) => {
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14, y = event.clientY + 14;
  tip.style.left = Math.max(4, Math.min(x, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (y + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 10) : y) + 'px';
};
const words = (shape) => {  // a title would be shown twice
  const title = shape.querySelector('title');
  if (title) {
    shape.dataset.words = title.textContent;
    title.remove();
    shape.setAttribute('aria-label', shape.dataset.words);
  }
  return shape.dataset.words || '';
};

// --- steps and plots
const steps = all('#steps tbody tr').map((row) => ({at: +row.cells[1].textContent, calls: row.cells[2].textContent, device: row.cells[3].textContent}));
const stepAt = (position) => {  // the last step that begins at or before a position
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].at <= position) low = middle + 1; else high = middle;
  }
  return low - 1;
};
const plots = all('svg.plot').map((svg) => {
  const whole = svg.dataset.window.split(' ').map(Number);
  return {svg, whole, now: whole.slice(), height: +svg.dataset.height, inner: svg.querySelector('.inner'), boxes: null,
          count: +svg.dataset.count};
});
const linked = plots.filter((p) => !p.svg.classList.contains('refuted'));
const maps = linked.filter((p) => p.svg.classList.contains('map'));
const toX = (p, at) => LEFT + (at - p.now[0]) / (p.now[1] - p.now[0]) * (WIDTH - LEFT - RIGHT);
const toY = (p, at) => TOP + (p.now[3] - at) / (p.now[3] - p.now[2]) * (p.height - TOP - BOTTOM);
const place = (p, event) => {  // the pointer in the units of the plot, and in those of the data
  const r = p.svg.getBoundingClientRect();
  const x = (event.clientX - r.left) / r.width * WIDTH, y = (event.clientY - r.top) / r.height * p.height;
  const part = (x - LEFT) / (WIDTH - LEFT - RIGHT), up = 1 - (y - TOP) / (p.height - TOP - BOTTOM);
  return {x, y, at: p.now[0] + part * (p.now[1] - p.now[0]), byte: p.now[2] + up * (p.now[3] - p.now[2]),
          inside: part >= 0 && part <= 1 && up >= 0 && up <= 1};
};
const ticks = (low, high, most) => {
  const least = Math.max(1, (high - low) / most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
};
const bytesText = (n) => {
  for (const [unit, name] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) if (n >= unit) return +(n / unit).toPrecision(7) + ' ' + name;
  return n + ' B';
};
const boxesOf = (p) => {  // the widest rectangle of each shape, read from its path
  if (!p.boxes) p.boxes = all('path', p.inner).map((path) => {
    const boxes = [...path.getAttribute('d').matchAll(/M(\d+) (-?\d+)h(\d+)v(\d+)/g)].map((m) => m.slice(1).map(Number));
    const [start, low, long, size] = boxes.reduce((a, b) => (b[2] > a[2] ? b : a));
    return {start, stop: start + long, low, high: low + size, path};
  });
  return p.boxes;
};
const draw = (p) => {
  const [x0, x1, y0, y1] = p.now;
  p.svg.classList.toggle('dense', p.count * (x1 - x0) / (p.whole[1] - p.whole[0]) > DENSE);
  p.inner.setAttribute('viewBox', `${x0} ${-y1} ${x1 - x0} ${y1 - y0}`);
  const xs = [];
  if (steps.length) {
    const first = Math.max(0, stepAt(x0 - 1) + 1), last = Math.max(first, stepAt(x1));
    for (const i of ticks(first, last, 10)) xs.push([steps[i].at, String(i)]);
  } else for (const at of ticks(x0, x1, 10)) xs.push([at, String(at)]);
  p.svg.querySelector('.grid.x').replaceChildren(...xs.flatMap(([at, label]) => {
    const x = toX(p, at);
    return [make('path', {d: `M${x} ${TOP}v${p.height - TOP - BOTTOM}`}), make('text', {x, y: p.height - BOTTOM + 15}, label)];
  }));
  const names = p.svg.querySelector('.names');
  if (!names) return;
  if (p.svg.classList.contains('map')) p.svg.querySelector('.grid.y').replaceChildren(...ticks(y0, y1, 6).flatMap((at) => {
    const y = toY(p, at);
    return [make('path', {d: `M${LEFT} ${y}h${WIDTH - LEFT - RIGHT}`}), make('text', {x: LEFT - 6, y: y + 4}, bytesText(at))];
  }));
  const named = [];
  for (const b of boxesOf(p)) {
    if (b.stop <= x0 || b.start >= x1 || b.high <= y0 || b.low >= y1) continue;
    const left = toX(p, Math.max(b.start, x0)), right = toX(p, Math.min(b.stop, x1));
    const top = toY(p, Math.min(b.high, y1)), bottom = toY(p, Math.max(b.low, y0));
    const most = Math.floor((right - left - 6) / LETTER);
    if (bottom - top < 13 || most < 4) continue;
    const first = (b.path.dataset.words || b.path.querySelector('title').textContent).split('\n')[0];
    const name = first.replace(/^step \d+: /, '');
    named.push(make('text', {x: left + 4, y: (top + bottom) / 2 + 4}, name.length <= most ? name : name.slice(0, most - 1) + '\u2026'));
  }
  names.replaceChildren(...named);
};
const zoom = (x0, x1, map, y0, y1) => {  // time is common to all plots, bytes belong to one map
  for (const p of linked) {
    p.now[0] = Math.max(p.whole[0], Math.min(x0, p.whole[1] - 1));
    p.now[1] = Math.min(p.whole[1], Math.max(x1, p.now[0] + 1));
    if (p === map) {
      p.now[2] = Math.max(p.whole[2], Math.min(y0, p.whole[3] - 1));
      p.now[3] = Math.min(p.whole[3], Math.max(y1, p.now[2] + 1));
    }
    draw(p);
  }
};
const scaled = (a, b, factor, at = (a + b) / 2) => [Math.floor(at - (at - a) * factor), Math.ceil(at + (b - at) * factor)];
const scale = (p, factor) => zoom(...scaled(p.now[0], p.now[1], factor), p, ...scaled(p.now[2], p.now[3], factor));
const scaleBytes = (p, factor, at) => zoom(p.now[0], p.now[1], p, ...scaled(p.now[2], p.now[3], factor, at));
const moved = (low, high, least, most, part) => {  // a range moved by a part of its length, inside of its limits
  const long = high - low, start = Math.max(least, Math.min(low + Math.round(long * part), most - long));
  return [start, start + long];
};
const move = (p, part) => zoom(...moved(p.now[0], p.now[1], p.whole[0], p.whole[1], part), p, p.now[2], p.now[3]);
const moveBytes = (p, part) => zoom(p.now[0], p.now[1], p, ...moved(p.now[2], p.now[3], p.whole[2], p.whole[3], part));
const reset = (p) => zoom(p.whole[0], p.whole[1], p, p.whole[2], p.whole[3]);
// --- finding, going along and colouring on a map
const show = (p, box) => {  // a box with room around it, and what is said of it
  const [w, h] = [Math.max(1, box.stop - box.start), Math.max(1, box.high - box.low)];
  const outside = (low, high, least, most) => low < least || high > most;
  if (outside(box.start, box.stop, p.now[0], p.now[1]) || outside(box.low, box.high, p.now[2], p.now[3])
      || h * 40 < p.now[3] - p.now[2] || w * 200 < p.now[1] - p.now[0]) {
    zoom(Math.floor(box.start - 2 * w - 2), Math.ceil(box.stop + 2 * w + 2), p, Math.floor(box.low - 3 * h), Math.ceil(box.high + 3 * h));
  }
  const about = words(box.path), r = box.path.getBoundingClientRect();
  mark(box.path, document.getElementById(box.path.id.replace('m', 'b')));
  say(about, {clientX: Math.max(0, Math.min(r.right, innerWidth)) - 14, clientY: Math.max(0, Math.min(r.bottom, innerHeight - 90))});
};
const inOrder = (p) => p.order || (p.order = boxesOf(p).slice().sort((a, b) => a.start - b.start || a.low - b.low));
const finder = (p, tools) => {
  const label = document.createElement('label'), input = document.createElement('input'), count = document.createElement('span');
  input.type = 'search';
  input.placeholder = 'name or kernel';
  input.className = 'find';
  label.append('Find ', input);
  tools.append(label, count);
  let hits = [], at = -1;
  const sift = () => {
    const wanted = input.value.trim().toLowerCase();
    hits = wanted ? inOrder(p).filter((b) => words(b.path).toLowerCase().includes(wanted)) : [];
    at = -1;
    const found = new Set(hits);
    for (const b of boxesOf(p)) b.path.classList.toggle('found', found.has(b));
    p.svg.classList.toggle('searching', wanted !== '');
    count.textContent = wanted ? `${hits.length} of ${boxesOf(p).length}; Enter shows the next` : '';
  };
  input.addEventListener('input', sift);
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { input.value = ''; sift(); say('', event); mark(); }
    if (event.key !== 'Enter' || !hits.length) return;
    at = (at + (event.shiftKey ? hits.length - 1 : 1) + (at < 0 && event.shiftKey ? 1 : 0)) % hits.length;
    count.textContent = `${at + 1} of ${hits.length}`;
    show(p, hits[at]);
  });
};
const keys = (p, tools) => {  // the map is one stop of the tab key; what is in it is reached by n and p
  p.svg.tabIndex = 0;
  p.svg.setAttribute('aria-keyshortcuts', 'ArrowLeft ArrowRight ArrowUp ArrowDown + - [ ] 0 n p Enter f');
  let at = -1;
  const along = (by) => { const order = inOrder(p); at = at < 0 && by < 0 ? order.length - 1 : (at + by + order.length) % order.length; show(p, order[at]); };
  const acts = {
    ArrowLeft: () => move(p, -0.25), ArrowRight: () => move(p, 0.25), ArrowUp: () => moveBytes(p, 0.25), ArrowDown: () => moveBytes(p, -0.25),
    '+': () => scale(p, 0.5), '-': () => scale(p, 2), ']': () => scaleBytes(p, 0.5), '[': () => scaleBytes(p, 2), 0: () => reset(p),
    n: () => along(1), p: () => along(-1), f: () => tools.querySelector('.find').focus(),
    Enter: () => { if (at >= 0) location.hash = '#' + inOrder(p)[at].path.id.replace('m', 'b'); },
    Escape: () => { tip.hidden = true; mark(); at = -1; },
  };
  p.svg.addEventListener('keydown', (event) => {
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
};
const HUES = [210, 30, 130, 280, 0, 180, 60, 320, 240, 100, 160, 350];
const makers = (p) => p.makers || (p.makers = boxesOf(p).map((b) => {  // the step that produces each box, if one does
  const row = document.getElementById(b.path.id.replace('m', 'b')), to = row && row.cells[7].querySelector('a');
  return to ? steps[+to.hash.slice(2)] : undefined;
}));
const ASPECTS = {
  kind: null,
  operator: (step) => (step ? step.calls.replace(/^(if|assert|measure|loop) .*/, '$1').replace(/_\d+$/, '') : 'the caller'),
  device: (step) => (step ? step.device || 'any device' : 'the caller'),
};
const colours = (p, tools) => {
  const label = document.createElement('label'), choice = document.createElement('select');
  choice.append(...Object.keys(ASPECTS).map((name) => new Option(name, name)));
  label.append('Colours by ', choice);
  tools.append(label);
  const legend = document.createElement('ul');
  legend.className = 'legend hues';
  choice.addEventListener('change', () => {
    const aspect = ASPECTS[choice.value], counts = new Map();
    const of = aspect ? makers(p).map(aspect) : [];
    for (const name of of) counts.set(name, (counts.get(name) || 0) + 1);
    const names = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
    const hue = new Map(names.slice(0, HUES.length).map((name, i) => [name, HUES[i]]));
    boxesOf(p).forEach((b, i) => {
      b.path.classList.toggle('hue', hue.has(of[i]));
      b.path.classList.toggle('rest', Boolean(aspect) && !hue.has(of[i]));
      b.path.style.setProperty('--hue', hue.has(of[i]) ? hue.get(of[i]) : '');
    });
    const item = (name, hued) => {
      const made = document.createElement('li'), box = make('svg', {viewBox: '0 0 12 12'}), r = make('rect', {class: hued === undefined ? 'rest' : 'hue', width: 12, height: 12});
      if (hued !== undefined) r.style.setProperty('--hue', hued);
      box.append(r);
      made.append(box, name);
      return made;
    };
    const rest = names.length - hue.size;
    legend.replaceChildren(...[...hue].map(([name, h]) => item(`${name} (${counts.get(name)})`, h)), ...(rest ? [item(`${rest} more`)] : []));
    legend.hidden = !aspect;
  });
  legend.hidden = true;
  p.svg.parentElement.before(legend);
};
for (const p of maps) {
  const tools = document.createElement('div');
  tools.className = 'tools';
  const button = (label, act, about = '') => {
    const made = document.createElement('button');
    made.textContent = label;
    made.title = about;
    made.addEventListener('click', act);
    tools.append(made);
  };
  button('Zoom in', () => scale(p, 0.5));
  button('Zoom out', () => scale(p, 2));
  button('Earlier', () => move(p, -0.5));
  button('Later', () => move(p, 0.5));
  button('Reset', () => reset(p));
  button('Fewer bytes', () => scaleBytes(p, 0.5), 'zoom in upwards alone; Shift and the wheel');
  button('More bytes', () => scaleBytes(p, 2), 'zoom out upwards alone');
  button('Up', () => moveBytes(p, 0.5), 'higher offsets');
  button('Down', () => moveBytes(p, -0.5), 'lower offsets');
  finder(p, tools);
  colours(p, tools);
  keys(p, tools);
  p.svg.addEventListener('wheel', (event) => {  // the wheel alone scrolls the page
    const at = place(p, event);
    if (!at.inside || !(event.shiftKey || event.ctrlKey)) return;
    event.preventDefault();
    const factor = (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8;
    if (event.shiftKey) scaleBytes(p, factor, at.byte); else zoom(...scaled(p.now[0], p.now[1], factor, at.at), p, p.now[2], p.now[3]);
  }, {passive: false});
  p.svg.parentElement.before(tools);
  let from = null, picked = null;
  p.svg.addEventListener('pointerdown', (event) => {
    const at = place(p, event);
    if (event.pointerType === 'mouse' && event.button === 0 && at.inside) from = at;
  });
  addEventListener('pointermove', (event) => {
    if (!from) return;
    const to = place(p, event);
    if (Math.abs(to.x - from.x) + Math.abs(to.y - from.y) < 8) return;
    if (!picked) p.svg.append(picked = make('rect', {class: 'picked'}));
    const box = {x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y)};
    for (const key in box) picked.setAttribute(key, box[key]);
  });
  addEventListener('pointerup', (event) => {
    if (picked) {
      const to = place(p, event);
      zoom(Math.floor(Math.min(from.at, to.at)), Math.ceil(Math.max(from.at, to.at)), p,
           Math.floor(Math.min(from.byte, to.byte)), Math.ceil(Math.max(from.byte, to.byte)));
      picked.remove();
      setTimeout(() => { picked = null; });  // after the click that follows
    }
    from = null;
  });
  p.svg.addEventListener('click', (event) => { if (picked) event.preventDefault(); });
  p.svg.addEventListener('dragstart', (event) => event.preventDefault());
}

// on a narrow screen, what is wrong first
const shared = document.querySelector('.refuted .shared');
if (shared) {
  const around = shared.closest('.scroll'), r = shared.getBoundingClientRect();
  around.scrollLeft += r.x + r.width / 2 - around.getBoundingClientRect().x - around.clientWidth / 2;
}

// --- pointing
let hot = [];
const mark = (...elements) => {
  for (const e of hot) e.classList.remove('hot');
  hot = elements.filter(Boolean);
  for (const e of hot) e.classList.add('hot');
};
const cursor = (at) => {  // a line through all plots
  for (const p of linked) {
    if (!p.line) p.svg.querySelector('.over').append(p.line = make('path', {class: 'cursor'}));
    p.line.setAttribute('d', at === null ? '' : `M${toX(p, at)} ${TOP}v${p.height - TOP - BOTTOM}`);
  }
};
const liveAt = (p, at) => {  // of a pressure plot: bytes live at a position
  if (!p.changes) p.changes = [...p.inner.querySelector('.area').getAttribute('d').matchAll(/H(\d+)V(\d+)/g)].map((m) => [+m[1], +m[2]]);
  let live = 0;
  for (const [start, bytes] of p.changes) { if (start > at) break; live = bytes; }
  return live;
};
for (const p of plots) {
  p.svg.addEventListener('pointermove', (event) => {
    const at = place(p, event), shape = event.target.closest('.inner path');
    if (!at.inside) { say('', event); cursor(null); mark(); return; }
    if (linked.includes(p)) cursor(at.at);
    const step = stepAt(Math.floor(at.at));
    const here = step >= 0 ? `at step ${step} ${steps[step].calls}` : `at position ${Math.floor(at.at)}`;
    if (p.svg.classList.contains('pressure')) {
      say(`${liveAt(p, Math.floor(at.at)).toLocaleString('en')} bytes live\n${here}`, event);
    } else if (shape) {
      const about = words(shape);
      say(about && p.svg.classList.contains('map') ? `${about}\n${here}` : about, event);
      mark(shape, document.getElementById(shape.id.replace('m', 'b')));
    } else { say(p.svg.classList.contains('map') ? `free\n${here}` : '', event); mark(); }
  });
  p.svg.addEventListener('pointerleave', (event) => { say('', event); cursor(null); mark(); });
}

// --- tables
const value = (row, column) => row.cells[column].textContent.replace(/^\[/, '').replace(/(\d),(?=\d{3})/g, '$1');
const compare = new Intl.Collator('en', {numeric: true}).compare;
for (const table of all('table.sortable')) {
  const body = table.tBodies[0], heads = all('th', table.tHead);
  heads.forEach((head, column) => {
    const button = document.createElement('span');  // on paper, a real button is missing from the second page on
    button.tabIndex = 0;
    button.setAttribute('role', 'button');
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); button.click(); }
    });
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const numbers = head.classList.contains('n');
      const keyed = [...body.rows].map((row) => [numbers ? parseFloat(value(row, column)) : value(row, column), row]);
      const order = numbers ? (a, b) => (isNaN(a) ? -1 : a) - (isNaN(b) ? -1 : b) : compare;
      keyed.sort((a, b) => (down ? order(b[0], a[0]) : order(a[0], b[0])));
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
const buffers = document.querySelector('#buffers tbody');
if (buffers) {
  const tools = document.querySelector('#buffers .tools'), label = document.createElement('label');
  const input = document.createElement('input'), count = document.createElement('span');
  input.type = 'search';
  label.append('Find ', input);
  tools.append(label, count);
  const rows = [...buffers.rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  input.addEventListener('input', () => {
    const wanted = input.value.toLowerCase();
    let left = 0;
    rows.forEach((row, i) => { const is = texts[i].includes(wanted); row.hidden = !is; left += is; });
    count.textContent = wanted ? `${left} of ${rows.length}` : '';
  });
  buffers.addEventListener('pointerover', (event) => {
    const row = event.target.closest('tr');
    if (row) mark(row, document.getElementById('m' + row.id.slice(1)));
  });
}
// a link to a step opens the list that it is in
const open = () => {
  const to = location.hash && document.getElementById(location.hash.slice(1));
  if (to && to.closest('details')) { to.closest('details').open = true; to.scrollIntoView({block: 'center'}); }
};
addEventListener('hashchange', open);
// on paper nothing can be opened; a table of thousands of rows stays as it is
let closed = [];
addEventListener('beforeprint', () => {
  closed = all('details:not([open])').filter((d) => d.querySelectorAll('tr').length <= 2000);
  for (const d of closed) d.open = true;
});
addEventListener('afterprint', () => { for (const d of closed) d.open = false; });
open();
})();
