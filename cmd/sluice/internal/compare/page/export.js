// Files that the page offers for download.

import { byID, element } from './dom.js';
import { call } from './service.js';
import { drawSVG } from './picture.js';

/** Lets the browser save a file. */
function save(name, blob) {
  const url = URL.createObjectURL(blob);
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Draws an SVG into a PNG, with two pixels for each unit. */
async function toPNG(svg, width, height) {
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image(width, height);
    image.src = url;
    await image.decode();
    const scale = Math.min(2, 8000 / Math.max(width, height)); // browsers limit the size of a canvas
    const canvas = element('canvas', { width: Math.round(width * scale), height: Math.round(height * scale) });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('The browser could not make the PNG. Use the SVG.'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}

/**
 * Connects the buttons.
 * @param {() => {query: import('./state.js').Query, comparison: object}} current
 * @param {(text: string) => void} report shows an error; the empty text removes it
 */
export function connectExport(current, report) {
  const connect = (id, make) => byID(id).addEventListener('click', async () => {
    const { query, comparison } = current();
    if (!comparison) return;
    try {
      await make(query, comparison);
      report('');
    } catch (err) {
      report(err.message);
    }
  });
  const saveText = ({ name, text }) => save(name, new Blob([text], { type: 'text/plain' }));

  connect('export-trace', async (query) => {
    saveText(await call('trace', { query, policy: Number(byID('trace-policy').value), number: 0, near: null }));
  });
  connect('export-rules', async (query) => saveText(await call('rules', query)));
  connect('export-svg', (query, comparison) => {
    const { svg } = drawSVG(query, comparison);
    save('sluice.svg', new Blob([svg], { type: 'image/svg+xml' }));
  });
  connect('export-png', async (query, comparison) => {
    const { svg, width, height } = drawSVG(query, comparison);
    save('sluice.png', await toPNG(svg, width, height));
  });
}
