// The colours of the charts, from the palette of Okabe and Ito, which colour-blind people tell apart.

const names = ['text', 'grid', 'allowed', 'denied', 'level', 'worst', 'focus'];

/** The colours of the present colour scheme, from style.css. */
export const colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of names) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

readColours();

/** Calls changed when the colour scheme changes. */
export function onColours(changed) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    readColours();
    changed();
  });
}
