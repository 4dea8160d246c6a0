package driver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
)

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
		{"k\x80\x00", "", "k\x80\x00"},                 // a length of 0 in two bytes, which would cut as "k\x00" does
		{"k\x00\x81\x00a", "", "k\x00\x81\x00a"},       // the same for the second part
		{"k\x00\xff\xff\xff", "", "k\x00\xff\xff\xff"}, // no length at all
	} {
		prefix, last := driver.CutKey(c.key)
		require.Equal(t, []string{c.prefix, c.last}, []string{prefix, last}, "%.40q", c.key)
	}
}

// FuzzCutKey requires that the two parts tell the key.
func FuzzCutKey(f *testing.F) {
	f.Add(driver.Key("g", "a", "b"))
	f.Add("k\x01a\x80\x00")
	f.Fuzz(func(t *testing.T, key string) {
		prefix, last := driver.CutKey(key)
		if prefix == "" || prefix[0] == 'h' {
			require.Equal(t, key, prefix+last)
			return
		}
		glued := append([]byte(prefix), driver.AppendKey(nil, last)[1:]...)
		if len(last) <= 128 { // longer groups are shortened
			require.Equal(t, key, string(glued))
		}
	})
}

func TestRuleOfKey(t *testing.T) {
	long := strings.Repeat("x", 600)
	rule := driver.RuleOfKey(driver.Key("", "shop", "per user", "ann"))
	require.Equal(t, driver.Key("", "shop", "per user")[2:], rule)
	for _, same := range []string{driver.Key("group", "shop", "per user", ""), driver.Key(long, "shop", "per user", long)} {
		require.Equal(t, rule, driver.RuleOfKey(same))
	}
	require.NotEqual(t, driver.RuleOfKey(driver.Key("", "shop", long, "ann")), driver.RuleOfKey(driver.Key("", "shop2", long, "ann")))
	for _, none := range []string{"", "k", "h", "anything", driver.Key(""), driver.Key("group"), driver.Key("group", "alone")} {
		require.Empty(t, driver.RuleOfKey(none), "%q", none)
	}
}
