// The settings of the requests, the clients and the fleet.

import { byID, element, fill, show } from './dom.js';
import { maxProcesses } from './state.js';
import { count, duration } from './text.js';

/** Each kind: its name, a sentence, and the settings that have an effect on it. */
const kindTexts = {
  steady: ['Steady', 'One request after the other, at equal distances.', ['requests', 'length', 'clients']],
  poisson: ['Random', 'Independent random requests (a Poisson process).', ['requests', 'length', 'clients', 'seed']],
  bursts: ['Bursts', 'Bursts of up to 59 requests, at random times.', ['requests', 'length', 'clients', 'seed']],
  edge: ['Edge of a window', 'Clients that know the limit of the first valid policy spend it just before and just after the edge of a window. A request one period before the edge opens that window.', ['length', 'clients']],
  greedy: ['A greedy client', 'One client sends half of all requests. The others share the other half.', ['requests', 'length', 'clients', 'seed']],
  crowd: ['A crowd', 'All clients come at once, four times, as after an outage.', ['requests', 'length', 'clients', 'seed']],
  worst: ['Break it', 'The requests that get the most units from one policy in one period. The search ignores Prepay.', ['target']],
  log: ['Access log', 'The requests of an access log. Each client is an IP address.', ['log']],
};

/** Each reaction: its name and a sentence. */
export const reactionTexts = {
  ignore: ['give up', 'A denied request is lost.'],
  retry: ['retry every 100ms', 'The client makes up to 20 calls for a request.'],
  backoff: ['back off', 'The client waits 1s, then 2s, 4s and so on, each shortened at random, up to 8 calls for a request.'],
  wait: ['wait for RetryAfter', 'The client calls again when RetryAfter has passed, up to 50 calls for a request.'],
};

const clockTexts = [['store', "the store's, which is exact"], ['own', 'that of each process']];

const presets = {
  exact: () => 0,
  five: (i) => (i % 2 === 1 ? 5 : 0),
  hour: (i) => (i % 2 === 1 ? -3600 : 3600),
};

/** The settings that only some kinds of requests have. */
const streamSettings = ['target', 'log', 'requests', 'length', 'clients', 'seed'];

/** Returns the [value, name] pairs of a select. */
function choices(texts) {
  return Object.entries(texts).map(([value, [name]]) => [value, name]);
}

/**
 * Connects the settings with the query. change is called with a function that changes the query.
 * @param {(mutate: (query: import('./state.js').Query) => void, event?: Event) => void} change
 */
export function connect(change) {
  byID('settings').addEventListener('submit', (event) => event.preventDefault());
  fill(byID('kind'), choices(kindTexts), 'bursts');
  fill(byID('reaction'), choices(reactionTexts), 'ignore');
  fill(byID('clock'), clockTexts, 'store');

  const on = (input, mutate) => input.addEventListener('input', (event) => {
    if (input.reportValidity()) change((query) => mutate(query, input), event);
  });
  for (const name of ['kind', ...streamSettings]) {
    on(byID(name), (query, input) => {
      query.stream[name] = ['kind', 'log'].includes(name) ? input.value : Number(input.value);
      query.view = { from: 0, to: 0, client: '' };
    });
  }
  byID('new-seed').addEventListener('click', (event) => change((query) => {
    query.stream.seed = 1 + Math.floor(Math.random() * 1e6);
  }, event));
  on(byID('reaction'), (query, input) => { query.reaction = input.value; });
  on(byID('shared'), (query, input) => { query.shared = input.checked; });
  on(byID('client'), (query, input) => { query.view.client = input.value; });

  on(byID('processes'), (query, { valueAsNumber: n }) => {
    query.skews = n === 1 ? [] : Array.from({ length: n }, (_, i) => query.skews[i] ?? 0);
  });
  on(byID('clock'), (query, input) => { query.own_clocks = input.value === 'own'; });
  on(byID('prepay-calls'), (query, input) => { query.prepay.calls = input.valueAsNumber; });
  on(byID('prepay-for'), (query, input) => { query.prepay.for = input.valueAsNumber; });
  for (const button of document.querySelectorAll('button[data-clocks]')) {
    button.addEventListener('click', (event) => change((query) => {
      query.skews = query.skews.map((_, i) => presets[button.dataset.clocks](i));
    }, event));
  }
  for (let i = 0; i < maxProcesses; i++) {
    const input = element('input', { type: 'number', required: true, step: 'any', min: -31622400, max: 31622400, inputMode: 'text' });
    on(input, (query) => { query.skews[i] = input.valueAsNumber; });
    byID('skews').append(element('label', {}, `process ${i + 1} `, input));
  }
}

