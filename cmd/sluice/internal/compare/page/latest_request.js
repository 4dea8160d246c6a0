// Requests to the service of which only the latest counts.

/**
 * LatestRequest runs one request at a time. A newer request replaces one that has not begun. If a newer
 * one waits, a request that runs is aborted after half a second.
 */
export class LatestRequest {
  /** @param {(request: any, signal: AbortSignal) => Promise<void>} run */
  constructor(run) {
    this.run = run;
    this.next = undefined;
    this.controller = undefined; // of the request that runs
  }

  send(request) {
    const hadNext = this.next !== undefined;
    this.next = request;
    if (!this.controller) this.loop();
    else if (!hadNext) {
      const running = this.controller;
      setTimeout(() => running.abort(), 500);
    }
  }

  /** Aborts the request that runs and drops the next one. */
  cancel() {
    this.next = undefined;
    this.controller?.abort();
  }

  async loop() {
    while (this.next !== undefined) {
      const request = this.next;
      this.next = undefined;
      this.controller = new AbortController();
      try {
        await this.run(request, this.controller.signal);
      } catch (err) {
        if (err.name !== 'AbortError') console.error(err);
      }
    }
    this.controller = undefined;
  }
}
