// Of every plot: what the pointer says, and which part is shown. With map.js and tables.js one function, see page.py.
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

