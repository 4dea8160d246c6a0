package replay

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/httplimit"
)

const servedRules = `
rules:
  - {name: client, policy: gcra 20/m burst=6, by: ip}
  - {name: login, policy: fixedwindow 4/h, by: "user+path", methods: [POST], paths: [/login, /caf\u00e9/*], cost: 2}
  - {name: site, policy: tokenbucket 10/m, by: [host, method], methods: [GET, POST]}
  - {name: tried, policy: movingwindow 3/m, by: path, shadow: true}
  - {name: user, policy: gcra 4/m burst=4, by: user, shadow: true}
  - {name: named, policy: gcra 6/m burst=2, by: [user, method], missing: skip, shadow: true}
  - {name: shared, policy: gcra 6/m burst=2, by: [user, ip], missing: share, shadow: true}
  - {name: strict, policy: gcra 9/m burst=3, by: [user, path], missing: deny, methods: [POST]}
`

// TestReplayDecidesLikeTheServer: the replay of a log makes the decisions that a server with the same
// rules has made.
func TestReplayDecidesLikeTheServer(t *testing.T) {
	file := strings.ReplaceAll(servedRules, `\u00e9`, "é")
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	server := serverOf(t, file, func() time.Time { return now })
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	var log strings.Builder
	var denied int64
	for range 4000 {
		now = now.Add(time.Duration(random.IntN(3)) * time.Second)
		ip := pick("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "::ffff:192.0.2.2")
		host, method, user := pick("a.example", "A.example", "b.example"), pick("GET", "HEAD", "POST", "post"), pick("-", "ann", "bob")
		target := pick("/", "/login", "/%6cogin", "//login?next=/", "/caf%C3%A9/x", "/caf%c3%a9/./x/", "/x%2Fy", "/%25", "http://a.example/login", "/a;b",
			"/1%2fx/../login", "/caf%C3%A9/%2e%2e%2f1")
		if !served(t, server, ip, host, method, user, target) {
			denied++
		}
		fmt.Fprintf(&log, "%s:80 %s - %s [%s] \"%s %s HTTP/1.1\" 200 1\n", host, ip, user, now.Format("02/Jan/2006:15:04:05 -0700"), method, target)
	}
	require.Positive(t, denied)
	r := rulesOf(t, file, log.String())
	require.EqualValues(t, 4000, r.Together.Requests)
	require.Equal(t, denied, r.Together.Denied)
	for _, rule := range r.Rules {
		require.Positive(t, rule.Denied, rule.Rule)
		require.Positive(t, rule.Allowed, rule.Rule)
	}
}

func serverOf(t *testing.T, file string, clock func() time.Time) http.Handler {
	f, err := config.Parse("limits.yaml", []byte(file))
	require.NoError(t, err)
	rules, err := f.HTTPRules(0, nil)
	require.NoError(t, err)
	limiter, err := sluice.Options[*http.Request]{Clock: clock}.New(nil, rules...)
	require.NoError(t, err)
	return httplimit.Handler(limiter, http.NotFoundHandler(), httplimit.Options{})
}

// served sends a request in its text form, and reports whether the server allowed it.
func served(t *testing.T, server http.Handler, ip, host, method, user, target string) bool {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, host))))
	require.NoError(t, err)
	r.RemoteAddr = "[" + ip + "]:99"
	if !strings.Contains(ip, ":") {
		r.RemoteAddr = ip + ":99"
	}
	if user != "-" {
		r.SetBasicAuth(user, "secret")
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	require.Contains(t, []int{http.StatusNotFound, http.StatusTooManyRequests}, w.Code)
	return w.Code == http.StatusNotFound
}