/** Opens the settings on a wide screen, where they are beside the charts, and closes them on a small one. */
export function foldSettings() {
  const wide = matchMedia('(min-width: 68.75rem)');
  const fold = () => { byID('fold').open = wide.matches; };
  wide.addEventListener('change', fold);
  fold();
}

/**
 * Shows the query in the settings.
 * @param {import('./state.js').Query} query
 */
export function showSettings(query) {
  const [name, sentence, effective] = kindTexts[query.stream.kind];
  byID('kind').value = query.stream.kind;
  byID('kind-note').textContent = sentence;
  byID('fold').querySelector('summary').textContent = `Settings: ${name}`;
  showLogs(query.stream.log);
  fill(byID('target'), query.specs.map((_, i) => [String(i), `policy ${i + 1}`]), String(query.stream.target));
  for (const setting of streamSettings) {
    const input = byID(setting);
    // The random part of a backoff uses the seed too.
    input.parentElement.hidden = !effective.includes(setting) && !(setting === 'seed' && query.reaction === 'backoff');
    show(input, query.stream[setting]);
  }
  byID('new-seed').hidden = byID('seed').parentElement.hidden;
  byID('length').title = duration(query.stream.length);
  byID('reaction').value = query.reaction;
  byID('reaction-note').textContent = reactionTexts[query.reaction][1];
  byID('shared').checked = query.shared;
  show(byID('processes'), Math.max(1, query.skews.length));
  byID('fleet').hidden = query.skews.length === 0;
  byID('clock').value = query.own_clocks ? 'own' : 'store';
  show(byID('prepay-calls'), query.prepay.calls);
  show(byID('prepay-for'), query.prepay.for);
  byID('prepay-for').parentElement.hidden = query.prepay.calls === 0;
  byID('prepay-note').textContent = prepayNote(query.prepay);
  [...byID('skews').children].forEach((label, i) => {
    label.hidden = i >= query.skews.length;
    if (!label.hidden) show(label.querySelector('input'), query.skews[i]);
  });
}

/** Returns a sentence about the calls that a process buys ahead. */
function prepayNote(prepay) {
  if (prepay.calls < 2) return 'Each call asks the store, as without Options.Prepay.';
  return `A busy process buys up to ${count(prepay.calls)} calls at once (Options.Prepay), but at most a sixteenth of the capacity, so none if that is below 32. Calls that it does not use in ${duration(prepay.for)} are lost.`;
}

/** The logs of this visit: their id and their name. The first is bundled. */
const logs = [['', 'the bundled log']];

/** Adds a log to the choice. */
export function addLog(id, name) {
  if (!logs.some(([known]) => known === id)) logs.push([id, name]);
}

function showLogs(id) {
  addLog(id, `log ${id}`);
  fill(byID('log'), logs, id);
}

/** Shows the clients of a comparison in the select. */
export function showClients(comparison) {
  const options = comparison.clients.map((c) => [c.name, `${c.name} (${c.requests})`]);
  if (comparison.others > 0) options.push(['', `the client with the most requests (${comparison.others} clients are not in this list)`]);
  fill(byID('client'), options, comparison.client);
}
