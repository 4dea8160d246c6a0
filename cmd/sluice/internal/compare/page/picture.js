// The whole picture as an SVG: title, legend, one chart for each policy, and the table.

import { reactionTexts } from './controls.js';
import { columnsOf } from './table.js';
import { clock, count, tick } from './text.js';

const width = 1000;
const margin = 24;
// A chart has two strips: the level above, the bars below.
const plot = { left: margin + 48, right: width - margin - 48, height: 150, level: 66, bars: 72 };
const colours = { text: '#1b1f24', grid: '#d9dde2', allowed: '#0072b2', denied: '#d55e00', level: '#000000', worst: '#f0dbe6' };

/** Writes the parts of a drawing. */
class Drawing {
  constructor() {
    this.parts = [];
    this.y = margin;
  }

  add(name, attributes, text) {
    const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(String(value))}"`).join('');
    this.parts.push(text === undefined ? `<${name}${list}/>` : `<${name}${list}>${escape(text)}</${name}>`);
  }

  text(x, y, text, attributes = {}) {
    this.add('text', { x: round(x), y: round(y), fill: colours.text, ...attributes }, text);
  }

  rect(x, y, w, h, fill) {
    this.add('rect', { x: round(x), y: round(y), width: round(w), height: round(h), fill });
  }

  line(x1, y1, x2, y2) {
    this.add('line', { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), stroke: colours.grid });
  }
}

/**
 * Draws a comparison.
 * @param {import('./state.js').Query} query
 * @param {object} comparison
 * @returns {{svg: string, width: number, height: number}}
 */
