package serve

import (
	"net"
	"net/http"
	"strings"
)

func isUnix(address string) bool { return strings.HasPrefix(address, "unix:") }

// routes are those of the API listener. private tells that only this machine
// reaches it.
func (s *Server) routes(private bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.Handle("/", s.admit(API(s.current.Load, sparsely(s.log))))
	return s.onlyByName(mux, private)
}

func (s *Server) onlyByName(next http.Handler, private bool) http.Handler {
	return next
}

var _ = net.SplitHostPort
