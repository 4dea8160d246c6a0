// Package engine makes decisions on the states in a store, and stores what they change.
//
// The interfaces of the store determine where a decision is made:
//
//	driver.InPlace     in Go, under a lock of the store
//	driver.Transactor  in Go, inside a transaction that serves all requests of a batch
//	driver.Server      on the server, in one round trip that serves all requests of a batch
//	any other store     in Go: Load, evaluate, CompareAndSwap, and again after a conflict
//
// A request whose policy has no program for the server is decided by swaps too.
//
// Requests that wait while enough round trips are in flight share the next one. A call
// returns when its context ends or its timeout has passed, even if the store hangs. There is one
// exception: a caller that sends its own request waits until the store returns. A caller sends its
// own request only if the store has answered within the last 10 ms.
//
// The decision itself, in Go, is always Evaluator.Evaluate. If the server has decided, the engine
// evaluates the request on the states that the server found, and compares the outcomes.
package engine
