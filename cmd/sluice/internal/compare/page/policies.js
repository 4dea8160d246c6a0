// The cards of the policies: spec, sliders, buttons and the place of the chart.

import { element } from './dom.js';
import { sliderMax, sliders, withSliderValue } from './sliders.js';
import { maxSpecs } from './state.js';
import { count } from './text.js';

/**
 * What the cards report.
 * @typedef {object} Actions
 * @property {(index: number, spec: string, event: Event) => void} edit
 * @property {(index: number) => void} remove
 * @property {(index: number) => void} duplicate
 * @property {(index: number) => void} breakIt
 * @property {() => void} back
 */

/** One policy. */
class Card {
  /** @param {number} index @param {Actions} actions */
  constructor(index, actions) {
    this.index = index;
    this.actions = actions;
    const n = index + 1;
    const button = (text, label, click) => element('button', { type: 'button', textContent: text, 'aria-label': label, onclick: click });
    this.input = element('input', {
      type: 'text', id: `spec-${n}`, className: 'spec', spellcheck: false, autocapitalize: 'none', autocomplete: 'off',
      'aria-describedby': `spec-error-${n}`,
    });
    this.problem = element('p');
    this.caret = element('pre', { tabIndex: 0 });
    this.error = element('div', { id: `spec-error-${n}`, className: 'error', role: 'status', hidden: true }, this.problem, this.caret);
    this.sliders = element('div', { className: 'sliders' });
    this.worst = element('p', { className: 'worst-note', role: 'status', hidden: true });
    this.breakButton = button('', '', () => (this.broken ? actions.back() : actions.breakIt(index)));
    this.removeButton = button('Remove', `Remove policy ${n}`, () => actions.remove(index));
    this.duplicateButton = button('Duplicate', `Duplicate policy ${n}`, () => actions.duplicate(index));
    this.summary = element('p', { className: 'summary' });
    this.chart = element('div', { id: `chart-${n}`, className: 'chart' });
    this.root = element(
      'article', { className: 'policy', 'aria-label': `Policy ${n}` },
      element(
        'div', { className: 'bar' },
        element('label', { for: `spec-${n}`, className: 'name', textContent: `Policy ${n}` }),
        this.breakButton,
        this.duplicateButton,
        this.removeButton,
      ),
      this.input,
      this.error,
      this.sliders,
      this.worst,
      this.summary,
      this.chart,
    );
    this.input.addEventListener('input', (event) => {
      this.showSliders();
      actions.edit(index, this.input.value, event);
    });
  }

  /** Makes the sliders of the spec, and keeps those that are there. */
  showSliders() {
    const list = sliders(this.input.value);
    const key = list.map((k) => k.label).join('\n');
    if (key !== this.key) {
      this.key = key;
      this.ranges = list.map((slider) => this.rangeOf(slider));
      this.sliders.replaceChildren(...this.ranges.map((r) => r.label));
    }
    list.forEach((slider, i) => this.ranges[i].set(slider.value));
  }

  rangeOf(slider) {
    const range = element('input', { type: 'range', min: 1, max: sliderMax(slider.value), step: 1 });
    const output = element('output');
    const label = element('label', {}, element('span', { textContent: slider.label }), range, output);
    range.setAttribute('aria-label', `${slider.label}, policy ${this.index + 1}`);
    range.addEventListener('input', (event) => {
      this.input.value = withSliderValue(this.input.value, slider, Number(range.value));
      this.showSliders();
      this.actions.edit(this.index, this.input.value, event);
    });
    const set = (value) => {
      if (value > Number(range.max)) range.max = sliderMax(value);
      range.value = value;
      output.textContent = count(value);
    };
    return { label, set };
  }

  /** Shows the query. */
  showSpec({ specs, stream }) {
    const spec = specs[this.index];
    if (this.input.value !== spec) this.input.value = spec;
    this.broken = stream.kind === 'worst' && stream.target === this.index;
    this.breakButton.textContent = this.broken ? 'Back' : 'Break it';
    this.breakButton.setAttribute('aria-label', this.broken ? 'Back to the requests before' : `Break it: policy ${this.index + 1}`);
    this.removeButton.disabled = specs.length === 1;
    this.duplicateButton.disabled = specs.length >= maxSpecs;
    this.showSliders();
  }

  /** Shows the error in the spec, if there is one. */
  showError(policy) {
    this.error.hidden = !policy.error;
    this.breakButton.disabled = Boolean(policy.error) && !this.broken;
    const [problem, ...caret] = (policy.error ?? '').split('\n');
    this.problem.textContent = problem;
    this.caret.textContent = caret.join('\n');
    this.caret.hidden = caret.join('').trim() === '';
    this.input.setAttribute('aria-invalid', policy.error ? 'true' : 'false');
  }

  /** Shows the result of the policy: a Policy in comparison.go. */
  showResult(query, policy) {
    this.showError(policy);
    this.chart.hidden = Boolean(policy.error);
    this.summary.textContent = policy.error
      ? ''
      : `${count(policy.allowed)} allowed, ${count(policy.denied)} denied; most units in ${policy.period_text}: ${count(policy.worst)} (bound ${count(policy.bound)})`;
    const broken = query.stream.kind === 'worst' && query.stream.target === this.index && !policy.error;
    this.worst.hidden = !broken;
    this.summary.hidden = broken;
    this.worst.textContent = broken
      ? `The search found ${count(policy.worst)} units in ${policy.period_text}; the bound is ${count(policy.bound)}.`
      : '';
  }
}

/** All cards. */
export class Cards {
  /** @param {HTMLElement} root @param {Actions} actions */
  constructor(root, actions) {
    this.root = root;
    this.actions = actions;
    /** @type {Card[]} */
    this.list = [];
  }

  showSpecs(query) {
    const { specs } = query;
    while (this.list.length > specs.length) this.list.pop().root.remove();
    while (this.list.length < specs.length) {
      const card = new Card(this.list.length, this.actions);
      this.list.push(card);
      this.root.append(card.root);
    }
    this.list.forEach((card) => card.showSpec(query));
  }

  showErrors(policies) {
    this.list.forEach((card, i) => policies[i] && card.showError(policies[i]));
  }

  showResults(query, policies) {
    this.list.forEach((card, i) => policies[i] && card.showResult(query, policies[i]));
  }
}
