// --- graphs: one stop of the tab key; keys go along nodes, and from a node to its operands and readers
for (const svg of document.querySelectorAll('svg.graph')) {
  const boxes = [...svg.querySelectorAll('rect')], lines = svg.querySelector('path');
  const operands = boxes.map(() => []), readers = boxes.map(() => []);
  for (const edge of svg.dataset.edges ? svg.dataset.edges.split(',') : []) {
    const [from, to] = edge.split(' ').map(Number);
    readers[from].push(to);
    operands[to].push(from);
  }
  const texts = boxes.map((b) => b.querySelector('title').textContent);
  const marked = make('path', {class: 'near'});
  lines.after(marked);
  const said = document.createElement('p');
  said.className = 'said';
  said.setAttribute('role', 'status');
  svg.parentElement.after(said);
  svg.tabIndex = 0;
  svg.setAttribute('aria-label', svg.getAttribute('aria-label') +
    '; left and right: along the nodes; up: an operand; down: a reader; Enter: the row');
  let at = -1, found = [];
  const middle = (i) => [+boxes[i].getAttribute('x') + 5.5, +boxes[i].getAttribute('y') + 5.5].join(' ');
  const go = (i, moved) => {
    for (const b of svg.querySelectorAll('rect.at,rect.near')) b.classList.remove('at', 'near');
    at = i;
    if (i < 0) { said.textContent = ''; marked.setAttribute('d', ''); return; }
    boxes[i].classList.add('at');
    for (const j of [...operands[i], ...readers[i]]) boxes[j].classList.add('near');
    marked.setAttribute('d', [...operands[i].map((j) => [j, i]), ...readers[i].map((j) => [i, j])]
      .map(([a, b]) => `M${middle(a)}L${middle(b)}`).join(''));
    said.textContent = `${i + 1} of ${boxes.length}: ${texts[i]}; reads ${operands[i].length}, is read by ${readers[i].length}`;
    if (moved) boxes[i].scrollIntoView({block: 'nearest', inline: 'nearest'});
  };
  const follow = () => { const to = at >= 0 && boxes[at].closest('a'); if (to) location.hash = to.getAttribute('href'); };
  svg.addEventListener('pointerover', (event) => { const i = boxes.indexOf(event.target); if (i >= 0) go(i, false); });
  svg.addEventListener('keydown', (event) => {
    const steps = {
      ArrowRight: () => Math.min(at + 1, boxes.length - 1), ArrowLeft: () => Math.max(at - 1, 0),
      ArrowUp: () => at < 0 ? 0 : operands[at][0] ?? at, ArrowDown: () => at < 0 ? 0 : readers[at][0] ?? at,
      Home: () => 0, End: () => boxes.length - 1, Escape: () => -1,
    };
    if (event.key === 'Enter') { event.preventDefault(); follow(); } else if (steps[event.key]) {
      event.preventDefault();
      go(steps[event.key](), true);
    }
  });
  const tools = svg.parentElement.previousElementSibling, label = document.createElement('label');
  const input = document.createElement('input'), count = document.createElement('span');
  input.type = 'search';
  input.className = 'find';
  input.placeholder = 'name, operator, verdict ...';
  label.append('Find ', input);
  tools.append(label, count);
  input.addEventListener('input', () => {
    const wanted = input.value.toLowerCase();
    found = wanted ? [...boxes.keys()].filter((i) => texts[i].toLowerCase().includes(wanted)) : [];
    const there = new Set(found);
    boxes.forEach((b, i) => b.classList.toggle('found', there.has(i)));
    svg.classList.toggle('searching', wanted !== '');
    count.textContent = wanted ? `${found.length} of ${boxes.length}` : '';
  });
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !found.length) return;
    event.preventDefault();
    go(found[(found.indexOf(at) + 1) % found.length], true);
  });
}
