// Questions that replace each other.

/**
 * Latest runs one question at a time. A question that waits is replaced by a newer one. If a newer one
 * waits, a question that takes long is aborted.
 */
export class Latest {
  /**
   * @param {(question: any, signal: AbortSignal) => Promise<void>} run
   * @param {number} patience how long a newer question waits, in milliseconds
   */
  constructor(run, patience = 500) {
    this.run = run;
    this.patience = patience;
    this.waiting = undefined;
    this.controller = undefined; // of the question that runs
  }

  ask(question) {
    const already = this.waiting !== undefined;
    this.waiting = question;
    if (!this.controller) this.loop();
    else if (!already) {
      const running = this.controller;
      setTimeout(() => running.abort(), this.patience);
    }
  }

  /** Drops all questions. */
  cancel() {
    this.waiting = undefined;
    this.controller?.abort();
  }

  async loop() {
    while (this.waiting !== undefined) {
      const question = this.waiting;
      this.waiting = undefined;
      this.controller = new AbortController();
      try {
        await this.run(question, this.controller.signal);
      } catch (err) {
        if (err.name !== 'AbortError') console.error(err);
      }
    }
    this.controller = undefined;
  }
}
