// These tests promise about keys:
//   - their texts never change, because stored keys outlive a program;
//   - different parts make different texts, and no text is too long;
//   - a person can read them, and a Redis Cluster finds the group in them;
//   - the parts can be read from a text, unless one was cut.
package driver_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func ExampleRuleKey() {
	login := driver.Rule("shop", "login", "gcra")
	fmt.Println(driver.RuleKey{Rule: login, Key: "alice"})
	fmt.Println(driver.RuleKey{Group: "tenant-7", Rule: login, Key: "2001:db8::1"})
	fmt.Println(driver.RuleKey{Rule: login, Key: "50%\n"})
	fmt.Println(driver.RuleKey{Rule: login, Key: strings.Repeat("x", 100_000)}.String()[400:])
	// Output:
	// shop:login:gcra:alice
	// {tenant-7}shop:login:gcra:2001:db8::1
	// shop:login:gcra:50%25%0A
	// xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx%#d69e68988157833272305aaf21f453c800346e8a3640db6578e260215542e5d4
}

func ExampleParseKey() {
	k, ok := driver.ParseKey("{tenant-7}shop:login:gcra:50%25")
	fmt.Printf("%q %q %q %v\n", k.Group, k.Rule, k.Key, ok)
	// Output:
	// "tenant-7" "shop:login:gcra:" "50%" true
}

// five are the parts of a key: group, namespace, rule, kind and the user's key.
type five [5]string

func (f five) key() driver.RuleKey {
	return driver.RuleKey{Group: f[0], Rule: driver.Rule(f[1], f[2], f[3]), Key: f[4]}
}

func hashOf(part string) string { return fmt.Sprintf("%%#%x", sha256.Sum256([]byte(part))) }

func TestTextsDoNotChange(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	for _, c := range []struct {
		parts five
		want  string
	}{
		{five{}, ":::"},
		{five{"", "", "gcra 100/m", "gcra", "ann"}, ":gcra 100/m:gcra:ann"},
		{five{"", "shop", "login", "all(fixedwindow/h,gcra/s)", "ann@example.org"}, "shop:login:all(fixedwindow/h,gcra/s):ann@example.org"},
		{five{"a:b", "a:b", "a:b", "a:b", "a:b"}, "{a%3Ab}a%3Ab:a%3Ab:a%3Ab:a:b"},
		{five{"{%}", "{%}", "{%}", "{%}", "{%}"}, "{%7B%25%7D}%7B%25%7D:%7B%25%7D:%7B%25%7D:%7B%25%7D"},
		{five{"", "n", "r", "k", "\x00\t\x1f ~\x7f\u0080\u009f\u00a0"}, "n:r:k:%00%09%1F ~%7F%C2%80%C2%9F\u00a0"},
		{five{"", "n", "r", "k", "\xff\xc2ü:\xe2\x82\ufffd"}, "n:r:k:%FF%C2ü:%E2%82\ufffd"},
		{five{"", "", "", "", long}, ":::" + long[:443] + hashOf(long)},
		{five{long, long, long, long, long}, strings.Replace("{G}G:G:G:", "G", long[:30]+hashOf(long), -1)},
		{five{"", "", strings.Repeat("ü", 100), "", ""}, ":" + strings.Repeat("ü", 15) + hashOf(strings.Repeat("ü", 100)) + "::"},
		{five{"", "", "x" + strings.Repeat("ü", 100), "", ""}, ":x" + strings.Repeat("ü", 14) + hashOf("x"+strings.Repeat("ü", 100)) + "::"},
		{five{"", "", strings.Repeat(":", 100), "", ""}, ":" + strings.Repeat("%3A", 10) + hashOf(strings.Repeat(":", 100)) + "::"},
	} {
		got := c.parts.key().String()
		if c.parts[0] == long {
			require.Len(t, got, storage.MaxKey)
			require.True(t, strings.HasSuffix(got, hashOf(long)))
			got = got[:len(c.want)]
		}
		require.Equal(t, c.want, got)
	}
}

func TestTextsAreReadableAndNotTooLong(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		f := randomFive(random)
		requireReadable(t, f)
	}
	for n := range 2 * storage.MaxKey {
		for i := range 5 {
			f := five{"g", "n", "r", "k", "u"}
			f[i] = strings.Repeat("é"[:1+n%2], n)
			requireReadable(t, f)
			requireReadable(t, five{f[i], f[i], f[i], f[i], f[i]})
		}
	}
	// A key of exactly MaxKey bytes has all parts.
	fits := strings.Repeat("x", storage.MaxKey-len("n:r:k:"))
	require.Equal(t, "n:r:k:"+fits, five{"", "n", "r", "k", fits}.key().String())
	require.Contains(t, five{"", "n", "r", "k", fits + "x"}.key().String(), hashOf(fits+"x"))
}

