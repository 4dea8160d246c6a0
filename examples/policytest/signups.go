// Package policytest shows how to test a limit. Its tests use literal times and do not sleep.
package policytest

import (
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// signups allows an address 2 signups at once, and 3 an hour in the long run.
var signups = sluice.MustPolicy("gcra 3/hour burst=2")

// newLimiter limits signups by address. A nil clock means the clock of the store.
func newLimiter(store storage.Store, clock func() time.Time) (*sluice.Limiter[string], error) {
	return sluice.Options[string]{Clock: clock}.New(store, sluice.Rule[string]{
		Name:   "signups",
		Key:    func(address string) string { return address },
		Policy: signups,
	})
}
