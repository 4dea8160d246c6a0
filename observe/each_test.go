package observe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

func TestEachTellsEveryObserverInOrder(t *testing.T) {
	var told []string
	observer := func(name string) func(compose.Event) {
		return func(e compose.Event) { told = append(told, name+" "+string(e.Op)) }
	}
	Each(observer("a"), nil, observer("b"))(compose.Event{Op: compose.OpPeek})
	require.Equal(t, []string{"a peek", "b peek"}, told)
	Each(nil, observer("c"))(compose.Event{Op: compose.OpAllow})
	require.Equal(t, []string{"a peek", "b peek", "c allow"}, told)
}

// A limiter without an observer reads no clock, so nobody is to look like nobody.
func TestEachOfNobodyIsNil(t *testing.T) {
	require.Nil(t, Each())
	require.Nil(t, Each(nil, nil))
}
