package storagetest

import (
	"bytes"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Decide decides a batch on the records found with the steps in Go. It is the reference for every
// [driver.Server]. It sets Found, At and Applied, and returns the change of each key. now is the time of the
// decisions if the batch has none. policyOf returns the policy of a program.
func Decide(b *driver.Batch, found []storage.Record, now time.Time, policyOf func(*algo.Program) algo.Policy) []driver.Change {
	if !b.Now.IsZero() {
		now = b.Now
	}
	b.Err, b.KeyErr, b.At, b.Found = nil, nil, now, found
	d := decision{batch: b, policyOf: policyOf, changes: make([]driver.Change, len(found))}
	for _, record := range found {
		d.states = append(d.states, record.State)
	}
	for i := range b.Requests {
		b.Requests[i].Applied = d.request(&b.Requests[i])
	}
	return d.changes
}

// decision is the state of Decide.
type decision struct {
	batch    *driver.Batch
	policyOf func(*algo.Program) algo.Policy
	states   [][]byte // of each key, after the requests that were decided
	changes  []driver.Change
}

// request decides a request and returns its Applied.
func (d *decision) request(r *driver.Request) (applied int) {
	for _, use := range r.Uses {
		if d.batch.Found[use.Key].Version == d.batch.Version {
			return driver.Stored
		}
	}
	for range max(r.Times, 1) {
		changes, n := d.once(r.Uses)
		if n < 0 {
			return n
		}
		for key, change := range changes {
			d.states[key], d.changes[key] = change.State, change
		}
		applied += n
	}
	return applied
}

// once decides a request with Times 1. It returns the changes by key and the number of applied steps.
func (d *decision) once(uses []driver.Use) (changes map[int]driver.Change, applied int) {
	changes = map[int]driver.Change{}
	denied := false
	for _, use := range uses {
		switch {
		case use.Op == driver.Peek:
			continue
		case use.Op == driver.Reset:
			changes[use.Key] = driver.Change{Verb: driver.Delete}
			continue
		}
		state := d.states[use.Key]
		next, r, err := d.step(use, state)
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
			} else if !bytes.Equal(next, state) {
				changes[use.Key] = driver.Change{Verb: driver.Put, State: next, TTL: r.ResetAfter}
			}
		}
	}
	if denied {
		return nil, 0
	}
	return changes, applied
}

func (d *decision) step(use driver.Use, state []byte) ([]byte, algo.Result, error) {
	policy := d.policyOf(d.batch.Programs[use.Program])
	switch use.Op {
	case driver.Refund:
		return policy.Refund(nil, state, d.batch.At, use.Cost)
	case driver.Charge:
		return policy.Charge(nil, state, d.batch.At, use.Cost)
	}
	return policy.Step(nil, state, d.batch.At, use.Cost)
}
