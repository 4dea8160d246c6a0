// The tests of this package promise:
//
//   - The API responds as openapi.yaml describes, with a status and an example of each kind.
//   - Proxy and API share the quota of a rule. A reload or a restart loses no used quota.
//   - If the store fails, Options.OnFailure decides. /readyz and the shutdown do not wait for the store.
//   - Clients that send or read too slowly are disconnected. All other pauses are allowed.
//   - Clients can forge neither their address nor a path that the rules did not see.
//   - Logs and responses have no keys, passwords or text of the upstream.

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
)

// openAPIDocument has the parts of openapi.yaml that these tests compare with the service. The
// module openapitest compares requests and responses with the schemas.
type openAPIDocument struct {
	Paths      map[string]map[string]struct{ Responses map[string]documentedResponse }
	Components struct {
		Examples  map[string]struct{ Value any }
		Headers   map[string]documentedHeader
		Responses map[string]documentedResponse
		Schemas   struct {
			Problem struct {
				Properties struct {
					Type struct{ Enum []string }
				}
			} `yaml:"Problem"`
		}
	}
}

type documentedResponse struct {
	Ref     string `yaml:"$ref"`
	Headers map[string]documentedHeader
	Content map[string]struct {
		Examples map[string]struct {
			Ref string `yaml:"$ref"`
		}
	}
}

type documentedHeader struct {
	Ref      string `yaml:"$ref"`
	Required bool
}

func document(t testing.TB) *openAPIDocument {
	t.Helper()
	doc := new(openAPIDocument)
	require.NoError(t, yaml.Unmarshal(openAPI, doc))
	return doc
}

// responses returns the documented responses of an operation, by status.
func (d *openAPIDocument) responses(op sluice.Op) map[string]documentedResponse {
	found := maps.Clone(d.Paths[apiRoot+string(op)]["post"].Responses)
	for status, r := range found {
		if r.Ref != "" {
			found[status] = d.Components.Responses[path.Base(r.Ref)]
		}
	}
	return found
}

// examples returns the names of the examples of a response.
func (r *documentedResponse) examples() (names []string) {
	for _, media := range r.Content {
		for _, example := range media.Examples {
			names = append(names, path.Base(example.Ref))
		}
	}
	return names
}

// check checks that the document has the status of a response, its media type, and required headers.
func (d *openAPIDocument) check(t *testing.T, op sluice.Op, w *httptest.ResponseRecorder) documentedResponse {
	t.Helper()
	r, ok := d.responses(op)[strconv.Itoa(w.Code)]
	require.True(t, ok, "%s: the document has no status %d: %s", op, w.Code, w.Body)
	for name, h := range r.Headers {
		if h.Ref != "" {
			h = d.Components.Headers[path.Base(h.Ref)]
		}
		require.True(t, !h.Required || w.Header().Get(name) != "", "%s: %d has no header %s", op, w.Code, name)
	}
	if w.Code != http.StatusNoContent {
		media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
		require.NoError(t, err)
		require.Contains(t, r.Content, media)
	}
	return r
}

// exchange is a request, and the name of the document's example of the response.
type exchange struct {
	example string
	op      sluice.Op
	body    string
	earlier []string // requests before it, such as "allow {...}"
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
	{example: "allow-one", op: "allow", body: askOne},
	{example: "allow-denied", op: "allow", body: askOne, earlier: []string{spend18}},
	{example: "allow-never", op: "allow", body: `{"key":"user:42","cost":21,"rule":"api"}`},
	{example: "allow-several", op: "allow", body: askSeveral},
	{example: "allow-all", op: "allow", body: askAll},
	{example: "allow-bytes", op: "allow", body: askBytes},
	{example: "allow-degraded", op: "allow", body: askOne, on: failingWith(storage.ErrUnavailable, sluice.FailOpen)},
	{example: "peek-one", op: "peek", body: askOne},
	{example: "peek-denied", op: "peek", body: askOne, earlier: []string{spend18}},
	{example: "refund-one", op: "refund", body: askOne, earlier: []string{spend18}},
	{example: "refund-clamped", op: "refund", body: askOne, earlier: []string{`allow {"key":"user:42","cost":1,"rule":"api"}`}},
	{example: "charge-one", op: "charge", body: askOne},
	{example: "charge-debt", op: "charge", body: askOne, earlier: []string{spend18}},
	{example: "", op: "reset", body: askOne, earlier: []string{spend18}},

	{example: "malformed", op: "allow", body: `{"key":"user:42","cost":}`},
	{example: "invalid", op: "allow", body: `{"key":"user:42","rul":"api"}`},
	{example: "unauthorized", op: "allow", body: askOne, on: guarded},
	{example: "web-page", op: "allow", body: askOne, edit: field("Origin", "https://example.com")},
	{example: "unknown-route", op: "allow", body: askOne, edit: func(r *http.Request) { r.URL.Path = "/v1/alow" }},
	{example: "unknown-rule", op: "allow", body: `{"key":"user:42","rule":"apo"}`},
	{example: "method", op: "allow", edit: func(r *http.Request) { r.Method = http.MethodGet }},
	{example: "slow", op: "allow", edit: func(r *http.Request) { r.Body = io.NopCloser(late{}) }},
	{example: "too-large", op: "allow", body: `{"key":"` + strings.Repeat("x", maxKey+1) + `"}`},
	{example: "media-type", op: "allow", body: askOne, edit: field("Content-Type", "text/plain")},
	{example: "misdirected", op: "allow", body: askOne, on: local, edit: func(r *http.Request) { r.Host = "example.com" }},
	{example: "fault", op: "allow", body: askOne, on: damaged},
	{example: "store-unavailable", op: "allow", body: askOne, on: failingWith(storage.ErrUnavailable, sluice.FailClosed)},
	{example: "store-refused", op: "allow", body: askOne, on: failingWith(errors.New("no such table"), sluice.FailClosed)},
	{example: "store-contended", op: "allow", body: askOne, on: failingWith(storage.ErrContended, sluice.FailClosed)},
	{example: "store-overloaded", op: "allow", body: askOne, on: failingWith(storage.ErrOverloaded, sluice.FailClosed)},
	{example: "store-outcome-unknown", op: "allow", body: askOne, on: responseLost},
}

