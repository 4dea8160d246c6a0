// Package servetest has end-to-end tests of "sluice serve". They build and start the program,
// send requests with hey and curl, stop its databases, and control it by signals. They promise:
//
//   - Under load, during a reload and after the program was killed, no more requests are admitted
//     than Policy.Bound.
//   - A reload fails no request. A shutdown cuts off no request within --drain.
//   - During an outage of the store, the program does what --on-failure says. After it, the quota is
//     what it was before.
//   - The memory of the program does not grow with the number of keys.
//   - The commands and the Go code of docs/client.md work.
//
// The upstream counts the admitted requests, because it sees each of them. The tests compare
// the count with the bound of the policy for the time of the run.
package servetest
