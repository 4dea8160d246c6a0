package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// admit refuses requests without the token, if there is a token.
func (s *Server) admit(next http.Handler) http.Handler {
	if s.options.Token == "" {
		return next
	}
	want := sha256.Sum256([]byte(s.options.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bears(r, want) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
			newProblem("unauthorized", "want Authorization: Bearer and the token").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bears compares hashes, so that its duration reveals neither the token nor its length.
func bears(r *http.Request, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
