package compare_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
)

const compareQuery = `{"specs":["gcra 10/m"],"stream":{"kind":"steady","requests":10,"length":10,"clients":1}}`

func request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8090"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	compare.Handler(compare.NewService()).ServeHTTP(w, r)
	return w
}

func TestThePageIsServedUnderAStrictContentPolicy(t *testing.T) {
	w := serve(request("GET", "/", ""))
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Header().Get("Content-Type"), "text/html")
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	require.NotContains(t, policy, "http")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
}

func TestTheLastLineOfAResponseHasTheResultOrTheError(t *testing.T) {
	for body, requests := range map[string]int{compareQuery: 10, "{}": 0} {
		w := serve(request("POST", "/api/compare", body, "Origin", "http://127.0.0.1:8090", "Sec-Fetch-Site", "same-origin"))
		require.Equal(t, 200, w.Code)
		var last struct {
			Result compare.Comparison
			Error  string
		}
		for lines := bufio.NewScanner(w.Body); lines.Scan(); {
			require.NoError(t, json.Unmarshal(lines.Bytes(), &last))
		}
		require.Equal(t, requests, last.Result.Requests)
		require.Equal(t, requests == 0, last.Error == "0 policies; want 1 to 12", last.Error)
	}
}

// Package localhost tests which hosts and origins these are.
func TestOtherSitesAndOtherHostsAreRefused(t *testing.T) {
	for name, r := range map[string]*http.Request{
		"a name that resolves to this machine": request("POST", "/api/compare", compareQuery, "Host", "evil.example:8090"),
		"an address of the network":            request("GET", "/", "", "Host", "192.0.2.1:8090"),
		"a form of another site":               request("POST", "/api/compare", compareQuery, "Sec-Fetch-Site", "cross-site"),
		"a script of another origin":           request("POST", "/api/compare", compareQuery, "Origin", "http://evil.example"),
		"a link of another site":               request("GET", "/", "", "Sec-Fetch-Site", "cross-site"),
	} {
		w := serve(r)
		require.Equal(t, http.StatusForbidden, w.Code, name)
		require.NotContains(t, w.Body.String(), "policies", name)
	}
	for name, r := range map[string]*http.Request{
		"the address bar": request("GET", "/", "", "Sec-Fetch-Site", "none"),
		"localhost":       request("GET", "/", "", "Host", "localhost:8090"),
		"curl":            request("POST", "/api/compare", compareQuery),
	} {
		require.Equal(t, 200, serve(r).Code, name)
	}
}

// TestChartLibraryIsUnchanged: its files have the checksums that its README.md states.
func TestChartLibraryIsUnchanged(t *testing.T) {
	const dir = "page/third_party/uplot/"
	readme, err := os.ReadFile(dir + "README.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| \S+ \| ([0-9a-f]{64}) \|$`).FindAllStringSubmatch(string(readme), -1)
	require.Len(t, rows, 3)
	for _, row := range rows {
		content, err := os.ReadFile(dir + row[1])
		require.NoError(t, err)
		require.Equal(t, row[2], fmt.Sprintf("%x", sha256.Sum256(content)), row[1])
	}
}

func TestOtherMethodsAndPathsAreRefused(t *testing.T) {
	require.Equal(t, http.StatusNotFound, serve(request("GET", "/api/compare", "")).Code)
	require.Equal(t, http.StatusNotFound, serve(request("GET", "/handler.go", "")).Code)
	require.Contains(t, serve(request("POST", "/api/delete", "")).Body.String(), "unknown method")
}

func TestTooLargeBodiesAreRefused(t *testing.T) {
	w := serve(request("POST", "/api/compare", `{"specs":["`+strings.Repeat("x", 2<<20)))
	require.Contains(t, w.Body.String(), "too large")

	r := request("POST", "/api/log", "")
	line := strings.Replace(smallLog[:strings.Index(smallLog, "\n")+1], "GET /", "GET /"+strings.Repeat("a", 900_000), 1)
	var large []io.Reader
	for range 257<<20/len(line) + 1 {
		large = append(large, strings.NewReader(line))
	}
	r.Body = io.NopCloser(io.MultiReader(large...))
	require.Contains(t, serve(r).Body.String(), "the log is larger than 256 MB; use a part of it")
}
