// The worker of the static site: the service in WebAssembly. scripts/site.sh puts wasm_exec.js and
// sluice.wasm beside this file. A message {id, method, bytes} gets messages {id, progress} and then
// {id, response}, which is JSON. A message {cancel: id} ends a call.

import './wasm_exec.js';

const go = new globalThis.Go();

const ready = new Promise((resolve) => {
  globalThis.sluiceReady = resolve;
});

async function start() {
  const response = await fetch(new URL('sluice.wasm', import.meta.url));
  if (!response.ok) throw new Error(`sluice.wasm: the web server answered ${response.status}`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  go.run(instance).then(() => setTimeout(() => { throw new Error('the program ended'); })); // onerror of the page
  await ready;
}

const started = start();

/** The functions that cancel the calls, by id. */
const cancels = new Map();

onmessage = async ({ data: { id, method, bytes, cancel } }) => {
  if (cancel !== undefined) {
    cancels.get(cancel)?.();
    return;
  }
  try {
    await started;
  } catch (err) {
    postMessage({ id, response: JSON.stringify({ error: err.message }) });
    return;
  }
  let done = false; // a short call ends before sluiceCall returns
  const stop = globalThis.sluiceCall(
    method,
    bytes,
    (progress) => postMessage({ id, progress }),
    (response) => {
      done = true;
      cancels.delete(id);
      postMessage({ id, response });
    },
  );
  if (!done) cancels.set(id, stop);
};
