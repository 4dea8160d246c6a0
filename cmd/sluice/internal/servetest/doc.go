// Package servetest has end-to-end tests of "sluice serve". They build and start the program,
// send requests over many connections, stop its databases, and control it by signals.
//
// The upstream counts the admitted requests, because it sees each of them. The tests compare
// the count with the bound of the policy for the time of the run.
package servetest
