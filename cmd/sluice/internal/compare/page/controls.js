// The settings of the requests, the clients and the fleet.

import { byID, element, fill, show } from './dom.js';
import { kinds, maxProcesses } from './state.js';
import { duration } from './text.js';

/** Each kind: its name, a sentence, and the settings that have an effect on it. */
const kindTexts = {
  steady: ['Steady', 'One request after the other, at equal distances.', ['requests', 'length', 'clients']],
  poisson: ['Random', 'Independent random requests (a Poisson process).', ['requests', 'length', 'clients', 'seed']],
  bursts: ['Bursts', 'Bursts of up to 59 requests, at random times.', ['requests', 'length', 'clients', 'seed']],
  edge: ['Edge of a window', 'Clients that know the limit of the first valid policy spend it just before and just after the edge of a window. A request one period before the edge opens that window.', ['length', 'clients']],
  greedy: ['A greedy client', 'One client sends half of all requests. The others share the other half.', ['requests', 'length', 'clients', 'seed']],
  crowd: ['A crowd', 'All clients come at once, four times, as after an outage.', ['requests', 'length', 'clients', 'seed']],
  worst: ['Break it', 'The requests that get the most units from one policy in one period.', ['target']],
  log: ['Access log', 'The requests of an access log. Each client is an IP address.', []],
};

const reactionTexts = {
  ignore: ['Give up', 'A denied request is lost.'],
  retry: ['Retry at once', 'The client calls again every 100ms, up to 20 calls for a request.'],
  backoff: ['Back off', 'The client waits 1s, then 2s, 4s and so on, each shortened at random, up to 8 calls for a request.'],
  wait: ['Wait for RetryAfter', 'The client calls again when RetryAfter has passed, up to 50 calls for a request.'],
};

const presets = {
  exact: () => 0,
  five: (i) => (i % 2 === 1 ? 5 : 0),
  hour: (i) => (i % 2 === 1 ? -3600 : 3600),
};

/**
 * Connects the settings with the query. change is called with a function that changes the query.
 * @param {(mutate: (query: import('./state.js').Query) => void, event?: Event) => void} change
 */
export function connect(change) {
  const form = byID('settings');
  form.addEventListener('submit', (event) => event.preventDefault());
  fill(byID('kind'), kinds.map((k) => [k, kindTexts[k][0]]), 'bursts');

  const stream = (id, mutate) => byID(id).addEventListener('input', (event) => {
    if (!event.target.reportValidity()) return;
    change((query) => {
      mutate(query, event.target);
      query.view = { from: 0, to: 0, client: '' };
    }, event);
  });
  stream('kind', (query, input) => { query.stream.kind = input.value; });
  stream('target', (query, input) => { query.stream.target = Number(input.value); });
  stream('log', (query, input) => { query.stream.log = input.value; });
  for (const name of ['requests', 'length', 'clients', 'seed']) {
    stream(name, (query, input) => { query.stream[name] = input.valueAsNumber; });
  }
  byID('new-seed').addEventListener('click', (event) => change((query) => {
    query.stream.seed = 1 + Math.floor(Math.random() * 1e6);
  }, event));

  for (const [value, [name, sentence]] of Object.entries(reactionTexts)) {
    const input = element('input', { type: 'radio', name: 'reaction', value });
    input.addEventListener('input', (event) => change((query) => { query.reaction = value; }, event));
    byID('reactions').append(element('label', { className: 'check' }, input, element('span', {}, element('b', { textContent: name }), ` ${sentence}`)));
  }

  byID('shared').addEventListener('input', (event) => change((query) => { query.shared = event.target.checked; }, event));
  connectFleet(change);
  byID('client').addEventListener('input', (event) => change((query) => { query.view.client = event.target.value; }, event));
}

function connectFleet(change) {
  byID('processes').addEventListener('input', (event) => {
    if (!event.target.reportValidity()) return;
    const n = event.target.valueAsNumber;
    change((query) => {
      query.skews = n === 1 ? [] : Array.from({ length: n }, (_, i) => query.skews[i] ?? 0);
    }, event);
  });
  for (const input of document.querySelectorAll('input[name="clocks"]')) {
    input.addEventListener('input', (event) => change((query) => { query.own_clocks = input.value === 'own'; }, event));
  }
  for (const button of document.querySelectorAll('button[data-clocks]')) {
    button.addEventListener('click', (event) => change((query) => {
      query.skews = query.skews.map((_, i) => presets[button.dataset.clocks](i));
    }, event));
  }
  for (let i = 0; i < maxProcesses; i++) {
    const input = element('input', { type: 'number', required: true, step: 'any', min: -31622400, max: 31622400, inputMode: 'text' });
    input.addEventListener('input', (event) => {
      if (!input.reportValidity()) return;
      change((query) => { query.skews[i] = input.valueAsNumber; }, event);
    });
    byID('skews').append(element('label', {}, `process ${i + 1} `, input));
  }
}

/**
 * Shows the query in the settings.
 * @param {import('./state.js').Query} query
 */
export function showSettings(query) {
  const { kind } = query.stream;
  const [, sentence, effective] = kindTexts[kind];
  byID('kind').value = kind;
  byID('kind-note').textContent = sentence;
  for (const name of ['requests', 'length', 'clients', 'seed']) {
    const input = byID(name);
    show(input, query.stream[name]);
    // The random part of a backoff uses the seed too.
    input.disabled = !effective.includes(name) && !(name === 'seed' && query.reaction === 'backoff');
  }
  byID('new-seed').disabled = byID('seed').disabled;
  byID('length').title = `${duration(query.stream.length)}`;
  byID('target-label').hidden = kind !== 'worst';
  byID('log-label').hidden = kind !== 'log';
  showLogs(query.stream.log);
  fill(byID('target'), query.specs.map((_, i) => [String(i), `policy ${i + 1}`]), String(query.stream.target));
  for (const input of document.querySelectorAll('input[name="reaction"]')) input.checked = input.value === query.reaction;
  byID('shared').checked = query.shared;
  const processes = Math.max(1, query.skews.length);
  show(byID('processes'), processes);
  byID('fleet').hidden = query.skews.length === 0;
  for (const input of document.querySelectorAll('input[name="clocks"]')) input.checked = (input.value === 'own') === query.own_clocks;
  [...byID('skews').children].forEach((label, i) => {
    label.hidden = i >= query.skews.length;
    if (!label.hidden) show(label.querySelector('input'), query.skews[i]);
  });
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
