// Package openapitest compares the API of "sluice serve" with its OpenAPI document. It is a module of
// its own, so that cmd/sluice does not need kin-openapi. The tests promise:
//
//   - The document is valid, and so are its examples.
//   - The service returns no response that is invalid under the document.
//   - The document allows every request that the service accepts, and refuses every invalid request
//     whose fault a schema can express.
//   - Every documented status of the paths outside /v1/ occurs. For the paths below /v1/, the package serve
//     tests this, and compares the responses with the examples.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/serve"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

const rules = `
rules:
  - name: api
    policy: gcra 100/m burst=20
    by: user
  - name: daily
    policy: fixedwindow 1000/d
    by: user
  - name: uploads
    policy: tokenbucket 1000000/m
    by: user
    cost: bytes
`

// newServer returns a server whose store is in memory.
func newServer(t testing.TB, change func(*serve.Options)) *serve.Server {
	t.Helper()
	options := serve.Options{
		Read: func(context.Context) (*config.File, error) {
			return config.Parse("limits.yaml", []byte(rules))
		},
		Store: "memory:", API: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	}
	change(&options)
	s, err := serve.New(context.Background(), options)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// apiHandler returns the handler of the API listener of a server without a token.
func apiHandler(t testing.TB) http.Handler {
	return newServer(t, func(*serve.Options) {}).Routes(true)
}

// newRequest returns a POST request for an operation.
func newRequest(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	return r
}

func newGet(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost"
	return r
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// document returns the OpenAPI document that the service serves. It checks that the document is valid.
func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(send(apiHandler(t), newGet("/openapi.yaml")).Body.Bytes())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
	return doc
}

// operation returns the operation of a path, which has only one.
func operation(t testing.TB, doc *openapi3.T, path string) *routers.Route {
	t.Helper()
	item := doc.Paths.Value(path)
	require.NotNil(t, item, "%s is served but not documented", path)
	for method, op := range item.Operations() {
		return &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}
	}
	return nil
}

func requestInput(route *routers.Route, r *http.Request) *openapi3filter.RequestValidationInput {
	options := &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	return &openapi3filter.RequestValidationInput{Request: r, Route: route, Options: options}
}

// checkRequest returns an error if a request with this body is invalid under the document.
func checkRequest(route *routers.Route, body string) error {
	return openapi3filter.ValidateRequest(context.Background(), requestInput(route, newRequest(route.Path, body)))
}

// checkResponse returns an error if a response is invalid under the document.
func checkResponse(route *routers.Route, r *http.Request, w *httptest.ResponseRecorder) error {
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: requestInput(route, r), Status: w.Code, Header: w.Header(),
		Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: requestInput(route, r).Options,
	}
	return openapi3filter.ValidateResponse(context.Background(), input)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestRequestExamplesWorkWithEveryOperation(t *testing.T) {
	doc := document(t)
	h := apiHandler(t)
	examples := doc.Components.RequestBodies["DecisionRequest"].Value.Content["application/json"].Examples
	require.NotEmpty(t, examples)
	for name, example := range examples {
		for path := range doc.Paths.Map() {
			if !strings.HasPrefix(path, "/v1/") {
				continue
			}
			route := operation(t, doc, path)
			body := jsonOf(t, example.Value.Value)
			require.NoError(t, checkRequest(route, body), name)
			r := newRequest(path, body)
			w := send(h, r)
			require.Less(t, w.Code, 300, "%s %s: %s", path, name, w.Body)
			require.NoError(t, checkResponse(route, r, w))
		}
	}
}