export function drawSVG(query, comparison) {
  const d = new Drawing();
  d.text(margin, (d.y += 16), 'sluice: policies on the same requests', { 'font-size': 20, 'font-weight': 'bold' });
  d.text(margin, (d.y += 22), subtitle(query, comparison));
  drawLegend(d, comparison);
  comparison.policies.forEach((policy, i) => {
    if (!policy.error) drawPolicy(d, comparison, policy, i);
  });
  drawTable(d, query, comparison);
  const height = Math.ceil(d.y + margin);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="13">\n<rect width="${width}" height="${height}" fill="#ffffff"/>\n${d.parts.join('\n')}\n</svg>\n`;
  return { svg, width, height };
}

function subtitle({ stream, reaction, skews, own_clocks: own, shared }, comparison) {
  const words = [`requests: ${stream.kind}, ${count(comparison.requests)}`, `clients after a denial: ${reactionTexts[reaction][0]}`];
  if (shared) words.push('all clients share one limit');
  if (skews.length > 1) words.push(`${skews.length} processes, ${own ? 'own clocks' : "the store's clock"}`);
  if (comparison.start) words.push(`from ${comparison.start}`);
  return words.join('; ');
}

function drawLegend(d, comparison) {
  d.y += 24;
  const items = [['allowed', 'allowed (lower part)'], ['denied', 'denied (upper part)'], ['level', `units left for ${cut(comparison.client, 30)} (right axis)`], ['worst', 'the period with the most units']];
  let x = margin;
  for (const [name, text] of items) {
    if (name === 'level') d.rect(x, d.y - 6, 14, 2, colours.level);
    else d.rect(x, d.y - 10, 14, 11, colours[name]);
    d.text(x + 20, d.y, text);
    x += 34 + 7 * text.length;
  }
  d.y += 12;
}

function drawPolicy(d, comparison, policy, index) {
  const { from, to } = comparison;
  d.text(margin, (d.y += 24), `${index + 1}  ${cut(policy.spec, 110)}`, { 'font-weight': 'bold', 'font-family': 'ui-monospace, Menlo, Consolas, monospace' });
  const top = d.y + 10;
  const bottom = top + plot.height;
  const x = (at) => plot.left + ((at - from) / (to - from)) * (plot.right - plot.left);
  const most = Math.max(1, ...policy.bars.allowed.map((n, i) => n + policy.bars.denied[i]));
  const tall = (n) => (n / most) * plot.bars;
  if (policy.worst > 0 && policy.worst_to >= from && policy.worst_from <= to) {
    const left = Math.max(plot.left, x(policy.worst_from));
    d.rect(left, top, Math.max(2, Math.min(plot.right, x(policy.worst_to)) - left), plot.height, colours.worst);
  }
  d.line(plot.left, bottom, plot.right, bottom);
  const bar = (plot.right - plot.left) / policy.bars.allowed.length;
  policy.bars.allowed.forEach((allowed, i) => {
    const denied = policy.bars.denied[i];
    if (allowed > 0) d.rect(plot.left + i * bar, bottom - tall(allowed), bar, tall(allowed), colours.allowed);
    if (denied > 0) d.rect(plot.left + i * bar, bottom - tall(allowed + denied), bar, tall(denied), colours.denied);
  });
  drawLevel(d, policy, x, top, top + plot.level);
  d.text(plot.left - 6, bottom - plot.bars + 5, tick(most), { 'text-anchor': 'end' });
  d.text(plot.left - 6, bottom + 4, '0', { 'text-anchor': 'end' });
  const time = clock(comparison.start);
  for (let i = 0; i <= 4; i++) {
    const at = from + ((to - from) * i) / 4;
    d.line(x(at), bottom, x(at), bottom + 4);
    d.text(x(at), bottom + 17, time(at, Math.max(1e-9, 10 ** Math.floor(Math.log10((to - from) / 100)))), { 'text-anchor': 'middle' });
  }
  d.y = bottom + 22;
}

function drawLevel(d, policy, x, top, bottom) {
  d.line(plot.left, bottom, plot.right, bottom);
  const least = Math.min(0, ...policy.level.left);
  const capacity = Math.max(1, policy.capacity);
  const y = (left) => bottom - ((left - least) / (capacity - least)) * (bottom - top);
  const points = policy.level.at.map((at, i) => `${round(x(at))},${round(y(policy.level.left[i]))}`);
  d.add('polyline', { points: points.join(' '), fill: 'none', stroke: colours.level, 'stroke-width': 0.8 });
  d.text(plot.right + 6, top + 5, tick(capacity));
  d.text(plot.right + 6, bottom + 4, tick(least));
}

/** Draws the table: for each policy a line with the spec, and then its numbers. A column is as wide as its longest line. */
function drawTable(d, query, comparison) {
  const columns = columnsOf(query).slice(1);
  const heads = columns.map(([name]) => lines(name, 14));
  const rows = comparison.policies.map((policy) => columns.map(([, , text]) => (policy.error ? [] : lines(text(policy), 14))));
  const sizes = heads.map((head, i) => 1 + Math.max(...[head, ...rows.map((row) => row[i])].flat().map((line) => line.length)));
  const all = sizes.reduce((sum, size) => sum + size);
  const drawRow = (row, height, attributes) => {
    let end = 0;
    row.forEach((cell, i) => {
      end += sizes[i];
      cell.forEach((text, j) => d.text(margin + (end / all) * (width - 2 * margin), d.y + height * j, text, { 'text-anchor': 'end', ...attributes }));
    });
    d.y += height * (Math.max(...row.map((cell) => cell.length)) - 1);
  };
  d.y += 34;
  drawRow(heads, 13, { 'font-size': 11, 'font-weight': 'bold' });
  d.y += 19;
  comparison.policies.forEach((policy, index) => {
    d.line(margin, d.y - 4, width - margin, d.y - 4);
    d.text(margin, (d.y += 14), `${index + 1}  ${cut(policy.spec, 110)}`, { 'font-family': 'ui-monospace, Menlo, Consolas, monospace', 'font-size': 12 });
    d.y += 17;
    if (policy.error) d.text(margin, d.y, cut(`Not valid: ${policy.error.split('\n')[0]}`, 130), { 'font-size': 12 });
    else drawRow(rows[index], 14, { 'font-size': 12 });
    d.y += 12;
  });
}

/** Breaks a text between words into lines of at most that many characters. */
function lines(text, most) {
  const out = [''];
  for (const word of text.split(' ')) {
    if (out.at(-1) && out.at(-1).length + word.length >= most) out.push('');
    out[out.length - 1] += `${out.at(-1) ? ' ' : ''}${word}`;
  }
  return out;
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function round(n) {
  return Math.round(n * 100) / 100;
}

function escape(text) {
  // XML allows no control characters.
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd').replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
