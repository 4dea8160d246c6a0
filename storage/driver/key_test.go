// These tests promise about keys:
//   - their bytes never change, because stored keys outlive a program;
//   - different groups or parts make different keys, and no key is too long;
//   - the group, the rule and the last part can be read from a key.
package driver_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func ExampleKey() {
	fmt.Printf("%q\n", driver.Key("", "shop", "per-user", "alice"))
	fmt.Printf("%q\n", driver.Key("", "shop", "per-user", ""))
	fmt.Println(len(driver.Key("", "shop", "per-user", strings.Repeat("x", 100_000))))
	// Output:
	// "k\x00\x04shop\bper-user\x05alice"
	// "k\x00\x04shop\bper-user\x00"
	// 48
}

func ExampleAppendKey() {
	var buffer [64]byte
	key := driver.AppendKey(buffer[:0], "tenant-7", "shop", "alice")
	fmt.Printf("%q\n", key)
	// Output:
	// "k\btenant-7\x04shop\x05alice"
}

func ExampleCutKey() {
	prefix, rule, last := driver.CutKey(driver.Key("tenant-7", "shop", "per-user", "alice"))
	fmt.Printf("%q\n%q\n%q\n", prefix, rule, last)
	// Output:
	// "k\btenant-7\x04shop\bper-user"
	// "\x04shop\bper-user"
	// "alice"
}

func TestKeyBytesDoNotChange(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	unhex := func(s string) string {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return string(b)
	}
	for _, c := range []struct {
		group string
		parts []string
		want  string
	}{
		{"", nil, "k\x00"},
		{"", []string{""}, "k\x00\x00"},
		{"", []string{"\x00\xff{}", "/"}, "k\x00\x04\x00\xff{}\x01/"},
		{"g", []string{strings.Repeat("x", 200)}, "k\x01g\xc8\x01" + strings.Repeat("x", 200)},
		{"g", []string{long}, "h\x01g" + unhex("2352980aa43fbee00b4e63b749971e7437ca0d377454dd25daef918232fa6014")},
		{long, []string{"a"}, "h\x20" + unhex("ab6c5f3237f551d208fc2ca5225a4cca20b3fd638794a804f0ed5549d5041734") + unhex("efb0b6afa07df21f0105f4b41d08c033faff5097909c6a3ac4851db9a198c8d4")},
	} {
		got := driver.Key(c.group, c.parts...)
		require.Equal(t, fmt.Sprintf("%q", c.want), fmt.Sprintf("%q", got), "group %.20q parts %.20q", c.group, c.parts)
	}
}

func TestKeyIsNeverTooLong(t *testing.T) {
	for n := range 2 * storage.MaxKey {
		x := strings.Repeat("x", n)
		require.LessOrEqual(t, len(driver.Key("g", "n", x)), storage.MaxKey)
		require.LessOrEqual(t, len(driver.Key(x, "n", "u")), storage.MaxKey)
		require.LessOrEqual(t, len(driver.Key(x, x, x)), storage.MaxKey)
	}
	// A key of exactly MaxKey bytes is plain, and a longer one is hashed.
	fits := strings.Repeat("x", storage.MaxKey-len("k\x00\xff\x03"))
	require.Len(t, driver.Key("", fits), storage.MaxKey)
	require.Len(t, driver.Key("", fits+"x"), len("h\x00")+32)
}

func TestDifferentPartsMakeDifferentKeys(t *testing.T) {
	long, other := strings.Repeat("a", 600), strings.Repeat("a", 601)
	keys := map[string][]string{}
	for _, parts := range [][]string{
		{""}, {"", ""}, {"", "", ""}, {"", "", "", ""},
		{"", "a", "b"}, {"", "a\x01b"}, {"", "ab", ""}, {"", "", "ab"}, {"", "a", "", "b"}, {"", "\x01a", "b"},
		{"a", "b"}, {"a", "", "b"}, {"a\x01b"}, {"ab"},
		{"", "n", long}, {"", "n", other}, {"", long, "n"}, {long, "n"}, {other, "n"}, {"n", long}, {"", "n" + long},
		{"", driver.Key("", "n", long)}, {"", driver.Key("", "n", long)[2:]},
		{driver.KeyGroup(driver.Key(long, "n")), "n"},
	} {
		key := driver.Key(parts[0], parts[1:]...)
		require.NotContains(t, keys, key, "%.40q and %.40q", keys[key], parts)
		keys[key] = parts
	}
}

func TestAppendKeyKeepsThePrefix(t *testing.T) {
	for _, part := range []string{"alice", strings.Repeat("x", 1000)} {
		got := driver.AppendKey([]byte("before"), "g", part)
		require.Equal(t, "before"+driver.Key("g", part), string(got))
	}
}

func TestShortKeysDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, storage.MaxKey)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		dst = driver.AppendKey(dst[:0], "tenant", "shop", "per-user", "alice")
	}))
}

// FuzzKey searches for two different lists of parts that make the same key.
func FuzzKey(f *testing.F) {
	f.Add([]byte("a\x00b\x00c"), []byte("a\x00b\x00\x00c"))
	f.Add([]byte("\x00k\x01a"), []byte("k\x00\x01a"))
	f.Add(bytes.Repeat([]byte("x"), 600), append([]byte("h\x00"), make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		// With several separators, each of these bytes also occurs inside of parts.
		for _, sep := range []string{"\x00", "\x01", "k"} {
			p, q := strings.Split(string(a), sep), strings.Split(string(b), sep)
			kp, kq := driver.Key(p[0], p[1:]...), driver.Key(q[0], q[1:]...)
			require.Equal(t, string(a) == string(b), kp == kq, "%q and %q", p, q)
			require.LessOrEqual(t, len(kp), storage.MaxKey)
			if len(p[0]) <= 128 {
				require.Equal(t, p[0], driver.KeyGroup(kp))
			}
		}
	})
}
