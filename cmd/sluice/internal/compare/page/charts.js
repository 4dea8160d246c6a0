// The charts: one for each policy, with one time axis.

import uPlot from './third_party/uplot/uPlot.esm.js';
import { colours, onColours } from './colours.js';
import { clock, count, tick } from './text.js';

/**
 * What a chart reports.
 * @typedef {object} Actions
 * @property {(from: number, to: number) => void} zoomTo
 * @property {(factor: number, centre: number) => void} zoom
 * @property {() => void} whole
 * @property {(policy: number, at: number, number: number|undefined) => void} hover
 * @property {(policy: number, at: number, number: number|undefined) => void} pin
 * @property {() => void} leave
 * @property {(policy: number, event: KeyboardEvent) => boolean} key reports whether it used the key
 */

const steps = [1e-9, 2e-9, 5e-9, 1e-8, 2e-8, 5e-8, 1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 432000, 864000, 2592000, 8640000];

// A chart has two strips: the level above, the bars below. Single calls are between them. These are
// the shares of the height.
const levelShare = 0.42;
const barShare = 0.42;

/** The chart of one policy. */
class Chart {
  /** @param {HTMLElement} root @param {number} index @param {Actions} actions */
  constructor(root, index, actions) {
    this.root = root;
    this.index = index;
    this.actions = actions;
    this.comparison = null;
    this.policy = null;
    this.totals = []; // calls of each bar
    this.at = undefined; // the time of the decision that is explained
    root.tabIndex = 0;
    root.setAttribute('role', 'application');
    root.setAttribute('aria-roledescription', 'chart');
    root.setAttribute('aria-describedby', 'results');
    root.addEventListener('keydown', (event) => {
      if (actions.key(index, event)) event.preventDefault();
    });
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(root);
  }

  show(comparison, policy) {
    this.comparison = comparison;
    this.policy = policy;
    this.root.setAttribute('aria-label', `Chart of policy ${this.index + 1}: ${policy.spec}. ${count(policy.allowed)} calls allowed, ${count(policy.denied)} denied.`);
    const { from, width } = comparison;
    const n = policy.bars.allowed.length;
    const centres = new Array(n);
    const totals = new Array(n);
    for (let i = 0; i < n; i++) {
      centres[i] = from + (i + 0.5) * width;
      totals[i] = policy.bars.allowed[i] + policy.bars.denied[i];
    }
    // The level has times of its own, so levelPath draws it. Its data here gives its axis a range.
    this.totals = totals;
    const data = [centres, totals, policy.bars.allowed, new Array(n).fill(0)];
    if (this.plot) this.plot.setData(data, true);
    else this.plot = new uPlot(this.options(), data, this.root);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (this.plot && width > 0 && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  options() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const axis = { stroke: () => colours.text, font: `${0.75 * rem}px system-ui, sans-serif`, ticks: { stroke: () => colours.grid } };
    const bars = uPlot.paths.bars({ size: [1, Infinity], align: 0 });
    const time = (values, step) => values.map((v) => clock(this.comparison.start)(v, step));
    return {
      width: Math.max(200, this.root.clientWidth),
      height: this.root.clientHeight,
      padding: [10, 4, 0, 4],
      legend: { show: false },
      focus: { alpha: 1 },
      scales: {
        x: { time: false, range: () => [this.comparison.from, this.comparison.to] },
        calls: { range: () => [0, this.mostCalls() / barShare] },
        left: { range: () => this.levelRange() },
      },
      axes: [
        { ...axis, incrs: steps, space: 70, size: 32, grid: { stroke: () => colours.grid, width: 1 }, values: (_, splits, __, ___, step) => time(splits, step) },
        { ...axis, scale: 'calls', side: 3, size: 48, values: (_, splits) => splits.map(tick), splits: () => this.callTicks(), grid: { stroke: () => colours.grid, width: 1 } },
        { ...axis, scale: 'left', side: 1, size: 48, values: (_, splits) => splits.map(tick), splits: () => this.levelTicks(), grid: { show: false } },
      ],
      series: [
        {},
        { scale: 'calls', fill: () => colours.denied, width: 0, paths: bars, points: { show: false } },
        { scale: 'calls', fill: () => colours.allowed, width: 0, paths: bars, points: { show: false } },
        { scale: 'left', stroke: () => colours.level, width: 1.5, paths: (u) => this.levelPath(u), points: { show: false } },
      ],
      cursor: {
        y: false,
        points: { show: false },
        sync: { key: 'time', scales: ['x', null], filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' } },
        drag: { x: true, y: false, setScale: false, dist: 5 },
        bind: { dblclick: () => () => { this.actions.whole(); return null; } },
      },
      hooks: {
        drawClear: [(u) => this.drawWorst(u)],
        draw: [(u) => this.drawMarks(u), (u) => this.drawSelected(u)],
        setSelect: [(u) => this.selected(u)],
        ready: [(u) => this.listen(u)],
      },
    };
  }

  /** The calls of the highest bar. */
  mostCalls() {
    return Math.max(1, ...this.totals);
  }

  callTicks() {
    const most = this.mostCalls();
    return most > 1 ? [0, Math.floor(most / 2), most] : [0, 1];
  }

  /** The range of the right axis: the level uses the upper strip. */
  levelRange() {
    const least = Math.min(0, ...this.policy.level.left);
    const top = Math.max(1, this.policy.capacity);
    return [top - (top - least) / levelShare, top];
  }

  /** The ticks of the right axis: the capacity is the top. */
  levelTicks() {
    const { capacity, level } = this.policy;
    const least = Math.min(0, ...level.left);
    const half = Math.floor(capacity / 2);
    return [...new Set([least, 0, ...(half > 0 ? [half] : []), capacity])].sort((a, b) => a - b);
  }

  levelPath(u) {
    const { at, left } = this.policy.level;
    const path = new Path2D();
    for (let i = 0; i < at.length; i++) {
      const x = u.valToPos(at[i], 'x', true);
      const y = u.valToPos(left[i], 'left', true);
      if (i === 0) path.moveTo(x, y);
      else path.lineTo(x, y);
    }
    return { stroke: path, fill: null, clip: null };
  }

  /** Shades the worst period behind the bars. */
  drawWorst(u) {
    const { from, to } = this.comparison;
    const { worst, worst_from: begin, worst_to: end } = this.policy;
    if (worst === 0 || end < from || begin > to) return;
    const { ctx, bbox } = u;
    const left = Math.max(bbox.left, u.valToPos(begin, 'x', true));
    const right = Math.min(bbox.left + bbox.width, u.valToPos(end, 'x', true));
    ctx.save();
    ctx.fillStyle = colours.worst;
    ctx.fillRect(left, bbox.top, Math.max(2, right - left), bbox.height);
    ctx.restore();
  }

  /** Draws single calls in two rows between the strips: denied calls above, allowed calls below. */
  drawMarks(u) {
    const { marks } = this.policy;
    if (!marks) return;
    const { ctx, bbox } = u;
    const pixel = devicePixelRatio;
    const row = (allowed, top, colour) => {
      ctx.fillStyle = colour;
      for (let i = 0; i < marks.at.length; i++) {
        if (marks.allowed[i] === allowed) ctx.fillRect(Math.round(u.valToPos(marks.at[i], 'x', true)), top, 2 * pixel, 8 * pixel);
      }
    };
    ctx.save();
    const top = bbox.top + (levelShare + (1 - levelShare - barShare) / 2) * bbox.height;
    row(false, top - 9 * pixel, colours.denied);
    row(true, top + pixel, colours.allowed);
    ctx.restore();
  }

  /** Marks the decision that is explained. */
  drawSelected(u) {
    const { from, to } = this.comparison;
    if (this.at === undefined || this.at < from || this.at > to) return;
    const { ctx, bbox } = u;
    const x = Math.round(u.valToPos(this.at, 'x', true));
    ctx.save();
    ctx.fillStyle = colours.focus;
    ctx.fillRect(x - devicePixelRatio, bbox.top, 3 * devicePixelRatio, bbox.height);
    ctx.restore();
  }

  mark(at) {
    if (this.at === at) return;
    this.at = at;
    this.plot?.redraw(false, false);
  }

  selected(u) {
    if (!(u.select.width > 0)) return;
    const from = u.posToVal(u.select.left, 'x');
    const to = u.posToVal(u.select.left + u.select.width, 'x');
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.dragged = true;
    this.actions.zoomTo(from, to);
  }

  /** Listens to the mouse in the chart. */
  listen(u) {
    const { over } = u;
    over.addEventListener('mousedown', () => { this.dragged = false; });
    over.addEventListener('mousemove', (event) => {
      if (event.buttons === 0) this.actions.hover(this.index, ...this.nearest(u, event));
    });
    over.addEventListener('mouseleave', () => this.actions.leave());
    over.addEventListener('click', (event) => {
      if (!this.dragged) this.actions.pin(this.index, ...this.nearest(u, event));
    });
    over.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      const x = event.clientX - over.getBoundingClientRect().left;
      this.actions.zoom(event.deltaY > 0 ? 2 : 0.5, u.posToVal(x, 'x'));
    }, { passive: false });
  }

