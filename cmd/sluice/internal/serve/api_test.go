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
	"bytes"
	"context"
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
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
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
	{example: "unauthorized", op: "allow", body: askOne, on: apiListener("secret")},
	{example: "web-page", op: "allow", body: askOne, edit: field("Origin", "https://example.com")},
	{example: "unknown-route", op: "allow", body: askOne, edit: func(r *http.Request) { r.URL.Path = "/v1/alow" }},
	{example: "unknown-rule", op: "allow", body: `{"key":"user:42","rule":"apo"}`},
	{example: "method", op: "allow", edit: func(r *http.Request) { r.Method = http.MethodGet }},
	{example: "slow", op: "allow", edit: func(r *http.Request) { r.Body = io.NopCloser(late{}) }},
	{example: "too-large", op: "allow", body: `{"key":"` + strings.Repeat("x", maxKey+1) + `"}`},
	{example: "media-type", op: "allow", body: askOne, edit: field("Content-Type", "text/plain")},
	{example: "misdirected", op: "allow", body: askOne, on: apiListener(""), edit: func(r *http.Request) { r.Host = "example.com" }},
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

// apiListener serves the API listener of a server with a token. "" is no token.
func apiListener(token string) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		w, err := newTestServer(t, apiExampleRules, func(o *Options) { o.Token = token })
		require.NoError(t, err)
		return w.Routes(true)
	}
}

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
						want, err := json.Marshal(doc.Components.Examples[e.example].Value)
						require.NoError(t, err)
						require.JSONEq(t, string(want), w.Body.String(), e.example)
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

// TestDecisions: a question has requests and times between them. The answer has the status, Retry-After and content of the last response.
func TestDecisions(t *testing.T) {
	tracetest.Answers(t, "testdata/decisions.txt", func(question string) (answer string) {
		store, now := storeAtFixedTime(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		store.Clock = func() time.Time { return now }
		h := apiWith(t, apiExampleRules+`
  - {name: plain, policy: gcra 5/m, by: header:X-Key}
  - {name: shared, policy: gcra 5/m, by: cookie:id, missing: share}
  - {name: skipped, policy: gcra 5/m, by: user, missing: skip}
  - {name: denied, policy: gcra 5/m, by: [ip, header:X-Key], missing: deny}
  - {name: three-a-minute, policy: gcra 3/m burst=3}
  - {name: six-a-minute, policy: gcra 6/m burst=3}
  - {name: two-at-once, policy: gcra 1/m burst=2}
`, store, sluice.Options[decisionRequest]{})
		for step := range strings.SplitSeq(question, " | ") {
			if op, body, isRequest := strings.Cut(step, " "); isRequest {
				w := post(h, "/v1/"+op, body)
				answer = strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))) + "\n" + strings.TrimSpace(w.Body.String())
				continue
			}
			d, err := time.ParseDuration(step)
			require.NoError(t, err)
			now = now.Add(d)
		}
		return answer
	})
}

// endless is a body without an end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

func TestBodiesAreRead64KiBAtMost(t *testing.T) {
	h := apiOn(t, storeAtFixedTime(), sluice.Options[decisionRequest]{})
	for _, length := range []int64{-1, 1 << 40} {
		body := new(endless)
		r := httptest.NewRequest(http.MethodPost, "/v1/allow", body)
		r.ContentLength = length
		w := send(h, r)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
		require.Equal(t, "close", w.Header().Get("Connection"))
		require.LessOrEqual(t, body.read, 2*maxBody)
		require.True(t, length < 0 || body.read == 0, "a body with a Content-Length above the limit is not read")
	}
	w := post(h, "/v1/allow", `{"key":"a"}`+strings.Repeat(" ", maxBody-len(`{"key":"a"}`)))
	require.Equal(t, http.StatusOK, w.Code)
}

// TestOnlyPlainRequestsAreServed: a part of a body is not a request.
func TestOnlyPlainRequestsAreServed(t *testing.T) {
	h := apiOn(t, storeAtFixedTime(), sluice.Options[decisionRequest]{})
	tracetest.Answers(t, "testdata/plain.txt", func(question string) string {
		r := ask("/v1/allow", `{"key":"user:42"}`)
		if name, value, isField := strings.Cut(question, ": "); isField {
			r.Header.Set(name, value)
		} else {
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(question, "?")
		}
		w := send(h, r)
		require.Equal(t, w.Code == http.StatusOK, w.Header().Get("Content-Type") == "application/json")
		return strconv.Itoa(w.Code)
	})
	r := ask("/v1/allow", `{"key":"user:42"}`)
	r.Body = io.NopCloser(io.MultiReader(r.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.Equal(t, http.StatusBadRequest, send(h, r).Code)
}

// TestFailurePolicies: while the store is down, the policy decides about allow and peek. Refund, charge and
// reset fail under each policy.
func TestFailurePolicies(t *testing.T) {
	for policy, allow := range map[sluice.FailurePolicy]string{
		sluice.FailClosed: `"status":503,`,
		sluice.FailOpen:   `{"allowed":true,"rule":null,`,
		sluice.FailLocal:  `{"allowed":true,"rule":"api",`,
	} {
		for op := range operations {
			synctest.Test(t, func(t *testing.T) {
				w := post(failingWith(storage.ErrUnavailable, policy)(t), "/v1/"+string(op), askOne)
				switch op {
				case sluice.OpAllow, sluice.OpPeek:
					require.Contains(t, w.Body.String(), allow, "%s %v", op, policy)
					require.Equal(t, policy != sluice.FailClosed, strings.Contains(w.Body.String(), `"degraded":true`))
				default:
					require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s %v", op, policy)
					require.Contains(t, w.Body.String(), `"applied":"no"`)
				}
			})
		}
	}
}

func TestDecisionsEndAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(sluicetest.Store)
		store.Hang()
		s := &Server{options: Options{DecisionTimeout: 7 * time.Second}, store: &stores.Store{Store: store}, sampled: sampledTo(io.Discard)}
		began := time.Now()
		w := post(apiWith(t, apiExampleRules, store, limiterOptions[decisionRequest](s, serviceSide)), "/v1/allow", askOne)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.InDelta(t, 7, time.Since(began).Seconds(), 0.1)
		require.Equal(t, 7*time.Second, limiterOptions[*http.Request](s, proxySide).Timeout)
	})
}

