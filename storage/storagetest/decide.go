package storagetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// policies has the policy of each program that the laws of servers use.
var policies = map[*algo.Program]algo.Policy{}

var (
	threeAnHour    = program("gcra 3/h")
	tenAnHour      = program("gcra 10/h")
	fiftyAnHour    = program("gcra 50/h")
	thousandAnHour = program("gcra 1000/h")

	// For each of randomPrograms, the states of the other algorithms are damaged.
	randomPrograms = []*algo.Program{
		tenAnHour, program("tokenbucket 10/h burst=4"), program("fixedwindow 5/h"), program("movingwindow 6/h slots=4"),
		program("all(gcra 10/h; fixedwindow 12/h; all(movingwindow 30/d slots=6; tokenbucket 9/h))"),
	}
)

// program adds a policy to policies. It panics if the policy has no program.
func program(spec string) *algo.Program {
	policy, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	program, ok := policy.(algo.Portable).Program()
	if !ok {
		panic(fmt.Sprintf("storagetest: the policy %v has no program", policy))
	}
	policies[&program] = policy
	return &program
}

// stateAfter returns the state of a key after its first cost units were taken.
func stateAfter(p *algo.Program, now time.Time, cost int64) string {
	state, r, err := policies[p].Step(nil, nil, now, cost)
	if err != nil || !r.Allowed {
		panic(fmt.Sprint("storagetest: a cost of ", cost, " is not allowed: ", err))
	}
	return string(state)
}

// decide decides a batch in Go, on the stored record of each key. It sets Found, At and Applied, and returns the change of
// each key. now is the time of the decisions if the batch has none.
func decide(b *driver.Batch, found []storage.Record, now time.Time) []driver.Change {
	if !b.Now.IsZero() {
		now = b.Now
	}
	b.Err, b.KeyErr, b.At, b.Found = nil, nil, now, found
	states, changes := make([][]byte, len(found)), make([]driver.Change, len(found))
	for i, record := range found {
		states[i] = record.State
	}
	for i := range b.Requests {
		r := &b.Requests[i]
		r.Applied = 0
		for range max(r.Times, 1) {
			next, applied := decideOnce(b, r.Uses, states)
			for key, change := range next {
				states[key], changes[key] = change.State, change
			}
			if r.Applied += applied; applied < 0 {
				break
			}
		}
	}
	return changes
}

// decideOnce decides a request with Times 1. It returns the changes by key and the Applied of the request.
func decideOnce(b *driver.Batch, uses []driver.Use, states [][]byte) (changes map[int]driver.Change, applied int) {
	ops := [...]policy.Op{driver.Allow: policy.Step, driver.Refund: policy.Refund, driver.Charge: policy.Charge}
	changes = map[int]driver.Change{}
	denied := false
	for _, use := range uses {
		next, r, err := ops[use.Op].Apply(policies[use.Program], nil, states[use.Key], b.At, use.Cost)
		switch {
		case err != nil && use.Shadow:
		case err != nil:
			return nil, driver.Damaged
		case !r.Allowed:
			denied = denied || !use.Shadow
		default:
			applied++
			if len(next) == 0 {
				changes[use.Key] = driver.Change{Verb: driver.Delete}
			} else if !bytes.Equal(next, states[use.Key]) {
				changes[use.Key] = driver.Change{Verb: driver.Put, State: next, TTL: r.ResetAfter}
			}
		}
	}
	if denied {
		return nil, 0
	}
	return changes, applied
}
