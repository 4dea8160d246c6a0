// Package fleet tests limiters in several processes that share a store, with many callers in each
// process and with servers that fail. The processes are copies of the test binary.
//
// The tests promise:
//
//   - Several processes admit exactly what one process may admit (exact_limit_test.go), also if the
//     clocks of the processes differ.
//   - Under contention, each decision is one that the policies allow at its time and in its order, and
//     no denial is wrong (contention_test.go, linearizable_test.go).
//   - A killed server or process loses only what the package comment of its store says
//     (crash_test.go). Limiters follow their failure policy in an outage and recover by themselves
//     (outage_test.go).
//   - Different keys never share a record, whatever bytes they have (hostile_keys_test.go).
//
// Each process writes a journal of its decisions: the state that a decision found, its time and its
// result. The verifier reconstructs from all journals the order in which the decisions were committed.
// It replays this order with Policy.Step, and compares all results, the bounds and the stored states
// (verifier_test.go). Forged journals test the verifier (verifier_forgery_test.go).
//
// The clock is a number in memory that all processes share. Each reading advances it, so the results do
// not depend on the speed of the machine.
package fleet
