package serve

import (
	"net"
	"net/http"
	"net/netip"
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
	mux.Handle("/", s.admit(&api{s.current.Load, s.sampled}))
	if private && !isUnix(s.options.API) && s.options.Token == "" {
		return onlyLocal(mux)
	}
	return mux
}

// reading refuses methods other than GET and HEAD. With a method in the mux pattern, other
// methods would go to the pattern "/" and get 404 instead of 405.
func reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			methodProblem(w, r, "GET, HEAD").write(w)
			return
		}
		guard(w.Header())
		next.ServeHTTP(w, r)
	})
}

// onlyLocal refuses requests for a host name other than localhost. With DNS rebinding, a web
// page lets its own host name resolve to this machine, and could then read the responses.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			plainProblem(http.StatusMisdirectedRequest, "the host %.64q is refused; want localhost, or the address of --api", r.Host).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether the header Host has localhost or a loopback address.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
