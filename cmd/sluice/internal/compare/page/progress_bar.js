// The progress bar of long requests.

import { byID } from './dom.js';

/** Shows or hides the bar. While it is shown, the results are those of an earlier request. */
function show(busy) {
  byID('progress-bar').hidden = !busy;
  byID('policies').setAttribute('aria-busy', String(busy));
}

/** ProgressBar is shown while requests have run for more than a second. */
export class ProgressBar {
  constructor() {
    this.running = 0;
  }

  begin() {
    if (this.running++ === 0) this.timer = setTimeout(() => show(true), 1000);
  }

  progress(share) {
    byID('progress').value = share;
  }

  end() {
    if (--this.running > 0) return;
    clearTimeout(this.timer);
    show(false);
    byID('progress').removeAttribute('value');
  }
}
