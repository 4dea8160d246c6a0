package ordeal

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// A Subject is a store that is reached through a proxy.
type Subject struct {
	Proxy *faultproxy.Proxy
	Store storage.Store // through the proxy, on a client that has not connected yet
	Truth storage.Store // the same records, past the proxy
}

// Run makes a run with every kind of fault at every message, each on a subject of
// its own. All of them may share one table or prefix: their keys differ.
func Run(t *testing.T, open func(t *testing.T) Subject, kinds ...faultproxy.Kind) {
	t.Helper()
	messages := rehearse(t, open)
	t.Logf("a run has %d messages", messages)
	if len(kinds) == 0 {
		kinds = faultproxy.Kinds()
	}
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			runs := make([]*run, messages)
			for i := range runs {
				fault := faultproxy.Fault{At: i + 1, Kind: kind}
				runs[i] = &run{Subject: open(t), namespace: fmt.Sprint(t.Name(), " ", i), fault: fault}
			}
			for i, err := range all(runs) {
				if err != nil {
					t.Errorf("%v at message %d of %d:\n%v", kind, i+1, messages, err)
				}
			}
		})
	}
}

// rehearse counts the messages of a run without a fault. It makes two, because
// the first may teach the server something, such as a script.
func rehearse(t *testing.T, open func(t *testing.T) Subject) int {
	t.Helper()
	for i := range 2 {
		r := &run{Subject: open(t), namespace: fmt.Sprint(t.Name(), " rehearsal ", i)}
		if err := r.do(); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			return r.Proxy.Seen()
		}
	}
	return 0
}

// atOnce is how many runs go on at a time. They mostly wait.
const atOnce = 12

func all(runs []*run) []error {
	errs := make([]error, len(runs))
	places := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, r := range runs {
		places <- struct{}{}
		group.Go(func() {
			errs[i] = r.do()
			<-places
		})
	}
	group.Wait()
	return errs
}
