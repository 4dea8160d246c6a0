// Access logs that the user chooses or drops onto the page.

import { byID } from './dom.js';
import { addLog } from './controls.js';
import { call, maxLog } from './service.js';
import { count, counted } from './text.js';

/**
 * Connects the file input and the drop of files.
 * @param {object} host
 * @param {import('./progress_bar.js').ProgressBar} host.progressBar
 * @param {(log: object) => void} host.loaded is called with a Log in service.go
 */
export function connectLog({ progressBar, loaded }) {
  const note = (text, failed) => {
    byID('log-note').textContent = text;
    byID('log-note').classList.toggle('error', Boolean(failed));
  };

  let reading; // the AbortController of the log that is read; a newer log replaces it
  const send = async (file) => {
    if (!file) return;
    if (file.size > maxLog) {
      note(`${file.name} has ${count(Math.ceil(file.size / 2 ** 20))} MB. The page reads at most ${count(Math.floor(maxLog / 2 ** 20))} MB. Use a part of it, or sluice replay, which has no limit.`, true);
      return;
    }
    note(`Reading ${file.name}.`);
    reading?.abort();
    reading = new AbortController();
    const { signal } = reading;
    progressBar.begin();
    try {
      const log = await call('log', file, { signal, progress: (share) => progressBar.progress(share) });
      const skipped = log.skipped > 0 ? ` ${counted(log.skipped, 'line is not a request and was', 'lines are not requests and were')} skipped.` : '';
      const late = log.late > 0 ? ` ${counted(log.late, 'line was', 'lines were')} more than a minute out of order.` : '';
      const noAddress = log.no_address > 0 ? ` ${counted(log.no_address, 'request has', 'requests have')} a client that is no address.` : '';
      const damage = log.damage ? ` The gzip file is cut short or damaged (${log.damage}), so requests at its end are missing.` : '';
      note(`${file.name}: ${counted(log.requests, 'request')} of ${counted(log.clients, 'client')}.${skipped}${late}${noAddress}${damage}`);
      addLog(log.id, file.name);
      loaded(log);
    } catch (err) {
      if (err.name === 'AbortError') return;
      note(`${file.name} was not read: ${err.message}`, true);
    } finally {
      progressBar.end();
    }
  };

  const input = byID('log-file');
  input.addEventListener('change', () => {
    send(input.files[0]);
    input.value = ''; // the same file can be chosen again
  });

  const isFile = (event) => [...event.dataTransfer.types].includes('Files');
  addEventListener('dragover', (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  addEventListener('dragleave', (event) => {
    if (event.relatedTarget === null) document.body.classList.remove('dropping');
  });
  addEventListener('drop', (event) => {
    document.body.classList.remove('dropping');
    if (!isFile(event)) return;
    event.preventDefault();
    send(event.dataTransfer.files[0]);
  });
}
