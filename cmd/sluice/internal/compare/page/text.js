// Numbers and times as text.

const counts = new Intl.NumberFormat('en');

/** 1,234 */
export function count(n) {
  return counts.format(n);
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** 1,234 or 12.3K, for the labels of an axis, which have little room. */
export function tick(n) {
  return (Math.abs(n) < 10_000 ? counts : compact).format(n);
}

/** 1 line, 2 lines */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** 12.3% */
export function share(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : '-';
}

/**
 * A time in seconds, such as 1h2m3s or 12.5ms. step is the precision in seconds.
 * @param {number} seconds
 * @param {number} step
 */
export function duration(seconds, step = 0.001) {
  if (Math.abs(seconds) < step / 2) return '0s';
  const sign = seconds < 0 ? '-' : '';
  let rest = Math.round(Math.abs(seconds) / step) * step;
  if (rest < 1) return `${sign}${trim(rest * 1000, Math.max(0, Math.ceil(-Math.log10(step * 1000) - 1e-9)))}ms`;
  let text = '';
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60]]) {
    const n = Math.floor(rest / size + 1e-9);
    if (n > 0) text += `${n}${unit}`;
    rest = Math.max(0, rest - n * size);
  }
  const s = trim(rest, digits);
  if (s !== '0' || text === '') text += `${s}s`;
  return sign + text;
}

function trim(n, digits) {
  const text = n.toFixed(Math.min(12, digits));
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/**
 * Returns a function that writes a time of a comparison: the time of day in a log, otherwise the time
 * since the start.
 * @param {string} start in RFC 3339, or empty
 */
export function clock(start) {
  if (!start) return duration;
  const begin = Date.parse(start);
  return (seconds, step = 0.001) => {
    const at = new Date(begin + seconds * 1000);
    if (Number.isNaN(at.getTime())) return duration(seconds, step);
    const text = at.toISOString(); // 2026-01-02T03:04:05.678Z
    if (step >= 86400) return text.slice(5, 10);
    if (step >= 60) return text.slice(11, 16);
    return text.slice(11, step >= 1 ? 19 : 23);
  };
}
