package httplimit_test

import (
	"fmt"

	"github.com/dunglas/httpsfv"
)

// item is an Item of RFC 9651 whose value is a String.
type item struct {
	name   string
	params map[string]any
}

// parseItems reads a List of such items, as RFC 9651 has it and somebody else
// understood it; canonical is how that would write it.
func parseItems(lines []string) (items []item, canonical string, err error) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, "", err
	}
	for _, member := range list {
		found, _ := member.(httpsfv.Item)
		name, ok := found.Value.(string)
		if !ok {
			return nil, "", fmt.Errorf("%v is no String", member)
		}
		it := item{name, make(map[string]any)}
		for _, key := range found.Params.Names() {
			it.params[key], _ = found.Params.Get(key)
		}
		items = append(items, it)
	}
	canonical, err = httpsfv.Marshal(list)
	return items, canonical, err
}
