package serve

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// TestTheUpstreamReadsTheKey: otherwise a client can choose its key, and the upstream takes it for the same client.
func TestTheUpstreamReadsTheKey(t *testing.T) {
	keys := make(map[string]string) // by the fields of the rule, and what the upstream got
	tracetest.Answers(t, "testdata/keys.txt", func(question string) string {
		words := strings.Split(question, " | ")
		rule, line, fields := words[0], strings.Split(words[1], " "), words[2:]
		http1 := fmt.Sprintf("%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n\r\n", line[0], line[1], strings.Join(fields, "\r\n"))
		http2 := []string{":scheme", "http", ":method", line[0], ":path", line[1]}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			http2 = append(http2, strings.ToLower(name), value)
		}
		var answers []string
		for version, send := range [...]func(*testServer){
			func(w *testServer) {
				_, reader := sendText(t, w, http1)
				readResponse(t, reader)
			},
			func(w *testServer) {
				conn := dialHTTP2(t, w.proxy.Addr().String())
				_, err := io.WriteString(conn, headers(endStream, 1, http2...))
				require.NoError(t, err)
				conn.outcome(t)
			},
		} {
			got := "nothing"
			w := startTestServer(t, "\nrules: [{name: a, policy: fixedwindow 1/h, "+rule+"}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
				got = fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Host)
				for _, name := range slices.Sorted(maps.Keys(r.Header)) {
					if !strings.HasPrefix(name, "X-Forwarded-") {
						got += fmt.Sprintf(" | %s: %s", name, strings.Join(r.Header[name], " | "))
					}
				}
			}))
			send(w)
			send(w) // is denied
			for _, denied := range w.denied.Top() {
				require.Contains(t, []string{"", denied.Key}, keys[rule+got], question)
				keys[rule+got] = denied.Key
				got = denied.Key + " <- " + got
			}
			if version == 1 && got == answers[0] {
				break
			}
			answers = append(answers, got)
		}
		return strings.Join(answers, "\n")
	})
}
