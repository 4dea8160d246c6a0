// The bar that shows long work.

import { byID } from './dom.js';

/** Busy shows the progress bar while work has taken more than a second. */
export class Busy {
  constructor() {
    this.works = 0;
  }

  begin() {
    if (this.works++ === 0) this.timer = setTimeout(() => { byID('busy').hidden = false; }, 1000);
  }

  progress(share) {
    byID('progress').value = share;
  }

  end() {
    if (--this.works > 0) return;
    clearTimeout(this.timer);
    byID('busy').hidden = true;
    byID('progress').removeAttribute('value');
  }
}
