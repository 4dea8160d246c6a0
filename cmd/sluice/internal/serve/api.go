package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // for the document
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/localhost"
)

// openAPI is the document that describes the API.
//
//go:embed openapi.yaml
var openAPI []byte

const (
	documentPath = "/openapi.yaml"
	apiRoot      = "/v1/"
)

type limiter = sluice.Limiter[decisionRequest]

// operations are the paths below apiRoot. Each is an operation of a limiter.
var operations = map[sluice.Op]func(*limiter, context.Context, decisionRequest, int64) (sluice.Decision, error){
	sluice.OpAllow:  (*limiter).AllowN,
	sluice.OpPeek:   (*limiter).PeekN,
	sluice.OpRefund: (*limiter).Refund,
	sluice.OpCharge: (*limiter).Charge,
	sluice.OpReset: func(l *limiter, ctx context.Context, request decisionRequest, _ int64) (d sluice.Decision, err error) {
		return d, l.Reset(ctx, request)
	},
}

// api is the handler of the decision service, the routes below /v1/. A decision has the status
// 200, allowed or denied. Every other status means that there is no decision. The body is then a
// problem document (RFC 9457).
type api struct{ *Server }

// ServeHTTP implements http.Handler.
func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := a.serve(w, r); p != nil {
		p.write(w)
	}
}

func serveDocument(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(openAPI))
}

// serve writes the response, or returns the problem for the caller to write.
func (a api) serve(w http.ResponseWriter, r *http.Request) *problem {
	word, below := strings.CutPrefix(r.URL.Path, apiRoot)
	op := sluice.Op(word)
	switch {
	case !below || operations[op] == nil:
		return newProblem("unknown-route", "unknown path %q; want /v1/allow, /v1/peek, /v1/refund, /v1/charge or /v1/reset", r.URL.Path)
	case localhost.FromPage(r, false):
		return newProblem("web-page", "the header Origin or Sec-Fetch-Site shows that a web page sent the request; send it from a program, without these headers")
	case r.Method != http.MethodPost:
		return methodProblem(w, r, http.MethodPost)
	}
	request, p := readRequest(w, r)
	if p != nil {
		return p
	}
	current := a.current.Load()
	if p := current.check(request); p != nil {
		return p
	}
	d, err := operations[op](current.service, r.Context(), request, request.Cost)
	decides := op == sluice.OpAllow || op == sluice.OpPeek
	if err == nil && d.Degraded && !decides { // a failure policy can replace a decision, but not a write to the store
		err = d.Err
	}
	wait := waitOf(d.RetryAfter)
	switch {
	case err != nil:
		return failure(w, err)
	case op == sluice.OpReset:
		guard(w.Header())
		w.WriteHeader(http.StatusNoContent)
		return nil
	case decides && !d.Allowed && wait != nil:
		roundedUp := (max(*wait, 1)-1)/int64(time.Second) + 1
		w.Header().Set("Retry-After", strconv.FormatInt(roundedUp, 10))
	}
	writeJSON(w, http.StatusOK, "application/json", responseOf(&d, decides))
	return nil
}

// Routes returns the handler of the API listener. private means that only this machine can
// reach it; only then it serves the list of denied keys.
func (s *Server) Routes(private bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", reading(http.HandlerFunc(live)))
	mux.Handle("/readyz", reading(http.HandlerFunc(s.ready)))
	mux.Handle("/metrics", s.admit(reading(s.metrics.handler(s.sampled))))
	if private {
		mux.Handle("/debug/denied", s.admit(reading(s.denied)))
	}
	mux.Handle(documentPath, s.admit(reading(http.HandlerFunc(serveDocument))))
	mux.Handle("/", s.admit(api{s}))
	if private && !strings.HasPrefix(s.options.API, unixPrefix) && s.options.Token == "" {
		return onlyLocal(mux)
	}
	return mux
}

// refuse calls next unless check returns a problem.
func refuse(check func(http.ResponseWriter, *http.Request) *problem, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := check(w, r); p != nil {
			p.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// reading refuses methods other than GET and HEAD. With a method in the mux pattern, other
// methods would go to the pattern "/" and get 404 instead of 405.
func reading(next http.Handler) http.Handler {
	return refuse(func(w http.ResponseWriter, r *http.Request) *problem {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return methodProblem(w, r, "GET, HEAD")
		}
		guard(w.Header())
		return nil
	}, next)
}

// onlyLocal refuses requests for a host name other than localhost.
func onlyLocal(next http.Handler) http.Handler {
	return refuse(func(_ http.ResponseWriter, r *http.Request) *problem {
		if localhost.IsHost(r.Host) {
			return nil
		}
		return plainProblem(http.StatusMisdirectedRequest, "the host %.64q is refused; want localhost, or the address of --api", r.Host)
	}, next)
}

// admit refuses requests without the token, if there is a token.
func (s *Server) admit(next http.Handler) http.Handler {
	if s.options.Token == "" {
		return next
	}
	want := sha256.Sum256([]byte(s.options.Token))
	return refuse(func(w http.ResponseWriter, r *http.Request) *problem {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(token))) // comparing hashes reveals neither the token nor its length
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			return nil
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
		return newProblem("unauthorized", "want Authorization: Bearer and the token")
	}, next)
}
