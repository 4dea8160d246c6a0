package storage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func TestCutKey(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ key, prefix, last string }{
		{storage.Key("", "shop", "per user", "ann"), storage.Key("", "shop", "per user"), "ann"},
		{storage.Key("g", "", "r", ""), storage.Key("g", "", "r"), ""},
		{storage.Key("", "", "r", long), storage.Key("", "", "r"), long},
		{storage.Key("", long, long), storage.Key("", long), long},
		{storage.Key("alone"), "k", "alone"},
		{storage.Key("", "r", strings.Repeat(long, 3)), "", storage.Key("", "r", strings.Repeat(long, 3))},
		{"", "", ""},
		{"k", "", "k"},
		{"anything", "", "anything"},
		{"k\x05four", "", "k\x05four"},
		{"k\x80\x00", "", "k\x80\x00"},                 // a length of 0 in two bytes, which would cut as "k\x00" does
		{"k\x00\x81\x00a", "", "k\x00\x81\x00a"},       // the same for the second part
		{"k\x00\xff\xff\xff", "", "k\x00\xff\xff\xff"}, // no length at all
	} {
		prefix, last := storage.CutKey(c.key)
		require.Equal(t, []string{c.prefix, c.last}, []string{prefix, last}, "%.40q", c.key)
	}
}

// FuzzCutKey requires that the two parts tell the key.
func FuzzCutKey(f *testing.F) {
	f.Add(storage.Key("g", "a", "b"))
	f.Add("k\x01a\x80\x00")
	f.Fuzz(func(t *testing.T, key string) {
		prefix, last := storage.CutKey(key)
		if prefix == "" {
			require.Equal(t, key, last)
			return
		}
		glued := append([]byte(prefix), storage.AppendKey(nil, last)[1:]...)
		if len(last) <= 128 { // longer groups are shortened
			require.Equal(t, key, string(glued))
		}
	})
}
