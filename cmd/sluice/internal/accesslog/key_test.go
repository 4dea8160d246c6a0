package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestKeys(t *testing.T) {
	e := &Entry{IP: []byte("192.0.2.7"), User: []byte("ann lee"), Method: []byte("GET"), Path: []byte("/a"), Host: []byte("www.example.com"), Key: []byte(`k\1`), Status: []byte("404")}
	tests := []struct{ by, want string }{
		{"ip", "192.0.2.7"},
		{"user", "ann lee"},
		{"method", "GET"},
		{"path", "/a"},
		{"host", "www.example.com"},
		{"status", "404"},
		{"key", `k\x5c1`},
		{"ip+path", "192.0.2.7 /a"},
		{" ip + path ", "192.0.2.7 /a"},
		{"path+ip", "/a 192.0.2.7"},
		{" everything ", "everything"},
		{"user+status+method", `ann\x20lee 404 GET`},
	}
	for _, test := range tests {
		k, err := ParseKeyer(test.by)
		require.NoError(t, err)
		require.Equal(t, test.want, string(k.AppendKey(nil, e)), test.by)
		again, err := ParseKeyer(k.String())
		require.NoError(t, err)
		require.Equal(t, k, again)
		require.Equal(t, "before "+test.want, string(k.AppendKey([]byte("before "), e)))
	}
}

// TestAMissingUserIsLimitedByAddress: a server does the same. No user name has the key of an address.
func TestAMissingUserIsLimitedByAddress(t *testing.T) {
	for by, set := range map[string]func(e *Entry, name string){
		"user": func(e *Entry, name string) { e.User = []byte(name) },
		"key":  func(e *Entry, name string) { e.Key = []byte(name) },
	} {
		k, err := ParseKeyer(by + "+path")
		require.NoError(t, err)
		require.Equal(t, k.Named()|IP, k.Fields())
		for name, want := range map[string]string{
			"": "ip:192.0.2.7 /a", "ip:192.0.2.7": `\x69p:192.0.2.7 /a`, `\x69p:192.0.2.7`: `\x5cx69p:192.0.2.7 /a`, "ann": "ann /a", "192.0.2.7": "192.0.2.7 /a",
		} {
			e := &Entry{IP: []byte("192.0.2.7"), Path: []byte("/a")}
			set(e, name)
			require.Equal(t, want, string(k.AppendKey(nil, e)))
			e.IP = nil
			if name == "" {
				require.Equal(t, "- /a", string(k.AppendKey(nil, e)))
			}
		}
	}
}

func TestUnknownFieldsAreErrors(t *testing.T) {
	tests := []struct{ by, want string }{
		{"", `accesslog: no field ""; want ip, user, method, path, host, status or key, or several joined by +, such as ip+path, or everything`},
		{"ip+adress", `accesslog: no field "adress"; want ip, user, method, path, host, status or key, or several joined by +, such as ip+path, or everything`},
		{"IP", `accesslog: no field "IP", did you mean ip?; want ip, user, method, path, host, status or key, or several joined by +, such as ip+path, or everything`},
		{"ip+", `accesslog: "ip+": a field is missing before or after a +; write for instance ip+path`},
		{"ip+path+ip", `accesslog: ip is there twice; write it once`},
	}
	for _, test := range tests {
		_, err := ParseKeyer(test.by)
		require.EqualError(t, err, test.want)
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
				key := string(k.AppendKey(nil, &Entry{User: []byte(user), Path: []byte(path)}))
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
		0:               full,
		allFields:       full,
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

// TestKeysOfAListAreItsStrings, as servers log the values of a header.
func TestKeysOfAListAreItsStrings(t *testing.T) {
	long := strings.Repeat("k", 9000)
	for value, want := range map[string]string{
		`["k1"]`:                   "k1",
		`[ "k1" , "k\u00322" ]`:    "k1, k22",
		`["a","","b, c"]`:          "a, , b, c",
		`["-"]`:                    "",
		`[""]`:                     "",
		`[]`:                       "",
		`["a",1]`:                  "",
		`["a",["b"]]`:              "",
		`{"a":["b"]}`:              "",
		`["a"],"h":["b"]`:          "b",
		`["a"],"h":[]`:             "a",
		`"a","h":["b","c"]`:        "b, c",
		`["a"],"h":"b"`:            "b",
		`["a"],"H":[null]`:         "a",
		`["` + long + `"]`:         long,
		`["\\"],"user":"\"\u00e9"`: `\`,
	} {
		line := `{"ts":1e9,"status":200,"request":{"h":0},"h":` + value + `}`
		require.Equal(t, want, readLine(t, line, Options{KeyField: "H"}).Key, value)
	}
}
