package compose_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage/driver"
)

// Four limiters, as of four processes that hand in no clock, admit together no more than one
// would: the server's clock decides for all.
func TestAFleetOnARealServerStaysWithinTheBound(t *testing.T) {
	const limiters, callers, calls = 4, 4, 60
	for name, open := range realServers {
		t.Run(name, func(t *testing.T) {
			store := open(t).store
			require.Implements(t, (*driver.ServerTime)(nil), store)
			for _, spec := range []string{"gcra 200/s burst=20", "tokenbucket 100/s burst=10", "fixedwindow 20/s", "movingwindow 20/s slots=10"} {
				policy := limitOf(t, spec)
				var admitted atomic.Int64
				var group sync.WaitGroup
				errs := make(chan error, limiters*callers*calls)
				began := time.Now()
				for i := range limiters {
					l, err := compose.Options[call]{Timeout: time.Minute, DenialCacheTTL: time.Duration(-(i % 2))}.New(store,
						compose.Rule[call]{Name: spec, Policy: policy})
					require.NoError(t, err)
					for range callers {
						group.Go(func() {
							for range calls {
								d, err := l.Allow(background, call{})
								errs <- err
								if d.Allowed {
									admitted.Add(1)
								}
							}
						})
					}
				}
				group.Wait()
				close(errs)
				for err := range errs {
					require.NoError(t, err)
				}
				elapsed := time.Since(began) + time.Millisecond // by which clocks of a machine differ
				require.LessOrEqual(t, admitted.Load(), policy.Bound(elapsed), "%s in %v", spec, elapsed)
				require.GreaterOrEqual(t, admitted.Load(), int64(10), spec)
			}
		})
	}
}
