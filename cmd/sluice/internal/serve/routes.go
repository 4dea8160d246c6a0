package serve

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// routes are those of the API listener. private tells that only this machine
// reaches it; only then there is a list of keys.
func (s *Server) routes(private bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", reading(http.HandlerFunc(live)))
	mux.Handle("/readyz", reading(http.HandlerFunc(s.ready)))
	mux.Handle("/metrics", s.admit(reading(s.metrics.handler(s.sampled))))
	if private {
		mux.Handle("/debug/denied", s.admit(reading(s.denied)))
	}
	mux.Handle("/", s.admit(API(s.current.Load, s.sampled)))
	if private && !isUnix(s.options.API) && s.options.Token == "" {
		return onlyLocal(mux)
	}
	return mux
}

// reading refuses methods that do more than read. A pattern of the mux with a method
// would leave them to the pattern for everything, which knows of no such path.
func reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			methodProblem(r, "GET, HEAD").write(w)
			return
		}
		guard(w.Header())
		next.ServeHTTP(w, r)
	})
}

// onlyLocal refuses requests that are for another name than this machine's. A web
// page may have its own name point here (DNS rebinding), and its browser takes what
// it reads from here for its own.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			plainProblem(http.StatusMisdirectedRequest, "the host %.64q is refused; want localhost, or the address of --api", r.Host).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a field Host names this machine and nothing else.
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
