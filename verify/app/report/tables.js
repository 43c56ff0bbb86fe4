// Sorting and finding in tables, and what is opened on paper.
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
// on paper nothing can be opened; a table of thousands of rows stays as it is, and a text of more than 40 lines
const long = (d) => d.querySelectorAll('tr').length > 2000
  || [...d.querySelectorAll('pre')].some((p) => p.textContent.split('\n').length > 40);
let closed = [];
addEventListener('beforeprint', () => {
  closed = all('details:not([open])').filter((d) => !long(d));
  for (const d of closed) d.open = true;
});
addEventListener('afterprint', () => { for (const d of closed) d.open = false; });
open();