// late is a body that does not arrive in time.
type late struct{}

func (late) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func field(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// failingWith serves a store that fails with err before it applies anything.
func failingWith(err error, policy sluice.FailurePolicy) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		store := new(sluicetest.Store)
		store.Fail(fmt.Errorf("%w: %w", err, errSecret))
		return apiOn(t, store, sluice.Options[decisionRequest]{OnFailure: policy})
	}
}

// responseLost serves a store whose writes may have been applied.
func responseLost(t *testing.T) http.Handler {
	store := new(sluicetest.Store)
	store.LoseReplies()
	return apiOn(t, store, sluice.Options[decisionRequest]{})
}

// damaged serves a rule whose state is damaged.
func damaged(t *testing.T) http.Handler {
	store := storeAtFixedTime()
	name := apiRules(t, apiExampleRules)[0].Name
	_, _, err := store.CompareAndSwap(t.Context(), storage.Swap{Key: keyText(name, "user:42"), New: storage.Record{Version: 1, State: []byte("damaged")}})
	require.NoError(t, err)
	return apiOn(t, store, sluice.Options[decisionRequest]{})
}

// apiListener returns the handler of the API listener of a server with a token. "" is no token.
func apiListener(t *testing.T, token string) http.Handler {
	w, err := newTestServer(t, apiExampleRules, func(o *Options) { o.Token = token })
	require.NoError(t, err)
	return w.Routes(true)
}

func guarded(t *testing.T) http.Handler { return apiListener(t, "secret") }

func local(t *testing.T) http.Handler { return apiListener(t, "") }

func (e *exchange) handler(t *testing.T) http.Handler {
	if e.on != nil {
		return e.on(t)
	}
	return apiOn(t, storeAtFixedTime(), sluice.Options[decisionRequest]{})
}

func (e *exchange) run(t *testing.T) *httptest.ResponseRecorder {
	h := e.handler(t)
	for _, request := range e.earlier {
		op, body, _ := strings.Cut(request, " ")
		require.Equal(t, http.StatusOK, post(h, "/v1/"+op, body).Code)
	}
	r := ask(apiRoot+string(e.op), e.body)
	r.Header.Set("Content-Type", "application/json")
	if e.edit != nil {
		e.edit(r)
	}
	return send(h, r)
}

// TestResponsesAreDocumented: requests cause every status that the document has for an operation, and no other. The service
// returns each example of a response, with a status under which the document has this example.
func TestResponsesAreDocumented(t *testing.T) {
	doc := document(t)
	unseen := maps.Clone(doc.Components.Examples)
	for op := range operations {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // retries take no real time
				seen := map[string]bool{}
				for _, e := range exchanges {
					own := e.op == op
					if !own && e.example == "allow-degraded" {
						continue
					}
					if !own && e.example == "unknown-route" {
						e.edit = func(r *http.Request) { r.URL.Path += "s" }
					}
					e.op = op
					w := e.run(t)
					documented := doc.check(t, op, w)
					seen[strconv.Itoa(w.Code)] = true
					if own && e.example != "" {
						require.Contains(t, documented.examples(), e.example)
						delete(unseen, e.example)
						require.JSONEq(t, jsonOf(t, doc.Components.Examples[e.example].Value), w.Body.String(), e.example)
					}
				}
				assert.ElementsMatch(t, slices.Collect(maps.Keys(doc.responses(op))), slices.Collect(maps.Keys(seen)))
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

// TestKindsAreDocumented: the document has the type of each kind of problem, and an example of it.
func TestKindsAreDocumented(t *testing.T) {
	doc := document(t)
	types := []string{"about:blank"}
	for kind := range kinds {
		types = append(types, problemTypes+kind)
		require.Contains(t, doc.Components.Examples, kind)
		require.Equal(t, problemTypes+kind, doc.Components.Examples[kind].Value.(map[string]any)["type"])
	}
	assert.ElementsMatch(t, types, doc.Components.Schemas.Problem.Properties.Type.Enum)
}
