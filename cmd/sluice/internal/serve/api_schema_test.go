package serve

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
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// document is the OpenAPI document, itself held against the rules for such.
func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background()))
	return doc
}

// operation is the one operation that a path has, as kin-openapi wants it.
func operation(t testing.TB, doc *openapi3.T, path string) *routers.Route {
	t.Helper()
	item := doc.Paths.Value(path)
	require.NotNil(t, item, "%s is served and not documented", path)
	for method, op := range item.Operations() {
		return &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}
	}
	return nil
}

func requestInput(route *routers.Route, r *http.Request) *openapi3filter.RequestValidationInput {
	options := &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	return &openapi3filter.RequestValidationInput{Request: r, Route: route, Options: options}
}

// checkRequest is the document's opinion of a question.
func checkRequest(route *routers.Route, body string) error {
	r := httptest.NewRequest(route.Method, route.Path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return openapi3filter.ValidateRequest(context.Background(), requestInput(route, r))
}

// checkResponse is the document's opinion of a response.
func checkResponse(route *routers.Route, r *http.Request, w *httptest.ResponseRecorder) error {
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: requestInput(route, r), Status: w.Code, Header: w.Header(),
		Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: requestInput(route, r).Options,
	}
	return openapi3filter.ValidateResponse(context.Background(), input)
}

// exchange is an example of the document: the state of things, what is asked, and
// under which name the document has the answer.
type exchange struct {
	answer  string
	op      string
	body    string
	earlier []string // questions as in "allow {...}", whose answers are in nobody's interest
	edit    func(*http.Request)
	on      func(*testing.T) http.Handler
}

const (
	askOne     = `{"key":"user:42","cost":3,"rule":"api"}`
	askSeveral = `{"key":"user:42","rule":["api","daily"]}`
	askAll     = `{"key":"user:42"}`
	askBytes   = `{"key_base64":"/wA=","cost":65536,"rule":"uploads"}`
	spend18    = `allow {"key":"user:42","cost":18,"rule":"api"}`
)

var exchanges = []exchange{
	{answer: "allow-one", op: "allow", body: askOne},
	{answer: "allow-denied", op: "allow", body: askOne, earlier: []string{spend18}},
	{answer: "allow-never", op: "allow", body: `{"key":"user:42","cost":21,"rule":"api"}`},
	{answer: "allow-several", op: "allow", body: askSeveral},
	{answer: "allow-all", op: "allow", body: askAll},
	{answer: "allow-bytes", op: "allow", body: askBytes},
	{answer: "allow-degraded", op: "allow", body: askOne, on: down(storage.ErrUnavailable, compose.FailOpen)},
	{answer: "peek-one", op: "peek", body: askOne},
	{answer: "peek-denied", op: "peek", body: askOne, earlier: []string{spend18}},
	{answer: "refund-one", op: "refund", body: askOne, earlier: []string{spend18}},
	{answer: "refund-clamped", op: "refund", body: askOne, earlier: []string{`allow {"key":"user:42","cost":1,"rule":"api"}`}},
	{answer: "charge-one", op: "charge", body: askOne},
	{answer: "charge-debt", op: "charge", body: askOne, earlier: []string{spend18}},
	{answer: "", op: "reset", body: askOne, earlier: []string{spend18}},

	{answer: "malformed", op: "allow", body: `{"key":"user:42","cost":}`},
	{answer: "invalid", op: "allow", body: `{"key":"user:42","rul":"api"}`},
	{answer: "unauthorized", op: "allow", body: askOne, on: guarded},
	{answer: "web-page", op: "allow", body: askOne, edit: field("Origin", "https://example.com")},
	{answer: "unknown-route", op: "allow", body: askOne, edit: func(r *http.Request) { r.URL.Path = "/v1/alow" }},
	{answer: "unknown-rule", op: "allow", body: `{"key":"user:42","rule":"apo"}`},
	{answer: "method", op: "allow", edit: func(r *http.Request) { r.Method = http.MethodGet }},
	{answer: "slow", op: "allow", edit: func(r *http.Request) { r.Body = io.NopCloser(late{}) }},
	{answer: "too-large", op: "allow", body: `{"key":"` + strings.Repeat("x", maxKey+1) + `"}`},
	{answer: "media-type", op: "allow", body: askOne, edit: field("Content-Type", "text/plain")},
	{answer: "misdirected", op: "allow", body: askOne, on: local, edit: func(r *http.Request) { r.Host = "example.com" }},
	{answer: "fault", op: "allow", body: askOne, on: renamed},
	{answer: "store-unavailable", op: "allow", body: askOne, on: down(storage.ErrUnavailable, compose.FailClosed)},
	{answer: "store-contended", op: "allow", body: askOne, on: down(storage.ErrContended, compose.FailClosed)},
	{answer: "store-overloaded", op: "allow", body: askOne, on: down(storage.ErrOverloaded, compose.FailClosed)},
	{answer: "store-outcome-unknown", op: "allow", body: askOne, on: lost},
}

