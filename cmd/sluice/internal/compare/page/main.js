// The page: it keeps the query, sends it to the service and draws the response.

import { Charts } from './charts.js';
import { connect, foldSettings, showClients, showSettings } from './controls.js';
import { byID, element, fill } from './dom.js';
import { Explainer } from './explain.js';
import { connectExport } from './export.js';
import { LatestRequest } from './latest_request.js';
import { connectLog } from './logs.js';
import { Cards } from './policies.js';
import { ProgressBar } from './progress_bar.js';
import { call, UnreachableError } from './service.js';
import { defaults, maxSpecs, read, write } from './state.js';
import { showTable } from './table.js';

/** @type {import('./state.js').Query} */
let query;
let comparison = null; // the response that is drawn
let drawnQuery = null; // its query
let before = null; // the stream and the view before "Break it"
let retryTimer;
let addressTimer;

const messages = { address: [], service: '', download: '' };
const progressBar = new ProgressBar();

const cards = new Cards(byID('policies'), {
  edit: (i, spec, event) => change((q) => { q.specs[i] = spec; }, event),
  remove: (i) => change((q) => {
    q.specs.splice(i, 1);
    if (q.stream.target > i) q.stream.target--;
    q.stream.target = Math.min(q.stream.target, q.specs.length - 1);
  }),
  duplicate: (i) => change((q) => { q.specs.splice(i + 1, 0, q.specs[i]); if (q.stream.target > i) q.stream.target++; }),
  breakIt: (i) => change((q) => {
    q.stream.kind = 'worst';
    q.stream.target = i;
    q.view = { from: 0, to: 0, client: '' };
  }),
  back: goBack,
});

const explainer = new Explainer({
  query: () => structuredClone(drawnQuery),
  explained(policy, decision) {
    charts.mark(policy, decision.at);
    if (followsKeys || explainer.pinned) charts.reveal(policy);
    if (followsKeys && (decision.at < comparison.from || decision.at > comparison.to)) showAround(decision.at);
  },
  closed: () => charts.mark(-1),
  failed,
});

let followsKeys = false; // the keyboard chose the decision, so the view follows it

const charts = new Charts({
  zoomTo: (from, to) => setView(from, to),
  zoom,
  whole: () => setView(0, 0),
  hover(policy, at, number) {
    if (explainer.pinned) return;
    followsKeys = false;
    explainer.show(policy, { number, near: at });
  },
  pin(policy, at, number) {
    followsKeys = false;
    explainer.pin(true);
    explainer.show(policy, { number, near: at });
  },
  leave() {
    if (!explainer.pinned && explainer.decision && !followsKeys) explainer.close();
  },
  key,
});

const requests = new LatestRequest(async (request, signal) => {
  progressBar.begin();
  try {
    const response = await call('compare', request.query, { signal, progress: (share) => progressBar.progress(share) });
    responded(request, response);
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    failed(err);
    byID('policies').classList.add('stale');
    if (!(err instanceof UnreachableError)) await checkSpecs(request.query, signal);
  } finally {
    progressBar.end();
  }
});

/** Shows the errors in the specs of a request that failed for another reason. */
async function checkSpecs({ specs }, signal) {
  const { stream, ...others } = defaults();
  const response = await call('compare', { ...others, specs, stream: { ...stream, kind: 'steady', requests: 2 } }, { signal });
  if (specs.length === query.specs.length) cards.showErrors(response.policies);
}

let undrawn = null; // the newest response that is not drawn yet, with its request

function responded(request, response) {
  messages.service = messages.download = '';
  clearTimeout(retryTimer);
  retryTimer = undefined;
  showMessages();
  if (undrawn === null) requestAnimationFrame(draw);
  undrawn = { request, response };
}

