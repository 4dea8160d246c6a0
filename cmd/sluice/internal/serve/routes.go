package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// routes returns the handler of the API listener. private means that only this machine can
// reach it; only then it serves the list of denied keys.
func (s *Server) routes(private bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", reading(http.HandlerFunc(live)))
	mux.Handle("/readyz", reading(http.HandlerFunc(s.ready)))
	mux.Handle("/metrics", s.admit(reading(s.metrics.handler(s.sampled))))
	if private {
		mux.Handle("/debug/denied", s.admit(reading(s.denied)))
	}
	mux.Handle(documentPath, s.admit(reading(http.HandlerFunc(serveDocument))))
	mux.Handle("/", s.admit(&api{s.current.Load, s.sampled}))
	if private && !isUnix(s.options.API) && s.options.Token == "" {
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

// onlyLocal refuses requests for a host name other than localhost. With DNS rebinding, a web
// page lets its own host name resolve to this machine, and could then read the responses.
func onlyLocal(next http.Handler) http.Handler {
	return refuse(func(_ http.ResponseWriter, r *http.Request) *problem {
		if isLocal(r.Host) {
			return nil
		}
		return plainProblem(http.StatusMisdirectedRequest, "the host %.64q is refused; want localhost, or the address of --api", r.Host)
	}, next)
}

// isLocal reports whether the header Host has localhost or a loopback address.
func isLocal(host string) bool {
	host = (&url.URL{Host: host}).Hostname()
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap().IsLoopback() || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
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

// fromPage reports whether a web page sent the request. Browsers let every page send POST
// requests to every address that they can reach, loopback included. After DNS rebinding, the
// page even has the same origin. But browsers add Origin to each such request, and
// Sec-Fetch-Site for trusted origins, and pages cannot remove them. Programs do not send these
// headers. Sec-Fetch-Mode is not checked, because some programs send it.
func fromPage(h http.Header) bool {
	return len(h["Origin"]) > 0 || slices.ContainsFunc(h["Sec-Fetch-Site"], func(site string) bool { return site != "none" })
}
