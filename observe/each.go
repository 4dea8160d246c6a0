package observe

import (
	"slices"

	"github.com/sluice-go/sluice/compose"
)

// Each returns an observer that calls all of the observers in their order. It leaves out nil
// observers. If no observer remains, Each returns nil, so that the limiter skips the work
// for observers.
func Each(observers ...func(compose.Event)) func(compose.Event) {
	all := slices.DeleteFunc(slices.Clone(observers), func(o func(compose.Event)) bool { return o == nil })
	if len(all) == 0 {
		return nil
	}
	return func(e compose.Event) {
		for _, observer := range all {
			observer(e)
		}
	}
}
