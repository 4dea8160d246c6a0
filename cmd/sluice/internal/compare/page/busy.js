// The bar that shows long work.

import { byID } from './dom.js';

/** Shows or hides the bar. While it is shown, the results are those of an earlier question. */
function show(busy) {
  byID('busy').hidden = !busy;
  byID('policies').setAttribute('aria-busy', String(busy));
}

/** Busy shows the progress bar while work has taken more than a second. */
export class Busy {
  constructor() {
    this.works = 0;
  }

  begin() {
    if (this.works++ === 0) this.timer = setTimeout(() => show(true), 1000);
  }

  progress(share) {
    byID('progress').value = share;
  }

  end() {
    if (--this.works > 0) return;
    clearTimeout(this.timer);
    show(false);
    byID('progress').removeAttribute('value');
  }
}
