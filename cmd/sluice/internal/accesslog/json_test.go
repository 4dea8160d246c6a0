package accesslog

import (
	"cmp"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestEntriesInJSON(t *testing.T) {
	tracetest.Answers(t, "testdata/json.txt", func(line string) string {
		entries, stats, _ := readText(t, Options{KeyField: "h"}, line)
		if stats.FirstSkipped != nil {
			return stats.FirstSkipped.Reason
		}
		e := entries[0]
		require.Equal(t, int64(1e9), e.Time.Unix(), line)
		return shown(e)
	})
	require.EqualValues(t, 2e9, readLine(t, `{"time":1e9,"odd":{"time":2e9},"user":"a"}`, Options{TimeField: "Odd.Time"}).Time.Unix())
	require.Empty(t, readLine(t, `{"user":2e9,"ip":"192.0.2.1"}`, Options{TimeField: "user"}).User)
}

func TestStampsInJSON(t *testing.T) {
	tracetest.Answers(t, "testdata/stamps.txt", func(value string) string {
		p := newParser(Options{})
		var e Entry
		reason := p.parse([]byte(`{"time":`+value+`,"status":200}`), &e)
		return cmp.Or(reason, e.Time.Format(time.RFC3339Nano))
	})
}

func TestKeys(t *testing.T) {
	e := &Entry{IP: []byte("192.0.2.7"), User: []byte("ann lee"), Method: []byte("GET"), Path: []byte("/a"), Host: []byte("www.example.com"), Key: []byte(`k\1`), Status: []byte("404")}
	tracetest.Answers(t, "testdata/keys.txt", func(by string) string {
		k, err := ParseKeyer(by)
		if err != nil {
			return err.Error()
		}
		again, err := ParseKeyer(k.String())
		require.NoError(t, err)
		require.Equal(t, k, again)
		key := string(k.Key(e))
		return key
	})
}

// TestAMissingUserIsLimitedByAddress: a server does the same. No user name has the key of an address.
func TestAMissingUserIsLimitedByAddress(t *testing.T) {
	for by, set := range map[string]func(e *Entry, name string){
		"user": func(e *Entry, name string) { e.User = []byte(name) },
		"key":  func(e *Entry, name string) { e.Key = []byte(name) },
	} {
		k, err := ParseKeyer(by + "+path")
		require.NoError(t, err)
		read, named := k.Fields()
		require.Equal(t, named|IP, read)
		for name, want := range map[string]string{
			"": "ip:192.0.2.7 /a", "ip:192.0.2.7": `\x69p:192.0.2.7 /a`, `\x69p:192.0.2.7`: `\x5cx69p:192.0.2.7 /a`, "ann": "ann /a", "192.0.2.7": "192.0.2.7 /a",
		} {
			e := &Entry{IP: []byte("192.0.2.7"), Path: []byte("/a")}
			set(e, name)
			require.Equal(t, want, string(k.Key(e)))
			e.IP = nil
			if name == "" {
				require.Equal(t, "- /a", string(k.Key(e)))
			}
		}
	}
}

func TestKeysArePrintableAndDifferAsTheirFieldsDo(t *testing.T) {
	texts := []string{"", "a", " ", "a ", " a", `\`, `\x20`, "\x1b[2J", "\x00", "\xff", "\xfe", "é", "\u0085", "\u202e", "\uFFFD", `\xff`, "\t", "日本"}
	for _, by := range []string{"user", "user+path"} {
		k, err := ParseKeyer(by)
		require.NoError(t, err)
		seen := map[string]string{}
		for _, user := range texts {
			for _, path := range texts {
				fields := fmt.Sprintf("%q", user)
				if by != "user" {
					fields = fmt.Sprintf("%q %q", user, path)
				}
				key := string(k.Key(&Entry{User: []byte(user), Path: []byte(path)}))
				require.True(t, utf8.ValidString(key))
				for _, r := range key {
					require.True(t, r >= ' ' && r != 0x7f && r != '\u0085' && r != '\u202e', "%q", key)
				}
				if other, ok := seen[key]; ok {
					require.Equal(t, other, fields, "both are %s", key)
				}
				seen[key] = fields
			}
		}
	}
}

func TestFieldsThatAreNotRequestedAreEmpty(t *testing.T) {
	line := `{"time":1e9,"ip":"192.0.2.7","user":"ann","method":"GET","path":"/a","host":"h","status":200,"k":"v"}`
	full := entry{IP: "192.0.2.7", User: "ann", Method: "GET", Path: "/a", Host: "h", Status: "200", Key: "v"}
	tests := map[Fields]entry{
		IP | User | Method | Path | Host | Key | Status: full,
		IP:              {IP: "192.0.2.7"},
		User | Path:     {User: "ann", Path: "/a"},
		Method | Status: {Method: "GET", Status: "200"},
		Host | Key | IP: {Host: "h", Key: "v", IP: "192.0.2.7"},
	}
	for fields, want := range tests {
		e := readLine(t, line, Options{KeyField: "K", Fields: fields})
		want.Time, want.File, want.Line = e.Time, "log", 1
		require.Equal(t, want, e)
	}
}
