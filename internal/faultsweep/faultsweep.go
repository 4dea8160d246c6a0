// Package faultsweep tests limiters on a store behind a proxy. It injects every kind of network
// fault at every message of a run:
//
//	faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
//		proxy := faultproxy.Redis(t, server.Addr())
//		return faultsweep.Subject{Proxy: proxy, Store: storeOn(proxy.Addr()), Direct: storeOn(server.Addr())}
//	})
//
// In a run, two limiters take turns and make 24 decisions, so that each limiter reads what the
// other wrote. A run has one fault, at the n-th message. There is one run for each n and each kind
// of fault. Then the results of the calls are compared with the stored states:
//
//   - Used units are admitted units, except for decisions that returned ErrOutcomeUnknown. At most
//     one decision of a run returns it: the one with the fault.
//   - No limit is exceeded.
//   - A denied request would be denied without the fault, too.
//   - A decision fails only if the fault left no time for a retry.
//   - A call ends at its timeout or at the deadline of its context.
package faultsweep

import (
	"sync"
	"testing"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// Subject is a store that is reached through a proxy.
type Subject struct {
	Proxy  *faultproxy.Proxy
	Store  storage.Store // uses the proxy, on a client that is not connected yet
	Direct storage.Store // the same records without the proxy
}

// Run injects each kind of fault at each message. Without kinds it uses all of them. Each run has
// its own subject. All subjects may share one table or prefix, because their keys differ.
func Run(t *testing.T, open func(t *testing.T) Subject, kinds ...faultproxy.Kind) {
	t.Helper()
	messages := countMessages(t, open)
	t.Logf("a run has %d messages", messages)
	if len(kinds) == 0 {
		kinds = faultproxy.Kinds()
	}
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			errs := make([]error, messages)
			slots := make(chan struct{}, maxConcurrent)
			var group sync.WaitGroup
			for i := range errs {
				r := newRun(t, i, open, faultproxy.Fault{At: i + 1, Kind: kind})
				slots <- struct{}{}
				group.Go(func() {
					errs[i] = r.do()
					<-slots
				})
			}
			group.Wait()
			for i, err := range errs {
				if err != nil {
					t.Errorf("%v at message %d of %d:\n%v", kind, i+1, messages, err)
				}
			}
		})
	}
}

// maxConcurrent is the number of concurrent runs. Runs mostly wait.
const maxConcurrent = 12

// countMessages counts the messages of a run without a fault. The first run is not counted,
// because it may load scripts into the server.
func countMessages(t *testing.T, open func(t *testing.T) Subject) int {
	t.Helper()
	var last *run
	for i := range 2 {
		last = newRun(t, i, open, faultproxy.Fault{})
		if err := last.do(); err != nil {
			t.Fatal(err)
		}
	}
	return last.Proxy.Exchanges()
}
