package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// TestRetryAfter: Retry-After is the exact time in whole seconds, rounded up.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := storeAtFixedTime()
	store.Clock = func() time.Time { return now }
	h := apiOn(t, store, sluice.Options[decisionRequest]{})
	denied := func() (string, string) {
		w := post(h, "/v1/allow", `{"key":"a","cost":18,"rule":"api"}`)
		require.Equal(t, http.StatusOK, w.Code)
		_, wait, _ := strings.Cut(w.Body.String(), `"retry_after_ns":`)
		wait, _, _ = strings.Cut(wait, ",")
		return w.Header().Get("Retry-After"), wait
	}
	field, wait := denied()
	require.Equal(t, []string{"", "0"}, []string{field, wait})
	field, wait = denied() // 2 of 18 are there, and each of the others takes 600ms
	require.Equal(t, []string{"10", "9600000000"}, []string{field, wait})
	now = now.Add(9600*time.Millisecond - time.Microsecond)
	field, wait = denied()
	require.Equal(t, []string{"1", "1000"}, []string{field, wait})
	now = now.Add(time.Microsecond)
	field, wait = denied()
	require.Equal(t, []string{"", "0"}, []string{field, wait})
}

// TestEmptyKeyCountsAsMissing: the proxy treats missing fields alike.
func TestEmptyKeyCountsAsMissing(t *testing.T) {
	h := apiWith(t, `rules:
- {name: plain, policy: gcra 5/m, by: header:X-Key}
- {name: shared, policy: gcra 5/m, by: cookie:id, missing: share}
- {name: skipped, policy: gcra 5/m, by: user, missing: skip}
- {name: denied, policy: gcra 5/m, by: [ip, header:X-Key], missing: deny}
`, storeAtFixedTime(), sluice.Options[decisionRequest]{})
	for rule, want := range map[string]string{
		"shared":  `{"allowed":true,"rule":"shared","remaining":4,`,
		"skipped": `{"allowed":true,"rule":null,"remaining":null,"next_refill_ns":0,"reset_after_ns":0,"retry_after_ns":0,"degraded":false,"cached":false,"rules":[]}`,
		"denied":  `{"allowed":false,"rule":"denied","remaining":0,"next_refill_ns":0,"reset_after_ns":0,"retry_after_ns":null,`,
	} {
		w := post(h, "/v1/allow", `{"key":"","rule":"`+rule+`"}`)
		require.Equal(t, http.StatusOK, w.Code, rule)
		require.Contains(t, w.Body.String(), want, rule)
		w = post(h, "/v1/allow", `{"key":"a","rule":"`+rule+`"}`)
		require.Contains(t, w.Body.String(), `{"allowed":true,"rule":"`+rule+`","remaining":4,`)
	}
	for _, body := range []string{`{"key":"","rule":"plain"}`, `{"key_base64":"","rule":["shared","plain"]}`, `{"key":""}`} {
		for op := range operations {
			w := post(h, "/v1/"+string(op), body)
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.Contains(t, w.Body.String(), `"detail":"the key is empty, and rule plain is by header:X-Key; send its value, or ip:ADDRESS for a client without it, such as ip:203.0.113.7","field":"key"`)
		}
	}
	require.Contains(t, post(h, "/v1/peek", `{"key":"ip:203.0.113.7","rule":"plain"}`).Body.String(), `{"allowed":true,"rule":"plain","remaining":5,`)
	require.Contains(t, post(h, "/v1/peek", `{"key":"","rule":"shared"}`).Body.String(), `"remaining":4,`, "refused requests are not charged")
}

func TestShadowRuleDeniesNothing(t *testing.T) {
	h := apiOn(t, storeAtFixedTime(), sluice.Options[decisionRequest]{})
	post(h, "/v1/allow", `{"key":"","rule":"trial"}`)
	w := post(h, "/v1/allow", `{"key":"","rule":"trial"}`)
	require.Empty(t, w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `{"allowed":true,"rule":null,"remaining":null,"next_refill_ns":0,"reset_after_ns":0,"retry_after_ns":0,`)
	require.Contains(t, w.Body.String(), `"shadow":true,"capacity":1,"cost":1,"paid":0,"remaining":0,`)
	require.Contains(t, w.Body.String(), `"allowed":false,"retry_after_ns":60000000000}`)
}

