package storagetest

import (
	"bytes"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// decide decides a batch in Go, with the methods Step, Refund and Charge of the policies. found has the
// stored record of each key. decide sets Found, At and Applied, and returns the change of each key. now is
// the time of the decisions if the batch has none.
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
			if applied < 0 {
				r.Applied = applied
				break
			}
			for key, change := range next {
				states[key], changes[key] = change.State, change
			}
			r.Applied += applied
		}
	}
	return changes
}

// decideOnce decides a request with Times 1. It returns the changes by key and the Applied of the request.
func decideOnce(b *driver.Batch, uses []driver.Use, states [][]byte) (map[int]driver.Change, int) {
	changes, applied, denied := map[int]driver.Change{}, 0, false
	for _, use := range uses {
		if b.Found[use.Key].Version == b.Version {
			return nil, driver.AlreadyStored
		}
	}
	for _, use := range uses {
		step := algo.Policy.Step
		switch use.Op {
		case driver.Peek:
			continue
		case driver.Reset:
			changes[use.Key] = driver.Change{Verb: driver.Delete}
			continue
		case driver.Refund:
			step = algo.Policy.Refund
		case driver.Charge:
			step = algo.Policy.Charge
		}
		next, r, err := step(policyOf(b.Programs[use.Program]), nil, states[use.Key], b.At, use.Cost)
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
