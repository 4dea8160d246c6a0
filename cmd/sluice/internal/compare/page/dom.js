// Elements.

/** @returns {any} the element with the id */
export function byID(id) {
  return document.getElementById(id);
}

/**
 * Returns an element. Properties are set as they are, so text is textContent and never HTML.
 * @param {string} name
 * @param {object} properties
 * @param {...(Node|string)} children
 * @returns {any}
 */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || key === 'role' || key === 'for') made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

/** Fills a select with [value, text] pairs, if they differ from those that it has. */
export function fill(select, options, value) {
  const key = JSON.stringify(options);
  if (select.optionsKey !== key) {
    select.optionsKey = key;
    select.replaceChildren(...options.map(([v, text]) => element('option', { value: v, textContent: text })));
  }
  select.value = value;
}

/** Sets the value of an input, unless the user is in it. */
export function show(input, value) {
  if (document.activeElement !== input && input.value !== String(value)) input.value = value;
}

/** Fills a list of definitions with [name, meaning] pairs. */
export function define(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, meaning]) => [element('dt', { textContent: name }), element('dd', { textContent: meaning })]));
}