// TestNextRefillOfSeveralRules: if several rules have the least remaining, that minimum grows when all of
// them have grown.
func TestNextRefillOfSeveralRules(t *testing.T) {
	policy, err := compose.ParsePolicy("gcra 9/m")
	require.NoError(t, err)
	type refill struct{ remaining, grows int64 }
	for _, c := range []struct {
		rules []refill
		want  refill
	}{
		{[]refill{{3, 7}}, refill{3, 7}},
		{[]refill{{3, 7}, {2, 5}}, refill{2, 5}},
		{[]refill{{2, 5}, {3, 7}}, refill{2, 5}},
		{[]refill{{2, 5}, {2, 7}, {2, 6}}, refill{2, 7}},
		{[]refill{{2, 5}, {2, 0}, {2, 7}}, refill{2, 0}},
	} {
		d := sluice.Decision{Rule: "least", Remaining: c.want.remaining}
		for _, l := range c.rules {
			d.Results = append(d.Results, sluice.RuleResult{Policy: policy, Result: algo.Result{Remaining: l.remaining, NextRefill: time.Duration(l.grows)}})
		}
		assert.Equal(t, c.want.grows, responseOf(&d, false).NextRefill)
	}
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

// TestOnlyPlainRequestsAreServed: the path must be exact, and a part of a body is not a request.
func TestOnlyPlainRequestsAreServed(t *testing.T) {
	h := apiOn(t, storeAtFixedTime(), sluice.Options[decisionRequest]{})
	path := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	for _, c := range []struct {
		edit   func(*http.Request)
		status int
	}{
		{field("Content-Type", ""), http.StatusOK},
		{field("Content-Type", "Application/JSON; charset=UTF-8"), http.StatusOK},
		{field("Content-Type", "application/json; charset=latin1"), http.StatusUnsupportedMediaType},
		{field("Content-Type", "application/jsonp"), http.StatusUnsupportedMediaType},
		{field("Content-Type", "application/json;;"), http.StatusUnsupportedMediaType},
		{field("Content-Encoding", "identity"), http.StatusOK},
		{field("Content-Encoding", "gzip"), http.StatusUnsupportedMediaType},
		{func(r *http.Request) { r.URL.RawQuery = "cost=3" }, http.StatusBadRequest},
		{func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(r.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
		}, http.StatusBadRequest},
		{path("/"), http.StatusNotFound},
		{path("/v1/"), http.StatusNotFound},
		{path("/v1/allow/"), http.StatusNotFound},
		{path("/v1//allow"), http.StatusNotFound},
		{path("/V1/allow"), http.StatusNotFound},
		{path("/allow"), http.StatusNotFound},
	} {
		r := ask("/v1/allow", `{"key":"user:42"}`)
		c.edit(r)
		w := send(h, r)
		require.Equal(t, c.status, w.Code, "%v %v", r.URL, r.Header)
		require.Equal(t, c.status == http.StatusOK, w.Header().Get("Content-Type") == "application/json")
	}
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

func TestProblemOfEachFailure(t *testing.T) {
	unknown := fmt.Errorf("%w: %w", storage.ErrOutcomeUnknown, storage.NotApplied(errSecret))
	for _, c := range []struct {
		err  error
		kind string
		paid string
	}{
		{storage.NotApplied(storage.ErrUnavailable), "store-unavailable", "no"},
		{storage.NotApplied(context.DeadlineExceeded), "store-unavailable", "no"},
		{storage.NotApplied(errors.New("no such table")), "store-refused", "no"},
		{errors.New("no such table"), "store-refused", "unknown"},
		{storage.ErrContended, "store-contended", "no"},
		{fmt.Errorf("%w: %w", storage.ErrContended, context.DeadlineExceeded), "store-contended", "no"},
		{storage.ErrOverloaded, "store-overloaded", "no"},
		{storage.ErrOutcomeUnknown, "store-outcome-unknown", "unknown"},
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
	require.Contains(t, problemOfError(algo.ErrState).Detail, "is damaged")
	require.Contains(t, problemOfError(algo.ErrStateVersion).Detail, "a later version of sluice")
}

// TestFailuresAreLoggedWithoutKeys: clients get neither the error nor the key.
func TestFailuresAreLoggedWithoutKeys(t *testing.T) {
	var logged bytes.Buffer
	respond := func(t *testing.T, store storage.Store, r *http.Request) string {
		logged.Reset()
		a := apiOn(t, store, sluice.Options[decisionRequest]{}).(api)
		a.sampled = sampledTo(&logged)
		return send(a, r).Body.String()
	}
	synctest.Test(t, func(t *testing.T) {
		store := new(sluicetest.Store)
		store.Fail(errSecret)
		response := respond(t, store, ask("/v1/allow", askOne))
		require.Contains(t, logged.String(), `level=WARN msg="no decision: The store refused the request" op=allow applied=no`)
		require.Contains(t, logged.String(), "10.0.0.7")
		require.NotContains(t, logged.String()+response, "user:42")
		require.NotContains(t, response, "10.0.0.7")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		respond(t, store, ask("/v1/allow", askOne).WithContext(ctx))
		require.Empty(t, logged.String(), "a client that has left is not a failure")
	})
	faulty := damaged(t).(api)
	faulty.sampled = sampledTo(&logged)
	post(faulty, "/v1/allow", askOne)
	require.Contains(t, logged.String(), `level=ERROR msg="no decision: The server or its configuration is faulty"`)
	require.NotContains(t, logged.String(), "user:42")
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
