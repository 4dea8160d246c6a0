package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
)

func ExampleKeyGroup() {
	fmt.Printf("%q\n", driver.KeyGroup(driver.Key("tenant-7", "shop", "alice")))
	fmt.Printf("%q\n", driver.KeyGroup(driver.Key("", "shop", "alice")))
	// Output:
	// "tenant-7"
	// ""
}

func TestKeyGroup(t *testing.T) {
	long := strings.Repeat("t", 129)
	require.Equal(t, long[1:], driver.KeyGroup(driver.Key(long[1:], "a")))
	require.Len(t, driver.KeyGroup(driver.Key(long, "a")), 32)
	require.Equal(t, driver.KeyGroup(driver.Key(long, "a")), driver.KeyGroup(driver.Key(long, "b")))
	require.Equal(t, "t", driver.KeyGroup(driver.Key("t", long, long, long, long)))
	for _, foreign := range []string{"", "k", "h", "x\x01a", "k\x05abc", "k\x80", "k\xff\xff\xff", "h\xff\x7f"} {
		require.Empty(t, driver.KeyGroup(foreign), "%q", foreign)
	}
}

func TestCutKey(t *testing.T) {
	long := strings.Repeat("x", 200)
	hashed := driver.Key("", "r", strings.Repeat(long, 3)) // 'h', the length of no group, the rule, a hash
	require.Len(t, hashed, 1+1+2+32)
	for _, c := range []struct{ key, prefix, last string }{
		{driver.Key("", "shop", "per user", "ann"), driver.Key("", "shop", "per user"), "ann"},
		{driver.Key("g", "", "r", ""), driver.Key("g", "", "r"), ""},
		{driver.Key("", "", "r", long), driver.Key("", "", "r"), long},
		{driver.Key("", long, long), driver.Key("", long), long},
		{driver.Key("alone"), "k", "alone"},
		{hashed, hashed[:4], hashed[4:]},
		{hashed[:33], "", hashed[:33]}, // too short for a hash
		{"", "", ""},
		{"k", "", "k"},
		{"anything", "", "anything"},
		{"k\x05four", "", "k\x05four"},
		{"k\x80\x00", "", "k\x80\x00"},                 // a length of 0 in two bytes, which would be cut like "k\x00"
		{"k\x00\x81\x00a", "", "k\x00\x81\x00a"},       // the same for the second part
		{"k\x00\xff\xff\xff", "", "k\x00\xff\xff\xff"}, // not a length
	} {
		prefix, _, last := driver.CutKey(c.key)
		require.Equal(t, []string{c.prefix, c.last}, []string{prefix, last}, "%.40q", c.key)
	}
}

// FuzzCutKey requires that the key can be rebuilt from prefix and last.
func FuzzCutKey(f *testing.F) {
	f.Add(driver.Key("g", "a", "b"))
	f.Add("k\x01a\x80\x00")
	f.Fuzz(func(t *testing.T, key string) {
		prefix, _, last := driver.CutKey(key)
		if prefix == "" || prefix[0] == 'h' {
			require.Equal(t, key, prefix+last)
			return
		}
		rebuilt := append([]byte(prefix), driver.AppendKey(nil, last)[1:]...)
		if len(last) <= 128 { // longer groups are shortened
			require.Equal(t, key, string(rebuilt))
		}
	})
}

func TestKeysOfOneRuleHaveTheSameRule(t *testing.T) {
	long := strings.Repeat("x", 600)
	ruleOf := func(key string) string {
		_, rule, _ := driver.CutKey(key)
		return rule
	}
	rule := ruleOf(driver.Key("", "shop", "per user", "ann"))
	require.Equal(t, driver.Key("", "shop", "per user")[2:], rule)
	for _, same := range []string{driver.Key("group", "shop", "per user", ""), driver.Key(long, "shop", "per user", long)} {
		require.Equal(t, rule, ruleOf(same))
	}
	require.NotEqual(t, ruleOf(driver.Key("", "shop", long, "ann")), ruleOf(driver.Key("", "shop2", long, "ann")))
	for _, none := range []string{"", "k", "h", "anything", driver.Key(""), driver.Key("group"), driver.Key("group", "alone")} {
		require.Empty(t, ruleOf(none), "%q", none)
	}
}
