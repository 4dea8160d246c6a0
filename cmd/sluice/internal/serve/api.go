package serve

import (
	"context"
	_ "embed" // for the document
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// openAPI is the document that describes the API.
//
//go:embed openapi.yaml
var openAPI []byte

const (
	documentPath = "/openapi.yaml"
	apiRoot      = "/v1/"
)

// routes are the paths below apiRoot. Each is an operation of a limiter.
var routes = [...]compose.Op{compose.OpAllow, compose.OpPeek, compose.OpRefund, compose.OpCharge, compose.OpReset}

// API returns the handler of the decision service: the routes below /v1/, and /openapi.yaml,
// which describes them. Each request uses the limits that current returns at that time. Failures
// are logged without keys.
//
// A decision has the status 200, allowed or denied. Every other status means that there is no
// decision; the body is then a problem document (RFC 9457).
func API(current func() *Limits, log *slog.Logger) http.Handler {
	return &api{current, log}
}

type api struct {
	current func() *Limits
	log     *slog.Logger
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == documentPath {
		reading(http.HandlerFunc(serveDocument)).ServeHTTP(w, r)
		return
	}
	if p := a.serve(w, r); p != nil {
		p.write(w)
	}
}

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, _ = w.Write(openAPI) // an error means that the client is gone
}

// serve writes the response, or returns the problem for the caller to write.
func (a *api) serve(w http.ResponseWriter, r *http.Request) *problem {
	op, ok := routeOf(r.URL.Path)
	switch {
	case !ok:
		return routeProblem(r)
	case fromPage(r.Header):
		return pageProblem()
	case r.Method != http.MethodPost:
		return methodProblem(r, http.MethodPost)
	}
	ask, p := readRequest(w, r)
	if p != nil {
		return p
	}
	limits := a.current()
	if p := findLimits(limits, ask.Limits); p != nil {
		return p
	}
	if rule := limits.withoutAddress(ask); rule != nil {
		return missingKeyProblem(rule)
	}
	if err := answer(r.Context(), w, limits.Service, op, ask); err != nil {
		return a.failure(r.Context(), op, err)
	}
	return nil
}

func routeOf(path string) (compose.Op, bool) {
	word, below := strings.CutPrefix(path, apiRoot)
	for _, op := range routes {
		if below && word == string(op) {
			return op, true
		}
	}
	return "", false
}

// findLimits returns the problem of the first unknown limit.
func findLimits(limits *Limits, names []string) *problem {
	for _, name := range names {
		if !limits.has(name) {
			return limitProblem(limits, name)
		}
	}
	return nil
}

func (l *Limits) has(name string) bool {
	for i := range l.Rules {
		if l.Rules[i].Name == name {
			return true
		}
	}
	return false
}

// answer writes the response of an operation. If it returns an error, it has written nothing.
func answer(ctx context.Context, w http.ResponseWriter, limiter *compose.Limiter[DecisionRequest], op compose.Op, ask DecisionRequest) error {
	switch op {
	case compose.OpAllow:
		d, err := limiter.Allow(ctx, ask)
		return writeDecision(w, &d, err)
	case compose.OpPeek:
		d, err := limiter.Peek(ctx, ask)
		return writeDecision(w, &d, err)
	case compose.OpRefund:
		d, err := limiter.Refund(ctx, ask, 1)
		return writeBalance(w, &d, err)
	case compose.OpCharge:
		d, err := limiter.Charge(ctx, ask, 1)
		return writeBalance(w, &d, err)
	}
	err := limiter.Reset(ctx, ask)
	if err == nil {
		guard(w.Header())
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func writeDecision(w http.ResponseWriter, d *compose.Decision, err error) error {
	if err != nil {
		return err
	}
	if wait := d.RetryAfter; !d.Allowed && waitable(wait) {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(wait), 10))
	}
	writeJSON(w, http.StatusOK, "application/json", decisionOf(d))
	return nil
}

// writeBalance returns an error for a degraded result, because the refund or charge is not in
// the store. A failure policy can replace a decision, but not a write.
func writeBalance(w http.ResponseWriter, d *compose.Decision, err error) error {
	switch {
	case err != nil:
		return err
	case d.Degraded:
		return d.Err
	}
	writeJSON(w, http.StatusOK, "application/json", balanceOf(d))
	return nil
}

// seconds rounds a duration up to whole seconds, at least 1.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 1)
}