/** Draws the newest response, and measures the time since the change. */
function draw() {
  const { request, response } = undrawn;
  undrawn = null;
  if (request.query.specs.length !== query.specs.length) return; // the response to a newer request follows
  comparison = response;
  drawnQuery = request.query;
  byID('policies').classList.remove('stale');
  showTable(drawnQuery, comparison);
  showClients(comparison);
  cards.showResults(drawnQuery, comparison.policies);
  charts.show(comparison, cards);
  if (explainer.decision) explainAgain();
  setTimeout(() => { // the frame is on its way to the screen
    const measure = performance.measure('sluice-drawn', { start: request.time, end: performance.now() });
    byID('timing').textContent = `drawn in ${Math.round(measure.duration)} ms`;
    document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ?? 0) + 1);
  }, 0);
}

/** The decision that is shown may be another one after a change. */
function explainAgain() {
  const { policy, decision } = explainer;
  if (policy >= comparison.policies.length || comparison.policies[policy].error) explainer.close();
  else explainer.show(policy, { number: decision.number < comparison.policies[policy].calls ? decision.number : undefined, near: decision.at });
}

function failed(err) {
  messages.service = err.message;
  if (err instanceof UnreachableError) retryTimer ??= setTimeout(() => { retryTimer = undefined; sendQuery(); }, 2000);
  showMessages();
}

function showMessages() {
  const texts = [...messages.address, messages.service, messages.download].filter(Boolean);
  const shown = [...byID('messages').children].map((p) => p.textContent);
  if (JSON.stringify(texts) !== JSON.stringify(shown)) {
    byID('messages').replaceChildren(...texts.map((text) => element('p', { textContent: text })));
  }
}

/**
 * Changes the query, shows it, and sends it to the service.
 * @param {(query: import('./state.js').Query) => void} mutate
 * @param {Event} [event] the cause
 */
function change(mutate, event) {
  const old = { stream: structuredClone(query.stream), view: structuredClone(query.view) };
  mutate(query);
  if (query.stream.kind !== 'worst') before = null;
  else if (old.stream.kind !== 'worst') before = old;
  messages.address = [];
  addressTimer ??= setTimeout(writeAddress, 200);
  showQuery();
  sendQuery(event?.timeStamp);
}

/** Writes the query into the address. Browsers limit how often a page may do that. */
function writeAddress() {
  clearTimeout(addressTimer);
  addressTimer = undefined;
  const hash = write(query);
  history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
}

function showQuery() {
  cards.showSpecs(query);
  showSettings(query);
  byID('add').disabled = query.specs.length >= maxSpecs;
  fill(byID('trace-policy'), query.specs.map((_, i) => [String(i), `policy ${i + 1}`]), byID('trace-policy').value || '0');
  if (byID('trace-policy').selectedIndex < 0) byID('trace-policy').selectedIndex = 0;
}

function sendQuery(time = performance.now()) {
  requests.send({ query: structuredClone(query), time });
}

function goBack() {
  change((q) => {
    if (before) {
      Object.assign(q, before);
      q.stream.target = Math.min(q.stream.target, q.specs.length - 1); // policies may have been removed
    } else Object.assign(q, { stream: defaults().stream, view: defaults().view });
  });
}

// The view.

/** Shows a part of the time; 0 to 0 is the whole time. */
function setView(from, to) {
  if (!comparison) return;
  const end = comparison.end * 1.01;
  const least = 1e-6;
  let [a, b] = [Math.max(0, from), Math.min(to, Math.max(end, least))];
  if (to > from && b - a < least) b = a + least;
  if (!(b > a) || (a <= 0 && b >= end * 0.999)) [a, b] = [0, 0];
  const digits = b > a ? Math.max(0, Math.min(9, Math.ceil(-Math.log10((b - a) / 1000)))) : 0;
  change((q) => {
    q.view.from = Number(a.toFixed(digits));
    q.view.to = Number(b.toFixed(digits));
  });
}

/** Returns the chosen part of the time. The response that is drawn may still show another part. */
function chosenView() {
  const { from, to } = query.view;
  return to > from ? { from, to } : { from: 0, to: comparison.end + Math.max(comparison.end / 100, 0.001) };
}