// The other failures are in exchanges.
func TestProblemOfEachFailure(t *testing.T) {
	unknown := fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, storage.NotApplied(errSecret))
	for _, c := range []struct {
		err  error
		kind string
		paid string
	}{
		{storage.NotApplied(context.DeadlineExceeded), "store-unavailable", "no"},
		{errors.New("no such table"), "store-refused", "unknown"},
		{fmt.Errorf("%w: %w", storage.ErrContended, context.DeadlineExceeded), "store-contended", "no"},
		{unknown, "store-outcome-unknown", "unknown"},
		{errors.Join(unknown, storage.ErrOverloaded), "store-outcome-unknown", "unknown"},
		{storage.ErrKey, "fault", "no"},
		{storage.ErrSwap, "fault", "no"},
		{algo.ErrStateVersion, "fault", "no"},
		{&sluice.RuleError{Rule: "api", Err: errSecret}, "fault", "no"},
		{storage.NotApplied(context.Canceled), "store-unavailable", "no"},
		{errors.Join(unknown, algo.ErrState), "fault", "unknown"},
		{fmt.Errorf("%w: key", storage.ErrProgram), "fault", "unknown"},
	} {
		p := problemOfError(c.err)
		assert.Equal(t, problemTypes+c.kind, p.Type, c.err)
		assert.Equal(t, c.paid, p.Applied, c.err)
		assert.Equal(t, errors.Is(c.err, context.DeadlineExceeded) && c.kind == "store-unavailable", strings.Contains(p.Detail, "within the timeout"), c.err)
	}
	require.Contains(t, problemOfError(algo.ErrStateVersion).Detail, "a later version of sluice")
}

// TestFailuresAreLoggedWithoutKeys: clients get neither the error nor the key.
func TestFailuresAreLoggedWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		store, log := new(sluicetest.Store), sampledTo(&logged)
		h := apiOn(t, store, sluice.Options[decisionRequest]{Observer: func(_ context.Context, e sluice.Event) { logFailure(log, serviceSide, &e) }})
		store.Fail(errSecret)
		response := post(h, "/v1/allow", askOne).Body.String()
		require.Contains(t, logged.String(), `level=WARN msg="a decision failed: The store refused the request" side=service op=allow outcome=failed applied=no`)
		require.Contains(t, logged.String(), "10.0.0.7")
		require.NotContains(t, logged.String()+response, "user:42")
		require.NotContains(t, response, "10.0.0.7")

		logged.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		send(h, ask("/v1/allow", askOne).WithContext(ctx))
		require.Empty(t, logged.String(), "a client that has left is not a failure")
	})
}

// apiExampleRules are the rules of the examples in openapi.yaml.
const apiExampleRules = `
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
  - name: trial
    policy: gcra 1/m
    shadow: true
`

func apiRules(t testing.TB, text string) []config.Rule {
	t.Helper()
	file, err := config.Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	return file.Rules
}

// storeAtFixedTime returns a store in memory whose clock stands still.
func storeAtFixedTime() *memory.Store {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return &memory.Store{Clock: func() time.Time { return noon }}
}

// apiOn returns the service with apiExampleRules on a store.
func apiOn(t testing.TB, store storage.Store, o sluice.Options[decisionRequest]) http.Handler {
	t.Helper()
	return apiWith(t, apiExampleRules, store, o)
}

// apiWith returns the service with the rules of a file on a store.
func apiWith(t testing.TB, file string, store storage.Store, o sluice.Options[decisionRequest]) http.Handler {
	t.Helper()
	s := &Server{service: o, store: &stores.Store{Store: store}, sampled: sampledTo(io.Discard)}
	current, err := s.newLimiters(&config.File{Rules: apiRules(t, file)})
	require.NoError(t, err)
	s.current.Store(current)
	return api{s}
}

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	return send(h, ask(path, body))
}

// ask returns a request such as curl -d sends.
func ask(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var errSecret = errors.New("dial postgres://admin:secret@10.0.0.7: refused")

// The module openapitest tests invalid requests.
func TestRequestsAreDecoded(t *testing.T) {
	tracetest.Answers(t, "testdata/requests.txt", func(body string) string {
		got, p := decodeRequest([]byte(body))
		if p != nil {
			return p.Field + ": " + p.Detail
		}
		return fmt.Sprintf("%q %q %d", got.Key, got.Rules, got.Cost)
	})
	zeros, long := strings.Repeat("0", 999), strings.Repeat("é", maxKey/2)
	for body, want := range map[string]decisionRequest{
		`{"key":"a","cost":1` + zeros + `e-999}`:                        {"a", nil, 1},
		`{"key":"a","cost":0.` + zeros + `7e1000}`:                      {"a", nil, 7},
		`{"key":"` + long + `"}`:                                        {long, nil, 1},
		`{"key_base64":"` + strings.Repeat("AAAA", maxKey/3) + `AA=="}`: {strings.Repeat("\x00", maxKey), nil, 1},
	} {
		got, p := decodeRequest([]byte(body))
		require.Nil(t, p)
		require.Equal(t, want, got)
	}
}
