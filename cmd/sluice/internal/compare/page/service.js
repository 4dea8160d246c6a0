// Calls of the service: over HTTP to sluice compare, or to WebAssembly in a worker.

/** An error that the service reports in a response. */
class ServiceError extends Error {}

/** The service did not respond. The page sends the request again. */
export class UnreachableError extends Error {}

const serverEnded = 'The program sluice compare does not answer. If it has ended, start it again with the same --listen address. The page then continues.';
const workerEnded = 'The WebAssembly program ended. The page starts it again. If this repeats, choose fewer requests.';

/** The largest log in bytes: maxLog in handler.go. */
export const maxLog = 256 * 1024 * 1024;

const inWorker = document.querySelector('meta[name="sluice-service"]')?.content === 'wasm';

/**
 * Calls a method of the service.
 * @param {string} method
 * @param {object|Blob} body JSON, or the log
 * @param {{signal?: AbortSignal, progress?: (share: number) => void}} options
 * @returns {Promise<any>}
 */
export function call(method, body, { signal, progress = () => {} } = {}) {
  const data = body instanceof Blob ? body : JSON.stringify(body);
  return inWorker ? callWorker(method, data, signal, progress) : callHTTP(method, data, signal, progress);
}

async function callHTTP(method, data, signal, progress) {
  try {
    const response = await fetch(`api/${method}`, { method: 'POST', body: data, signal });
    if (!response.ok) throw new ServiceError(`The service answered ${response.status}: ${await response.text()}`);
    return await lastLine(response.body, progress);
  } catch (err) {
    if (err instanceof ServiceError || err.name === 'AbortError') throw err;
    throw new UnreachableError(serverEnded);
  }
}

/** Reads lines of JSON until the one with the result. */
async function lastLine(stream, progress) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (value) text += value;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
      const response = JSON.parse(text.slice(0, end));
      text = text.slice(end + 1);
      if ('progress' in response) progress(response.progress);
      else return result(response);
    }
    if (done) throw new UnreachableError(serverEnded);
  }
}

function result(response) {
  if ('error' in response) throw new ServiceError(response.error);
  return response.result;
}

/** @type {Worker|undefined} */
let worker;
let lastID = 0;
const waiting = new Map();

function startWorker() {
  worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data: { id, progress, response } }) => {
    const call = waiting.get(id);
    if (!call) return;
    if (response === undefined) {
      call.progress(progress);
      return;
    }
    waiting.delete(id);
    try {
      call.resolve(result(JSON.parse(response)));
    } catch (err) {
      call.reject(err);
    }
  };
  worker.onerror = (event) => {
    event.preventDefault();
    worker.terminate();
    worker = undefined; // the next call starts another
    for (const call of waiting.values()) call.reject(new UnreachableError(workerEnded));
    waiting.clear();
  };
}

async function callWorker(method, data, signal, progress) {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(await data.arrayBuffer());
  signal?.throwIfAborted();
  if (!worker) startWorker();
  const id = ++lastID;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, progress });
    signal?.addEventListener('abort', () => {
      if (!waiting.delete(id)) return;
      worker?.postMessage({ cancel: id });
      reject(signal.reason);
    });
    worker.postMessage({ id, method, bytes }, [bytes.buffer]);
  });
}
