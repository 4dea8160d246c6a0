// One decision with its whole Result.

import { byID, define, element } from './dom.js';
import { LatestRequest } from './latest_request.js';
import { call } from './service.js';
import { count } from './text.js';

/** Returns the process that decided, and what it bought ahead. */
function process(d) {
  if (d.prepaid) return `${d.process}, bought before`;
  return d.bought > 0 ? `${d.process}, bought ${count(d.bought)} more` : count(d.process);
}

/** Each field of a Decision in explain.go: its name, what it means, and its text. */
const fields = [
  ['Allowed', 'whether the policy allowed the call', (d) => (d.allowed ? 'yes' : 'no')],
  ['Limit', 'the capacity: the most units that one call can take', (d) => count(d.limit)],
  ['Cost', 'the units that the call asked for', (d) => count(d.cost)],
  ['Available', 'the units when the state was last written; 0 for a new key', (d) => count(d.available)],
  ['Refilled', 'the units refilled since then; Limit for a new key', (d) => count(d.refilled)],
  ['Paid', 'the units charged; 0 if denied', (d) => count(d.paid)],
  ['Remaining', 'the units left: Available + Refilled - Paid', (d) => count(d.remaining)],
  ['RetryAfter', 'the time until the same cost is allowed', (d) => d.retry_after],
  ['NextRefill', 'the time until Remaining grows', (d) => d.next_refill],
  ['ResetAfter', 'the time until the key is like a new key', (d) => d.reset_after],
  ['Fresh', 'whether the key was new or had expired', (d) => (d.fresh ? 'yes' : 'no')],
  ['Skew', 'how far the state is ahead of the clock, because clocks disagree', (d) => d.skew],
  ['Part', 'the part of all(...) that decided', (d) => (d.part > 0 ? count(d.part) : '-')],
  ['Client', 'who called', (d) => d.client],
  ['Attempt', '1 for the first call of a request', (d) => count(d.attempt)],
  ['Process', 'the process that decided, and whether it had bought the call before, or bought more calls with it', process],
  ['Time', 'when the client called', (d) => d.at_text],
  ['Clock', 'the same by the clock that decided', (d) => d.now],
  ['Exact wait', 'the wait by an exact log of all allowed calls', (d) => d.exact_wait],
  ['Unnecessary', 'denied although the exact log would allow it', (d) => (d.unnecessary ? 'yes' : 'no')],
];

/** Returns the decision in words. */
function words(d) {
  const who = `call ${count(d.number + 1)} of ${count(d.calls)} at ${d.at_text} by ${d.client}`;
  const left = `${count(d.remaining)} of ${count(d.limit)} left`;
  if (d.allowed) return `${who}: allowed, ${left}`;
  const wait = d.retry_after === 'never' ? 'no wait will help' : `retry after ${d.retry_after}`;
  return `${who}: denied, ${left}, ${wait}`;
}

/** The panel that explains a decision. */
export class Explainer {
  /**
   * @param {object} host
   * @param {() => import('./state.js').Query} host.query
   * @param {(policy: number, decision: object) => void} host.explained
   * @param {() => void} host.closed
   * @param {(err: Error) => void} host.failed
   */
  constructor(host) {
    this.host = host;
    this.policy = -1;
    this.decision = null;
    this.pinned = false;
    this.requests = new LatestRequest((request, signal) => this.explain(request, signal));
    this.values = fields.map(() => element('dd'));
    byID('explanation-fields').append(...fields.map(([name, meaning], i) => (
      element('div', {}, element('dt', { title: meaning, textContent: name }), this.values[i])
    )));
    define(byID('fields'), fields);
    this.drawNone();
    byID('close-explanation').addEventListener('click', () => this.close());
  }

  /**
   * Explains the call with that number, or the one nearest to a time.
   * @param {number} policy
   * @param {{number?: number, near?: number}} which
   */
  show(policy, { number, near }) {
    this.requests.send({ query: this.host.query(), policy, number: number ?? 0, near: number === undefined ? near : null });
  }

  async explain(request, signal) {
    try {
      const decision = await call('explain', request, { signal });
      if (signal.aborted) return;
      this.policy = request.policy;
      this.decision = decision;
      this.draw();
      this.host.explained(request.policy, decision);
    } catch (err) {
      if (err.name !== 'AbortError') this.host.failed(err);
    }
  }

  draw() {
    document.body.classList.add('explaining');
    byID('explanation-title').textContent = `Policy ${this.policy + 1}`;
    byID('explanation-words').textContent = words(this.decision);
    fields.forEach(([, , text], i) => { this.values[i].textContent = this.values[i].title = text(this.decision); });
    this.drawPinned();
  }

  drawPinned() {
    byID('pinned').hidden = !this.pinned;
  }

  pin(pinned) {
    this.pinned = pinned;
    this.drawPinned();
  }

  close() {
    this.requests.cancel();
    this.pinned = false;
    this.decision = null;
    this.policy = -1;
    this.drawNone();
    this.host.closed();
  }

  drawNone() {
    document.body.classList.remove('explaining');
    byID('explanation-title').textContent = 'One decision';
    byID('explanation-words').textContent = 'Point at a chart, tap it, or use the arrow keys in it.';
    for (const value of this.values) value.textContent = value.title = '';
    this.drawPinned();
  }
}
