// The numbers of a spec that have a slider. Only the service parses specs.

/**
 * @typedef {object} Slider
 * @property {string} label
 * @property {string} name count, burst or slots
 * @property {number} part the part of the spec, from 0
 * @property {number} value
 */

const partPattern = /\b(gcra|tokenbucket|fixedwindow|movingwindow|calendar)(\s+)(\d+)(\/[^\s;)]+)([^;)]*)/g;
const units = { s: 'second', m: 'minute', min: 'minute', h: 'hour', d: 'day' };

/** The largest number that has a slider. */
const largest = 1_000_000_000;

const optionOf = { gcra: 'burst', tokenbucket: 'burst', movingwindow: 'slots' };

/** @returns {RegExpMatchArray[]} the parts of the spec */
function parts(spec) {
  return [...spec.matchAll(partPattern)];
}

/**
 * Returns the sliders of a spec.
 * @param {string} spec
 * @returns {Slider[]}
 */
export function sliders(spec) {
  const found = parts(spec);
  return found.flatMap((match, part) => {
    const [, algorithm, , count, period, rest] = match;
    const of = found.length > 1 ? ` of part ${part + 1}` : '';
    const list = [{ label: `count${of} per ${units[period.slice(1)] ?? period.slice(1)}`, name: 'count', part, value: Number(count) }];
    const option = optionOf[algorithm];
    if (option) {
      const given = rest.match(new RegExp(`\\b${option}=(\\d+)`));
      const usual = option === 'burst' ? Number(count) : 1;
      list.push({ label: `${option}${of}`, name: option, part, value: given ? Number(given[1]) : usual });
    }
    return list.filter((slider) => slider.value >= 1 && slider.value <= largest);
  });
}

/**
 * Returns the spec with another value of a slider.
 * @param {string} spec
 * @param {Slider} slider
 * @param {number} value
 */
export function withSliderValue(spec, { name, part }, value) {
  const match = parts(spec)[part];
  if (!match) return spec;
  const [whole, algorithm, space, count, period, rest] = match;
  let changed;
  if (name === 'count') {
    changed = `${algorithm}${space}${value}${period}${rest}`;
  } else {
    const pattern = new RegExp(`\\b${name}=\\d+`);
    const option = `${name}=${value}`;
    changed = pattern.test(rest)
      ? `${algorithm}${space}${count}${period}${rest.replace(pattern, option)}`
      : `${algorithm}${space}${count}${period} ${option}${rest}`;
  }
  return spec.slice(0, match.index) + changed + spec.slice(match.index + whole.length);
}

/** Returns the largest value of a slider: at least three times the value, so that the user can raise it. */
export function sliderMax(value) {
  const least = Math.max(60, 3 * value);
  const size = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 3, 6, 10].map((f) => f * size).find((n) => n >= least);
}
