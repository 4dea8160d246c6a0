// These tests promise that Each calls the observers in their order, and leaves out nil.
package observe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func TestEachCallsAllObserversInOrder(t *testing.T) {
	var calls []string
	observer := func(name string) func(sluice.Event) {
		return func(e sluice.Event) { calls = append(calls, name+" "+string(e.Op)) }
	}
	Each(observer("a"), nil, observer("b"))(sluice.Event{Op: sluice.OpPeek})
	Each(nil, observer("c"))(sluice.Event{Op: sluice.OpAllow})
	require.Equal(t, []string{"a peek", "b peek", "c allow"}, calls)
	require.Nil(t, Each(), "a limiter with a nil observer does less work")
	require.Nil(t, Each(nil, nil))
}