/** Zooms around a time, or around the centre of the view. */
function zoom(factor, around) {
  if (!comparison) return;
  const { from, to } = chosenView();
  const centre = around ?? (from + to) / 2;
  setView(centre - (centre - from) * factor, centre + (to - centre) * factor);
}

/** Moves the view by a share of its width. */
function pan(share) {
  if (!comparison) return;
  const { from, to } = chosenView();
  const width = to - from;
  const begin = Math.min(Math.max(0, from + share * width), Math.max(0, comparison.end * 1.01 - width));
  setView(begin, begin + width);
}

/** Moves the view so that the time is in its centre. */
function showAround(at) {
  const { from, to } = chosenView();
  pan((at - from) / (to - from) - 0.5);
}

// The keyboard.

/** Handles a key in the chart of a policy, and reports whether it used the key. */
function key(policy, event) {
  if (!comparison || event.ctrlKey || event.altKey || event.metaKey) return false;
  const calls = comparison.policies[policy]?.calls ?? 0;
  const shown = explainer.policy === policy && explainer.decision;
  const go = (number) => {
    if (calls === 0) return;
    followsKeys = true;
    explainer.show(policy, { number: Math.max(0, Math.min(calls - 1, number)) });
  };
  const step = (n) => {
    if (shown) go(explainer.decision.number + n);
    else if (calls > 0) {
      followsKeys = true;
      explainer.show(policy, { number: comparison.policies[policy].marks?.number[0], near: comparison.from });
    }
  };
  const other = (n) => {
    for (let i = policy + n; i >= 0 && i < comparison.policies.length; i += n) {
      if (comparison.policies[i].error) continue;
      charts.focus(i);
      if (explainer.decision) {
        followsKeys = true;
        explainer.show(i, { near: explainer.decision.at });
      }
      return;
    }
  };
  const centre = shown ? explainer.decision.at : undefined;
  const actions = {
    ArrowLeft: () => step(event.shiftKey ? -10 : -1),
    ArrowRight: () => step(event.shiftKey ? 10 : 1),
    Home: () => go(0),
    End: () => go(calls - 1),
    ArrowUp: () => other(-1),
    ArrowDown: () => other(1),
    '+': () => zoom(0.5, centre),
    '=': () => zoom(0.5, centre),
    '-': () => zoom(2, centre),
    0: () => setView(0, 0),
    Enter: () => explainer.decision && explainer.pin(!explainer.pinned),
    Escape: () => explainer.close(),
  };
  const action = actions[event.key];
  action?.();
  return Boolean(action);
}

// Start.

function readAddress() {
  clearTimeout(addressTimer);
  addressTimer = undefined;
  const { query: given, problems } = read(location.hash);
  query = given;
  before = null;
  messages.address = problems;
  showMessages();
  showQuery();
  sendQuery();
}

connect(change);
foldSettings();
connectLog({
  progressBar,
  loaded(log) {
    change((q) => {
      q.stream.kind = 'log';
      q.stream.log = log.id;
      q.view = { from: 0, to: 0, client: '' };
    });
  },
});
connectExport(() => ({ query: drawnQuery, comparison }), (text) => { messages.download = text; showMessages(); });
byID('add').addEventListener('click', (event) => change((q) => q.specs.push(q.specs.at(-1)), event));
byID('zoom-in').addEventListener('click', () => zoom(0.5));
byID('zoom-out').addEventListener('click', () => zoom(2));
byID('earlier').addEventListener('click', () => pan(-0.5));
byID('later').addEventListener('click', () => pan(0.5));
byID('whole').addEventListener('click', () => setView(0, 0));
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && explainer.decision) explainer.close();
});
addEventListener('pagehide', () => { if (addressTimer) writeAddress(); });
addEventListener('hashchange', readAddress);
readAddress();
