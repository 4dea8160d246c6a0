// The settings of the page, and their form in the address.

/**
 * @typedef {object} Stream
 * @property {string} kind
 * @property {number} requests
 * @property {number} length seconds
 * @property {number} clients
 * @property {number} seed
 * @property {number} target for worst: the index of the policy
 * @property {string} log for log: its id; empty: the bundled log
 */

/**
 * A request to the service: type Query in query.go.
 * @typedef {object} Query
 * @property {string[]} specs
 * @property {Stream} stream
 * @property {string} reaction
 * @property {boolean} shared
 * @property {number[]} skews seconds that the clock of each process is ahead; empty: one process
 * @property {boolean} own_clocks
 * @property {{calls: number, for: number}} prepay the calls that a process buys ahead at most, and the seconds for which it can use them
 * @property {{from: number, to: number, client: string}} view seconds; 0 to 0 is the whole time
 */

export const maxSpecs = 12;
export const maxProcesses = 16;
const kinds = ['steady', 'poisson', 'bursts', 'edge', 'greedy', 'crowd', 'worst', 'log'];
const reactions = ['ignore', 'retry', 'backoff', 'wait'];

const year = 366 * 24 * 3600;

/** @returns {Query} */
export function defaults() {
  return {
    specs: ['gcra 30/m burst=10', 'tokenbucket 30/m', 'fixedwindow 30/m', 'movingwindow 30/m slots=12'],
    stream: { kind: 'bursts', requests: 300, length: 600, clients: 1, seed: 1, target: 0, log: '' },
    reaction: 'ignore',
    shared: false,
    skews: [],
    own_clocks: false,
    prepay: { calls: 0, for: 0.2 },
    view: { from: 0, to: 0, client: '' },
  };
}

/** Each reader returns the value of a text, or throws an Error that says what is wanted. */

function wholeNumber(min, max) {
  return (text) => {
    const n = Number(text);
    if (!/^\d+$/.test(text) || n < min || n > max) throw new Error(`a whole number from ${min} to ${max}`);
    return n;
  };
}

function number(min, max) {
  return (text) => {
    const n = Number(text);
    if (text.trim() === '' || !(n >= min && n <= max)) throw new Error(`a number from ${min} to ${max}`);
    return n;
  };
}

function oneOf(words) {
  return (text) => {
    if (!words.includes(text)) throw new Error(`${words.slice(0, -1).join(', ')} or ${words.at(-1)}`);
    return text;
  };
}

function numbers(text) {
  const parts = text.split(',');
  if (parts.length > maxProcesses) throw new Error(`at most ${maxProcesses} numbers`);
  return parts.map(number(-year, year));
}

function logID(text) {
  if (!/^[0-9a-f]{0,16}$/.test(text)) throw new Error('the id of a log');
  return text;
}

const same = (text) => text;

/** The parameters of the address, except p: their reader, and where their value is in the Query. */
const parameters = [
  ['kind', oneOf(kinds), 'stream', 'kind'],
  ['requests', wholeNumber(1, 200000), 'stream', 'requests'],
  ['length', number(0.001, year), 'stream', 'length'],
  ['clients', wholeNumber(1, 1000), 'stream', 'clients'],
  ['seed', wholeNumber(0, Number.MAX_SAFE_INTEGER), 'stream', 'seed'],
  ['target', (text) => wholeNumber(1, maxSpecs)(text) - 1, 'stream', 'target'],
  ['log', logID, 'stream', 'log'],
  ['after-denial', oneOf(reactions), null, 'reaction'],
  ['shared', (text) => oneOf(['yes', 'no'])(text) === 'yes', null, 'shared'],
  ['clocks-ahead', numbers, null, 'skews'],
  ['clock', (text) => oneOf(['own', 'store'])(text) === 'own', null, 'own_clocks'],
  ['bought-ahead', wholeNumber(0, 1048576), 'prepay', 'calls'],
  ['bought-for', number(0.001, 60), 'prepay', 'for'],
  ['from', number(0, 1e12), 'view', 'from'],
  ['to', number(0, 1e12), 'view', 'to'],
  ['level', same, 'view', 'client'],
];

/** The texts of values that are not written as they are. */
const writers = {
  target: (v) => v + 1,
  shared: (v) => (v ? 'yes' : 'no'),
  clock: (v) => (v ? 'own' : 'store'),
  'clocks-ahead': (v) => v.join(','),
};

/**
 * Reads the part of an address after #. A wrong value gives a problem and its default.
 * @param {string} hash
 * @returns {{query: Query, problems: string[]}}
 */
export function read(hash) {
  const query = defaults();
  const problems = [];
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const specs = given.getAll('p');
  if (specs.length > maxSpecs) {
    problems.push(`The address has ${specs.length} policies. The page shows the first ${maxSpecs}.`);
  }
  if (specs.length > 0) query.specs = specs.slice(0, maxSpecs);
  const known = new Set(['p']);
  for (const [name, reader, group, member] of parameters) {
    known.add(name);
    const text = given.get(name);
    if (text === null) continue;
    try {
      (group ? query[group] : query)[member] = reader(text);
    } catch (wanted) {
      problems.push(`The address has ${name}=${short(text)}. It should be ${wanted.message}. The page uses the default.`);
    }
  }
  for (const name of new Set(given.keys())) {
    if (!known.has(name)) problems.push(`The address has an unknown setting ${short(name)}. The page ignores it.`);
  }
  if (query.stream.target >= query.specs.length) {
    if (given.has('target')) problems.push(`The address has target=${query.stream.target + 1}, but ${query.specs.length} policies. The page uses target=1.`);
    query.stream.target = 0;
  }
  if (!(query.view.to > query.view.from)) {
    if (given.has('from') || given.has('to')) problems.push('The address has a value of to that is not above from. The page shows the whole time.');
    query.view.from = query.view.to = 0;
  }
  return { query, problems };
}

/**
 * Returns the part of the address after #: what differs from the defaults.
 * @param {Query} query
 */
export function write(query) {
  const out = new URLSearchParams();
  const usual = defaults();
  if (JSON.stringify(query.specs) !== JSON.stringify(usual.specs)) {
    for (const spec of query.specs) out.append('p', spec);
  }
  for (const [name, , group, member] of parameters) {
    const value = (group ? query[group] : query)[member];
    const normal = (group ? usual[group] : usual)[member];
    if (JSON.stringify(value) !== JSON.stringify(normal)) out.append(name, writers[name] ? writers[name](value) : value);
  }
  // These characters need no escape after #, and specs are easier to read with them.
  return out.toString().replace(/%(2F|3D|3B|28|29|3A|2C)/g, decodeURIComponent);
}

function short(text) {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
