// --- tensors of who was judged: those with some words, and some verdict
for (const section of document.querySelectorAll('section.judged')) {
  const words = section.querySelector('.tools input:not(.find)'), kind = section.querySelector('select');
  if (!words || !kind) continue;
  const rows = [...section.querySelectorAll('.tensors tbody tr')], count = section.querySelector('.count');
  const sift = () => {
    const text = words.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const there = row.textContent.toLowerCase().includes(text) && (!kind.value || row.dataset.word === kind.value);
      row.hidden = !there;
      shown += there;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  words.addEventListener('input', sift);
  kind.addEventListener('change', sift);
  sift();
}
