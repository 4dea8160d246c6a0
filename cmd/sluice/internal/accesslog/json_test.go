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
		_, stats, err := readText(t, Options{KeyField: "tenant"}, goodLine+"\n"+`{"ts":1e9,`+members+`}`)
		require.NoError(t, err)
		require.Equal(t, request, stats.Skipped == 0, members)
		if !request {
			require.Equal(t, NoRequest, stats.FirstSkipped.Reason)
		}
	}
}

func TestHostSufficesIfOnlyHostsAreRequested(t *testing.T) {
	for fields, request := range map[Fields]bool{Host: true, Host | Forwarded: true, Host | IP: false, IP: false, 0: false} {
		entries, stats, err := readText(t, Options{Fields: fields}, `{"ts":1e9,"ip":"-","host":"a"}`+"\n"+`{"ts":1e9,"host":"www.example.com"}`)
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
		`{"time":1e9,"remote":"192.0.2.1","ip":"192.0.2.2","client":"192.0.2.3"}`:   {IP: "192.0.2.2"},
		`{"time":1e9,"ip":"192.0.2.1","IP":"192.0.2.2"}`:                            {IP: "192.0.2.2"},
		`{"time":1e9,"request":"GET /a HTTP/1.1","method":"PUT"}`:                   {Method: "PUT", Path: "/a"},
		`{"time":1e9,"request":"GET /a HTTP/1.1","path":"-","method":""}`:           {Method: "GET", Path: "/a"},
		`{"time":1e9,"ip":"","remote_addr":"192.0.2.9"}`:                            {IP: "192.0.2.9"},
		`{"time":1e9,"remote_addr":"192.0.2.9","ip":"-"}`:                           {IP: "192.0.2.9"},
		`{"time":1e9,"ip":"-","remote_addr":"192.0.2.8","remote":"192.0.2.9"}`:      {IP: "192.0.2.8"},
		`{"time":1e9,"user":"-","remote_user":"ann","host":"","server_name":"a"}`:   {User: "ann", Host: "a"},
		`{"time":1e9,"ip":"192.0.2.9","IP":""}`:                                     {IP: "192.0.2.9"},
		`{"time":1e9,"ip":"unknown","remote_addr":"192.0.2.9"}`:                     {IP: "192.0.2.9"},
		`{"time":1e9,"remote_addr":"192.0.2.9:80","ip":"a.example.com"}`:            {IP: "192.0.2.9"},
		`{"time":1e9,"ip":"unix:","remote":"192.0.2.8, 192.0.2.9"}`:                 {IP: "192.0.2.9", Forwarded: "192.0.2.8"},
		`{"time":1e9,"ip":0,"remote_host":"a.example.com"}`:                         {IP: "a.example.com"},
		`{"time":1e9,"remote_host":"a.example.com","ip":false}`:                     {IP: "a.example.com"},
		`{"time":1e9,"status":"success","code":404}`:                                {Status: "404"},
		`{"time":1e9,"status":0,"code":404}`:                                        {Status: "404"},
		`{"time":1e9,"request":{"method":"PUT","uri":"/n?x"},"user":17}`:            {Method: "PUT", Path: "/n", User: "17"},
		`{"tim\u0065":1e9,"user":"\u00e9\ud83d\ude00\"\\\/\n"}`:                     {User: "é😀\"\\/\n"},
		`{"time":1e9,"user":true,"status":"404","ip":null}`:                         {User: "true", Status: "404"},
		`{"time":1e9,"user":"a","status":1e2}`:                                      {User: "a"},
		`{"time":1e9,"user":"a","status":2000,"host":"[2001:db8::1]:443"}`:          {User: "a", Host: "2001:db8::1"},
		`{"time":1e9,"user":"a","nest":[[[{"user":"b"}]]],"x":{"y":{"user":"c"}}} `: {User: "a"},
	} {
		got := readLine(t, line, Options{})
		want.Time, want.File, want.Line = got.Time, "log", 1
		require.Equal(t, want, got, line)
	}
	require.EqualValues(t, 2e9, readLine(t, `{"time":1e9,"odd":{"time":2e9},"user":"a"}`, Options{TimeField: "Odd.Time"}).Time.Unix())
	for _, number := range []string{`150000000`, `"150000000"`, `1e8`} {
		for _, line := range []string{`{"time":` + number + `,"@timestamp":"2001-09-09T01:46:40Z","user":"a"}`, `{"@timestamp":"2001-09-09T01:46:40Z","time":` + number + `,"user":"a"}`} {
			require.EqualValues(t, 1e9, readLine(t, line, Options{}).Time.Unix(), line)
		}
	}
	for _, duration := range []string{`0.005`, `"0.005"`, `99999999.9`, `"5ms"`, `""`, `"-"`} {
		for _, line := range []string{`{"time":` + duration + `,"ts":1e9,"user":"a"}`, `{"ts":1e9,"time":` + duration + `,"user":"a"}`} {
			require.EqualValues(t, 1e9, readLine(t, line, Options{}).Time.Unix(), line)
		}
	}
	require.Empty(t, readLine(t, `{"user":2e9,"ip":"192.0.2.1"}`, Options{TimeField: "user"}).User)
	for _, invalid := range []string{`01`, `tru`, `-`, `1.`, `.5`, `"\x"`, `"\u12g4"`, `[1,]`, "\"\t\"", `{,}`} {
		_, stats, _ := readText(t, Options{}, `{"time":1e9,"user":"a","bad":`+invalid+`}`)
		require.Equal(t, InvalidJSON, stats.FirstSkipped.Reason, invalid)
	}
}