// requireReadable requires that a text has the documented form.
func requireReadable(t testing.TB, f five) {
	t.Helper()
	k := f.key()
	text := k.String()
	require.LessOrEqual(t, len(text), storage.MaxKey)
	require.True(t, utf8.ValidString(text), "%q", text)
	require.False(t, strings.ContainsFunc(text, unicode.IsControl), "%q", text)
	require.Equal(t, 3, strings.Count(k.Rule, ":"))
	require.Equal(t, "before"+text, string(k.Append([]byte("before"))))

	braces := 0
	if f[0] != "" {
		braces = 1
	}
	require.Equal(t, braces, strings.Count(text, "{"), "%q", text)
	require.Equal(t, braces, strings.Count(text, "}"), "%q", text)
	require.Equal(t, braces == 1, strings.HasPrefix(text, "{"), "%q", text)
	if braces == 1 { // the hash tag depends on the group alone
		require.True(t, strings.HasPrefix(text, driver.RuleKey{Group: f[0]}.String()), "%q", text)
	}

	parsed, ok := driver.ParseKey(text)
	require.Equal(t, k.Rule, parsed.Rule)
	isCut := strings.Contains(strings.Replace(text, k.Rule, "", 1), "%#")
	require.Equal(t, isCut, !ok, "%q", text)
	require.False(t, isCut && k.IsShort(), "%q", text)
	if ok {
		require.Equal(t, k, parsed)
	}
}

// alphabet has pieces of parts that are likely to be confused with each other.
var alphabet = []string{
	"", "", "a", "b", ":", "::", "{", "}", "{}", "%", "%%", "%3A", "%25", "%7B", "%#", "#", "\x00", "\xff", "é", "\xc3", "all(gcra/s)", " ", "\u0085",
	strings.Repeat("x", 30), strings.Repeat("x", 66), strings.Repeat("x", 96), strings.Repeat("x", 500), hashOf("a"), hashOf("x")[2:],
}

func randomFive(random *rand.Rand) (f five) {
	for i := range f {
		for range random.IntN(4) {
			f[i] += alphabet[random.IntN(len(alphabet))]
		}
	}
	return f
}

// The parts also contain the texts of other parts, so that they look like texts or like parts that were cut.
func TestDifferentPartsMakeDifferentTexts(t *testing.T) {
	random, known, forged := rand.New(rand.NewPCG(2, 2)), map[string]five{}, ""
	for i := range 100_000 {
		f := randomFive(random)
		if i%2 == 0 {
			from := random.IntN(len(forged) + 1)
			f[random.IntN(5)] = forged[from:]
		}
		text := f.key().String()
		if before, found := known[text]; found {
			require.Equal(t, before, f, "%q", text)
		}
		known[text], forged = f, text
	}
}

func TestParseKeyOfOtherTexts(t *testing.T) {
	for _, text := range []string{"%", "%4", "%41", "a:b:c:%41", "a:b:c:%2525%", "a:b:c:%3a", "{}a:b:c:d", "{a%41}b:c:d:e", "{a", "a}", "a:b:c:{}", "a:b:c:\xff", "\n", "k\x00"} {
		_, ok := driver.ParseKey(text)
		require.False(t, ok, "%q", text)
	}
	for text, want := range map[string]driver.RuleKey{
		"": {}, "a": {Key: "a"}, "a:b:c": {Key: "a:b:c"}, "{g}a": {Group: "g", Key: "a"}, "{g}a:b:c:%25": {Group: "g", Rule: "a:b:c:", Key: "%"},
	} {
		k, ok := driver.ParseKey(text)
		require.True(t, ok, text)
		require.Equal(t, want, k, text)
	}
}

// FuzzKey searches for two different keys with the same text.
func FuzzKey(f *testing.F) {
	f.Add([]byte("a\x00b\x00c"), []byte("a\x00b\x00\x00c"))
	f.Add([]byte("\x00a:b\x00c\x00\x00"), []byte("\x00a\x00b:c\x00\x00"))
	f.Add([]byte("::::"+strings.Repeat("x", 600)), []byte("::::"+strings.Repeat("x", 443)+hashOf(strings.Repeat("x", 600))))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		// With several separators, each of these bytes also occurs inside of parts.
		for _, sep := range []string{"\x00", ":", "}", "%"} {
			var p, q five
			copy(p[:], strings.SplitN(string(a), sep, len(p)))
			copy(q[:], strings.SplitN(string(b), sep, len(q)))
			require.Equal(t, p == q, p.key().String() == q.key().String(), "%q and %q", p, q)
			requireReadable(t, p)
			parsed, ok := driver.ParseKey(string(b)) // different texts have different keys
			require.True(t, !ok || parsed.String() == string(b))
		}
	})
}
