package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func ExampleRuleKey() {
	key := driver.RuleKey{Group: "tenant-7", Rule: driver.EncodeRule("shop", "per-user"), Key: "alice"}
	fmt.Printf("%q\n", key.String())
	// Output:
	// "k\btenant-7\x04shop\bper-user\x05alice"
}

func TestTextOfARuleKeyIsThatOfItsParts(t *testing.T) {
	texts := []string{"", "a", strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 400), strings.Repeat("x", 1000)}
	for _, group := range texts {
		for _, name := range texts {
			for n := range 2 * storage.MaxKey {
				key := strings.Repeat("k", n)
				k, want := driver.RuleKey{Group: group, Rule: driver.EncodeRule("shop", name), Key: key}, driver.Key(group, "shop", name, key)
				require.Equal(t, want, k.String())
				require.Equal(t, want[0] == 'k', k.IsPlain(), "%d", len(want))
			}
		}
	}
}