type late struct{}

func (late) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func field(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func down(err error, policy compose.FailurePolicy) func(*testing.T) http.Handler {
	err = storage.NotApplied(fmt.Errorf("%w: %w", err, errSecret))
	store := failingStore{load: err, swap: err}
	return func(t *testing.T) http.Handler {
		return apiOn(t, store, compose.Options[DecisionRequest]{OnFailure: policy})
	}
}

func lost(t *testing.T) http.Handler {
	return apiOn(t, failingStore{swap: errSecret}, compose.Options[DecisionRequest]{})
}

// renamed has a rule whose states another algorithm wrote.
func renamed(t *testing.T) http.Handler {
	store := storeAtFixedTime()
	rules := apiRules(t, strings.Replace(apiExampleRules, "gcra 100/m burst=20", "fixedwindow 100/m", 1))
	old, err := compose.New(store, serviceRule(&rules[0]))
	require.NoError(t, err)
	_, err = old.Allow(t.Context(), DecisionRequest{Key: "user:42"})
	require.NoError(t, err)
	return apiOn(t, store, compose.Options[DecisionRequest]{})
}

// whole is the handler of a server's API listener, of which the service is a part.
func whole(t *testing.T, change func(*Options, *Server)) http.Handler {
	options := Options{
		Read: func(context.Context) (*config.File, error) {
			return config.Parse("limits.yaml", []byte(apiExampleRules))
		},
		Store: "memory:", API: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	}
	change(&options, nil)
	s, err := New(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	change(&options, s)
	return s.routes(true)
}

func guarded(t *testing.T) http.Handler {
	return whole(t, func(o *Options, _ *Server) { o.Token = "secret" })
}

func local(t *testing.T) http.Handler { return whole(t, func(*Options, *Server) {}) }

func draining(t *testing.T) http.Handler {
	return whole(t, func(_ *Options, s *Server) {
		if s != nil {
			s.draining.Store(true)
		}
	})
}

func (e *exchange) handler(t *testing.T) http.Handler {
	if e.on != nil {
		return e.on(t)
	}
	return apiOn(t, storeAtFixedTime(), compose.Options[DecisionRequest]{})
}

func (e *exchange) run(t *testing.T) (*http.Request, *httptest.ResponseRecorder) {
	h := e.handler(t)
	for _, question := range e.earlier {
		op, body, _ := strings.Cut(question, " ")
		require.Equal(t, http.StatusOK, post(h, "/v1/"+op, body).Code)
	}
	r := ask("/v1/"+e.op, e.body)
	r.Header.Set("Content-Type", "application/json")
	if e.edit != nil {
		e.edit(r)
	}
	return r, send(h, r)
}

// TestExamplesOfTheDocument: the service returns each example of a response.
func TestExamplesOfTheDocument(t *testing.T) {
	doc := document(t)
	unseen := maps.Clone(doc.Components.Examples)
	for i := range exchanges {
		e := &exchanges[i]
		t.Run(e.op+" "+e.answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // for the time that retries take
				route := operation(t, doc, "/v1/"+e.op)
				r, w := e.run(t)
				require.NoError(t, checkResponse(route, r, w))
				if e.answer == "" {
					require.Equal(t, http.StatusNoContent, w.Code)
					return
				}
				require.Contains(t, doc.Components.Examples, e.answer)
				delete(unseen, e.answer)
				require.JSONEq(t, jsonOf(t, doc.Components.Examples[e.answer].Value.Value), w.Body.String())
			})
		})
	}
	for name := range unseen {
		assert.True(t, strings.HasPrefix(name, "ask-") || name == "unready", "example %q of the document is not compared", name)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestExamplesBelongToTheirOperations compares the names of an operation's
// examples with the exchanges of that operation.
func TestExamplesBelongToTheirOperations(t *testing.T) {
	doc := document(t)
	for op := range operations {
		var shown, asked []string
		if response := operation(t, doc, "/v1/"+string(op)).Operation.Responses.Status(http.StatusOK); response != nil {
			for _, example := range response.Value.Content["application/json"].Examples {
				shown = append(shown, strings.TrimPrefix(example.Ref, "#/components/examples/"))
			}
		}
		for i := range exchanges {
			if e := &exchanges[i]; e.op == string(op) && strings.HasPrefix(e.answer, e.op) {
				asked = append(asked, e.answer)
			}
		}
		assert.ElementsMatch(t, asked, shown)
	}
}

func TestRequestExamplesWorkWithEveryOperation(t *testing.T) {
	doc := document(t)
	h := apiOn(t, storeAtFixedTime(), compose.Options[DecisionRequest]{})
	for name, example := range doc.Components.RequestBodies["DecisionRequest"].Value.Content["application/json"].Examples {
		for op := range operations {
			route := operation(t, doc, "/v1/"+string(op))
			question := jsonOf(t, example.Value.Value)
			require.NoError(t, checkRequest(route, question), name)
			r := ask(route.Path, question)
			w := send(h, r)
			require.Less(t, w.Code, 300, "%s %s: %s", op, name, w.Body)
			require.NoError(t, checkResponse(route, r, w))
		}
	}
}

// TestEveryDocumentedStatusOccurs: requests cause every status that the document has for an
// operation, and no other.
func TestEveryDocumentedStatusOccurs(t *testing.T) {
	doc := document(t)
	for op := range operations {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				route := operation(t, doc, "/v1/"+string(op))
				met := map[string]bool{}
				for _, e := range exchanges {
					if e.answer == "allow-degraded" {
						continue
					}
					e.op = string(op)
					if e.edit != nil && e.answer == "unknown-route" {
						e.edit = func(r *http.Request) { r.URL.Path += "s" }
					}
					r, w := e.run(t)
					require.NoError(t, checkResponse(route, r, w), "%s: %s", e.answer, w.Body)
					met[fmt.Sprint(w.Code)] = true
				}
				documented := slices.Collect(maps.Keys(route.Operation.Responses.Map()))
				assert.ElementsMatch(t, documented, slices.Collect(maps.Keys(met)))
			})
		})
	}
}

