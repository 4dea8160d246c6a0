// The table of results. It is also the text form of the charts.

import { byID, define, element } from './dom.js';
import { count, counted, share } from './text.js';

/** Each column: its head, what it means, and its text for a Policy in comparison.go. */
const columns = [
  ['Policy', 'The spec of the policy, in its short form.', (p) => p.spec],
  ['Calls', 'The decisions: the requests, and the calls that clients make again after a denial.', (p) => count(p.calls)],
  ['Allowed', 'The calls that the policy allowed.', (p) => count(p.allowed)],
  ['Denied', 'The calls that the policy did not allow.', (p) => count(p.denied)],
  ['Share denied', 'The denied calls as a share of all calls.', (p) => share(p.denied, p.calls)],
  ['Most in a period', 'The most units that one key was admitted in any period of the limit, wherever the period begins.', (p) => `${count(p.worst)} in ${p.period_text}`],
  ['Bound', 'The most units that the policy promises to admit to one key in any period. With own clocks that differ, a policy can exceed it. If calls are bought ahead, it is the bound for a period plus the time for which they can be used.', (p) => (p.worst > p.bound ? `${count(p.bound)}, exceeded` : count(p.bound))],
  ['Longest wait', 'The longest RetryAfter of a denial. Denials that no wait ends are counted apart.', (p) => (p.never > 0 ? `${p.longest_wait}; never: ${count(p.never)}` : p.longest_wait)],
  ['Unnecessary denials', 'The denied calls that an exact log of all allowed calls would have allowed (over-denied). This log knows the limit, but not the burst.', (p) => count(p.unnecessary)],
  ['Requests never served', 'The requests of which no call was allowed, with all calls that the client made.', (p) => count(p.unserved)],
];

const byProcess = ['Allowed by process', 'The allowed calls of each process. The calls go to the processes in turn.', (p) => p.allowed_by_process.map((n, i) => `${i + 1}: ${count(n)}`).join(', ')];

const boughtAhead = ['Bought ahead', 'The calls that a process had bought ahead, so that they did not ask the store.', (p) => count(p.prepaid)];

/** Returns the columns of a comparison. */
export function columnsOf(query) {
  return [...columns, ...(query.skews.length > 1 ? [byProcess] : []), ...(query.prepay.calls > 0 ? [boughtAhead] : [])];
}

/**
 * Shows a comparison.
 * @param {import('./state.js').Query} query
 * @param {object} comparison
 */
export function showTable(query, comparison) {
  const list = columnsOf(query);
  const head = element('tr', {}, ...list.map(([name, meaning]) => element('th', { scope: 'col', textContent: name, title: meaning })));
  const rows = comparison.policies.map((policy, i) => {
    const first = element('th', { scope: 'row' }, element('span', { className: 'number', textContent: `${i + 1} ` }), element('code', { textContent: policy.spec }));
    if (policy.error) {
      return element('tr', {}, first, element('td', { colSpan: list.length - 1, className: 'text', textContent: `Not valid: ${policy.error.split('\n')[0]}` }));
    }
    return element('tr', {}, first, ...list.slice(1).map(([, , text]) => element('td', { textContent: text(policy) })));
  });
  const table = byID('results');
  const caption = table.caption;
  caption.textContent = `What each policy decided: ${counted(comparison.requests, 'request')} of ${counted(comparison.clients.length + comparison.others, 'client')}`;
  table.replaceChildren(caption, element('thead', {}, head), element('tbody', {}, ...rows));
  define(byID('columns'), list);
}
