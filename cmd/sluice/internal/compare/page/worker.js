// The worker of the static site: the service in WebAssembly. scripts/site.sh puts wasm_exec.js and
// sluice.wasm beside this file. A message {id, method, bytes} gets messages {id, progress} and then
// {id, answer}, which is JSON.

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

onmessage = async ({ data: { id, method, bytes } }) => {
  try {
    await started;
  } catch (err) {
    postMessage({ id, answer: JSON.stringify({ error: err.message }) });
    return;
  }
  globalThis.sluiceCall(
    method,
    bytes,
    (progress) => postMessage({ id, progress }),
    (answer) => postMessage({ id, answer }),
  );
};