// TestOperationIsDocumented brings about every status of the routes that are not
// the service's, and of its document.
func TestOperationIsDocumented(t *testing.T) {
	doc := document(t)
	met := map[string][]string{}
	get := func(h http.Handler, path string, edit func(*http.Request)) string {
		route := operation(t, doc, path)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "localhost"
		edit(r)
		w := send(h, r)
		require.NoError(t, checkResponse(route, r, w), "%s: %d %s", path, w.Code, w.Body)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		if code := strconv.Itoa(w.Code); !slices.Contains(met[path], code) {
			met[path] = append(met[path], code)
		}
		return w.Body.String()
	}
	asItIs := func(*http.Request) {}
	open, closed := local(t), guarded(t)
	r := ask("/v1/allow", `{"key_base64":"/w==","cost":21,"rule":"api"}`)
	r.Host = "127.0.0.1:8081"
	require.Equal(t, http.StatusOK, send(open, r).Code)
	for path := range doc.Paths.Map() {
		if strings.HasPrefix(path, apiRoot) {
			continue
		}
		get(open, path, asItIs)
		get(open, path, func(r *http.Request) { r.Host = "example.com" })
		get(open, path, func(r *http.Request) { r.Method = http.MethodPut })
		get(closed, path, asItIs)
		get(closed, path, field("Authorization", "Bearer secret"))
	}
	require.Contains(t, get(open, "/debug/denied", field("Accept", "application/json")), `"bytes":"/w=="`)
	require.JSONEq(t, jsonOf(t, doc.Components.Examples["unready"].Value.Value), get(draining(t), "/readyz", asItIs))
	for path, statuses := range met {
		documented := slices.Collect(maps.Keys(doc.Paths.Value(path).Get.Responses.Map()))
		assert.ElementsMatch(t, documented, statuses, path)
	}
}

// TestRoutesAreDocumented goes through the routes of the service and through those
// of the document.
func TestRoutesAreDocumented(t *testing.T) {
	doc := document(t)
	h := apiOn(t, storeAtFixedTime(), compose.Options[DecisionRequest]{})
	for op := range operations {
		operation(t, doc, "/v1/"+string(op))
	}
	for path := range doc.Paths.Map() {
		if !strings.HasPrefix(path, apiRoot) {
			continue // not the API's
		}
		route := operation(t, doc, path)
		r := httptest.NewRequest(route.Method, path, strings.NewReader(askAll))
		w := send(h, r)
		require.Less(t, w.Code, 300, "%s is documented and not served", path)
		require.NoError(t, checkResponse(route, r, w))
	}
}

// TestKindsAreDocumented compares the kinds of problems with the types that the
// document lists, and the statuses under which it shows them.
func TestKindsAreDocumented(t *testing.T) {
	doc := document(t)
	types, listed := []string{"about:blank"}, []string{}
	for kind := range kinds {
		types = append(types, problemTypes+kind)
		example := doc.Components.Examples[kind]
		require.NotNil(t, example, kind)
		require.Equal(t, problemTypes+kind, example.Value.Value.(map[string]any)["type"])
	}
	for _, each := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		listed = append(listed, each.(string))
	}
	assert.ElementsMatch(t, types, listed)
	for _, response := range operation(t, doc, "/v1/allow").Operation.Responses.Map() {
		if media := response.Value.Content["application/problem+json"]; media != nil {
			for name := range media.Examples {
				assert.Contains(t, slices.Collect(maps.Keys(doc.Components.Examples)), name)
			}
		}
	}
}