// TestOperationIsDocumented causes every status of the paths outside /v1/.
func TestOperationIsDocumented(t *testing.T) {
	doc := document(t)
	seen := map[string][]string{}
	get := func(h http.Handler, path string, edit func(*http.Request)) string {
		route := operation(t, doc, path)
		r := newGet(path)
		edit(r)
		w := send(h, r)
		require.NoError(t, checkResponse(route, r, w), "%s: %d %s", path, w.Code, w.Body)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		if code := strconv.Itoa(w.Code); !slices.Contains(seen[path], code) {
			seen[path] = append(seen[path], code)
		}
		return w.Body.String()
	}
	unchanged := func(*http.Request) {}
	open := apiHandler(t)
	withToken := newServer(t, func(o *serve.Options) { o.Token = "secret" }).Routes(true)
	require.Equal(t, http.StatusOK, send(open, newRequest("/v1/allow", `{"key_base64":"/w==","cost":21,"rule":"api"}`)).Code)
	for path := range doc.Paths.Map() {
		if strings.HasPrefix(path, "/v1/") {
			continue
		}
		get(open, path, unchanged)
		get(open, path, func(r *http.Request) { r.Host = "example.com" })
		get(open, path, func(r *http.Request) { r.Method = http.MethodPut })
		get(withToken, path, unchanged)
		get(withToken, path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") })
	}
	require.Contains(t, get(open, "/debug/denied", func(r *http.Request) { r.Header.Set("Accept", "application/json") }), `"bytes":"/w=="`)
	require.JSONEq(t, jsonOf(t, doc.Components.Examples["unready"].Value.Value), get(shuttingDown(t), "/readyz", unchanged))
	for path, statuses := range seen {
		documented := slices.Collect(maps.Keys(doc.Paths.Value(path).Get.Responses.Map()))
		assert.ElementsMatch(t, documented, statuses, path)
	}
}

// shuttingDown returns the handler of a server that shuts down, but still serves.
func shuttingDown(t *testing.T) http.Handler {
	s := newServer(t, func(o *serve.Options) { o.ShutdownDelay = time.Hour })
	h := s.Routes(true)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	require.Eventually(t, func() bool { return send(h, newGet("/readyz")).Code != http.StatusOK }, time.Minute, time.Millisecond)
	return h
}

const (
	maxBody = 64 << 10 // bytes of a request
	maxKey  = 4 << 10  // bytes of a key, decoded
)

// tooLarge are bodies that the service refuses because of their size.
var tooLarge = map[string]string{
	`{"key":"` + strings.Repeat("é", maxKey/2) + `x"}`:              "413 (the document allows it) key: the key has 4097 bytes",
	`{"key_base64":"` + strings.Repeat("AAAA", (maxKey+3)/3) + `"}`: "413 (the document allows it) key_base64: the key has 4098 bytes",
	`{"key":"a"}` + strings.Repeat(" ", maxBody):                    "413 (the document allows it) : the body has more than 65536 bytes",
}

func TestRequests(t *testing.T) {
	route := operation(t, document(t), "/v1/allow")
	h := apiHandler(t)
	answer := func(body string) string {
		r := newRequest("/v1/allow", body)
		w := send(h, r)
		require.NoError(t, checkResponse(route, r, w))
		if w.Code == http.StatusOK {
			require.NoError(t, checkRequest(route, body), body)
			return "200"
		}
		var p struct {
			Type, Detail, Field string
			Offset              *int
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.NotContains(t, p.Detail, "\n")
		place := p.Field
		if p.Offset != nil {
			place = fmt.Sprint("offset ", *p.Offset)
		}
		allowed := ""
		if checkRequest(route, body) == nil {
			allowed = "(the document allows it) "
		}
		return fmt.Sprintf("%d %s%s: %s", w.Code, allowed, place, p.Detail)
	}
	tracetest.Answers(t, "testdata/requests.txt", answer)
	for body, want := range tooLarge {
		require.Contains(t, answer(body), want)
	}
}

// FuzzRequest sends any bytes as the body. If the service accepts a body, it is valid under the document.
// Every response is valid under the document.
func FuzzRequest(f *testing.F) {
	for body := range tooLarge {
		f.Add([]byte(body))
	}
	for _, body := range []string{`{"key":"user:42","cost":3,"rule":"api"}`, `{"key_base64":"/wA=","rule":["daily","api"]}`, `{"k\u0065y":"a","cost":2e2}`, `{"key":"\ud800"}`, `{"key":"a"} x`, `null`} {
		f.Add([]byte(body))
	}
	route := operation(f, document(f), "/v1/peek")
	h := apiHandler(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newRequest("/v1/peek", string(body))
		w := send(h, r)
		require.NoError(t, checkResponse(route, r, w))
		if w.Code == http.StatusOK || w.Code == http.StatusNotFound {
			require.NoError(t, checkRequest(route, string(body)))
		}
		require.NotContains(t, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}, w.Code)
	})
}
