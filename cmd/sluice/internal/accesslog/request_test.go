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
		log := []naiveLog{{"log", []byte(goodLine + "\n" + `{"ts":1,` + members + `}`)}}
		o := Options{KeyField: "tenant"}
		_, stats, err := read(t, log, o)
		require.NoError(t, err)
		require.Equal(t, request, stats.Skipped == 0, members)
		if !request {
			require.Equal(t, NoRequest, stats.FirstSkipped.Reason)
		}
		requireSame(t, log, o)
	}
}

func TestHostSufficesIfOnlyHostsAreRequested(t *testing.T) {
	for fields, request := range map[Fields]bool{Host: true, Host | Forwarded: true, Host | IP: false, IP: false, 0: false} {
		log := []naiveLog{{"log", []byte(`{"ts":1,"ip":"-","host":"a"}` + "\n" + `{"ts":1,"host":"www.example.com"}`)}}
		entries, stats, err := read(t, log, Options{Fields: fields})
		require.NoError(t, err)
		require.Equal(t, request, stats.Skipped == 0, fields)
		if request {
			require.Equal(t, "www.example.com", entries[1].Host)
		}
	}
	bare := []naiveLog{{"log", []byte(`{"ts":1,"host":"www.example.com"}`)}}
	requireSame(t, bare, Options{Fields: Host})
	requireSame(t, bare, Options{})
}
