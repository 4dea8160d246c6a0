package serve

import (
	"context"
	_ "embed" // for the document
	"log/slog"
	"net/http"
	"slices"
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

// api is the handler of the decision service, the routes below /v1/. A decision has the status
// 200, allowed or denied. Every other status means that there is no decision. The body is then a
// problem document (RFC 9457).
type api struct {
	current func() *Limits // the limits for the next request
	log     *slog.Logger   // for failures, without keys
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := a.serve(w, r)
	if p == nil {
		return
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", storeRetryAfter)
	}
	p.write(w)
}

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, _ = w.Write(openAPI) // an error means that the client is gone
}

// serve writes the response, or returns the problem for the caller to write.
func (a *api) serve(w http.ResponseWriter, r *http.Request) *problem {
	word, below := strings.CutPrefix(r.URL.Path, apiRoot)
	op := compose.Op(word)
	switch {
	case !below || !slices.Contains(routes[:], op):
		return newProblem("unknown-route", "unknown path %q; want /v1/allow, /v1/peek, /v1/refund, /v1/charge or /v1/reset", r.URL.Path)
	case fromPage(r.Header):
		return newProblem("web-page", "the header Origin or Sec-Fetch-Site shows that a web page sent the request; send it from a program, without these headers")
	case r.Method != http.MethodPost:
		return methodProblem(w, r, http.MethodPost)
	}
	ask, p := readRequest(w, r)
	if p != nil {
		return p
	}
	limits := a.current()
	if p := limits.check(ask); p != nil {
		return p
	}
	if err := answer(r.Context(), w, limits.Service, op, ask); err != nil {
		return a.failure(r.Context(), op, err)
	}
	return nil
}

// answer writes the response of an operation. If it returns an error, it has written nothing.
func answer(ctx context.Context, w http.ResponseWriter, limiter *compose.Limiter[DecisionRequest], op compose.Op, ask DecisionRequest) (err error) {
	var d compose.Decision
	switch op {
	case compose.OpAllow:
		d, err = limiter.AllowN(ctx, ask, ask.Cost)
	case compose.OpPeek:
		d, err = limiter.PeekN(ctx, ask, ask.Cost)
	case compose.OpRefund:
		d, err = limiter.Refund(ctx, ask, ask.Cost)
	case compose.OpCharge:
		d, err = limiter.Charge(ctx, ask, ask.Cost)
	case compose.OpReset:
		err = limiter.Reset(ctx, ask)
	}
	switch {
	case err != nil:
		return err
	case op == compose.OpAllow, op == compose.OpPeek:
		writeDecision(w, &d)
	case d.Degraded: // a failure policy can replace a decision, but not a write to the store
		return d.Err
	case op == compose.OpReset:
		guard(w.Header())
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, "application/json", balanceOf(&d))
	}
	return nil
}

func writeDecision(w http.ResponseWriter, d *compose.Decision) {
	if wait := waitOf(d.RetryAfter); !d.Allowed && wait != nil {
		roundedUp := (max(*wait, 1)-1)/int64(time.Second) + 1
		w.Header().Set("Retry-After", strconv.FormatInt(roundedUp, 10))
	}
	writeJSON(w, http.StatusOK, "application/json", decisionOf(d))
}