  /** Returns the time at the mouse, and the number of the nearest call if the chart has single calls. */
  nearest(u, event) {
    const at = u.posToVal(event.clientX - u.over.getBoundingClientRect().left, 'x');
    return [at, this.nearestNumber(at)];
  }

  nearestNumber(at) {
    const { marks } = this.policy;
    if (!marks || marks.at.length === 0) return undefined;
    let low = 0;
    let high = marks.at.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (marks.at[middle] < at) low = middle;
      else high = middle;
    }
    return marks.number[at - marks.at[low] <= marks.at[high] - at ? low : high];
  }

  redraw() {
    this.plot?.redraw(false, true);
  }

  remove() {
    this.sizes.disconnect();
    this.plot?.destroy();
  }
}

/** All charts. */
export class Charts {
  /** @param {Actions} actions */
  constructor(actions) {
    this.actions = actions;
    /** @type {Chart[]} */
    this.list = [];
    onColours(() => this.list.forEach((chart) => chart.redraw()));
  }

  /**
   * Draws a comparison into the cards.
   * @param {object} comparison
   * @param {import('./policies.js').Cards} cards
   */
  show(comparison, cards) {
    // A card can be removed and another added before a response is drawn.
    while (this.list.length > 0 && this.list.at(-1).root !== cards.list[this.list.length - 1]?.chart) this.list.pop().remove();
    while (this.list.length < cards.list.length) {
      const index = this.list.length;
      this.list.push(new Chart(cards.list[index].chart, index, this.actions));
    }
    comparison.policies.forEach((policy, i) => {
      if (!policy.error && this.list[i]) this.list[i].show(comparison, policy);
    });
  }

  /** Marks a decision of a policy, or none. */
  mark(index, at) {
    this.list.forEach((chart, i) => chart.mark(i === index ? at : undefined));
  }

  /** Scrolls a chart into view, also from behind the explanation on a small screen. */
  reveal(index) {
    this.list[index]?.root.scrollIntoView({ block: 'nearest' });
  }

  focus(index) {
    this.list[index]?.root.focus();
  }
}
