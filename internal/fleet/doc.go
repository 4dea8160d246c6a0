// Package fleet holds the tests of limiters as a fleet of processes uses them:
// several processes, one store, many callers each, and servers that die under
// them. The processes are the test binary itself, started again.
//
// Nothing is believed that was not written down. Every process keeps a journal
// of each decision: what state it saw, at what time, and what it made of it.
// From the journals of all processes the judge puts together the one order in
// which decisions were committed, replays it through the pure step, and holds
// every answer, every bound and what is stored in the end against it.
//
// Time is a number in memory that all processes share, and each reading moves it
// on: it does not matter how fast the machine is.
package fleet
