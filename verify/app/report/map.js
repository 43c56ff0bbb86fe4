// Above a map: zooming, finding, going along, colours.
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
  operator: (step) => (step ? step.calls.replace(/^(if|assert|measure|loop) .*/, '$1').replace(/\d+(?=_|$)/g, '') : 'the caller'),
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

