package accesslog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONThatIsNotARequestIsSkipped(t *testing.T) {
	for members, request := range map[string]bool{
		`"level":"error","logger":"tls","msg":"no certificate"`: false,
		`"host":"www.example.com"`:                              false,
		`"status":"ok"`:                                         false,
		`"status":null,"ip":null,"method":[]`:                   false,
		`"request":{"id":"k1"}`:                                 false,
		`"ip":"192.0.2.7"`:                                      true,
		`"ip":"-"`:                                              true,
		`"request":"GET / HTTP/1.1"`:                            true,
		`"request":{"uri":"/a"}`:                                true,
		`"method":"GET"`:                                        true,
		`"status":204`:                                          true,
		`"user":"ann"`:                                          true,
		`"tenant":"x"`:                                          true, // by Options.KeyField
	} {
		_, stats, err := readText(t, Options{KeyField: "tenant"}, goodLine+"\n"+`{"ts":1,`+members+`}`)
		require.NoError(t, err)
		require.Equal(t, request, stats.Skipped == 0, members)
		if !request {
			require.Equal(t, NoRequest, stats.FirstSkipped.Reason)
		}
	}
}

func TestHostSufficesIfOnlyHostsAreRequested(t *testing.T) {
	for fields, request := range map[Fields]bool{Host: true, Host | Forwarded: true, Host | IP: false, IP: false, 0: false} {
		entries, stats, err := readText(t, Options{Fields: fields}, `{"ts":1,"ip":"-","host":"a"}`+"\n"+`{"ts":1,"host":"www.example.com"}`)
		require.NoError(t, err)
		require.Equal(t, request, stats.Skipped == 0, fields)
		if request {
			require.Equal(t, "www.example.com", entries[1].Host)
		}
	}
}

// Members are found by several names, the last of equal names counts, and names of options replace others.
func TestMembersOfJSON(t *testing.T) {
	for line, want := range map[string]entry{
		`{"time":1,"remote":"192.0.2.1","ip":"192.0.2.2","client":"192.0.2.3"}`:   {IP: "192.0.2.2"},
		`{"time":1,"ip":"192.0.2.1","IP":"192.0.2.2"}`:                            {IP: "192.0.2.2"},
		`{"time":1,"request":"GET /a HTTP/1.1","method":"PUT"}`:                   {Method: "PUT", Path: "/a"},
		`{"time":1,"request":"GET /a HTTP/1.1","path":"-"}`:                       {Method: "GET"},
		`{"time":1,"request":{"method":"PUT","uri":"/n?x"},"user":17}`:            {Method: "PUT", Path: "/n", User: "17"},
		`{"tim\u0065":1,"user":"\u00e9\ud83d\ude00\"\\\/\n"}`:                     {User: "é😀\"\\/\n"},
		`{"time":1,"user":true,"status":"404","ip":null}`:                         {User: "true", Status: "404"},
		`{"time":1,"user":"a","status":1e2}`:                                      {User: "a"},
		`{"time":1,"user":"a","status":2000,"host":"[2001:db8::1]:443"}`:          {User: "a", Host: "2001:db8::1"},
		`{"time":1,"user":"a","nest":[[[{"user":"b"}]]],"x":{"y":{"user":"c"}}} `: {User: "a"},
	} {
		got := readLine(t, line, Options{})
		want.Time, want.File, want.Line = got.Time, "log", 1
		require.Equal(t, want, got, line)
	}
	require.EqualValues(t, 2, readLine(t, `{"time":1,"odd":{"time":2},"user":"a"}`, Options{TimeField: "Odd.Time"}).Time.Unix())
	require.Empty(t, readLine(t, `{"user":2,"ip":"192.0.2.1"}`, Options{TimeField: "user"}).User)
	for _, invalid := range []string{`01`, `tru`, `-`, `1.`, `.5`, `"\x"`, `"\u12g4"`, `[1,]`, "\"\t\"", `{,}`} {
		_, stats, _ := readText(t, Options{}, `{"time":1,"user":"a","bad":`+invalid+`}`)
		require.Equal(t, InvalidJSON, stats.FirstSkipped.Reason, invalid)
	}
}
