package serve

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
)

type limitFieldsKey struct{} // of the context of a request

// holdLimitFields moves the RateLimit fields from the header to the context, from where they are added
// to the response of the upstream. ReverseProxy would clear them after an interim response.
//
// Trailers cannot have newer values, so these fields are removed from trailers, announced or not.
func holdLimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := maps.Clone(w.Header())
		clear(w.Header())
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), limitFieldsKey{}, held)))
		maps.DeleteFunc(w.Header(), func(name string, _ []string) bool {
			trailer, ok := strings.CutPrefix(name, http.TrailerPrefix)
			return ok && isLimitField(trailer)
		})
	})
}

func heldLimitFields(r *http.Request) http.Header {
	held, _ := r.Context().Value(limitFieldsKey{}).(http.Header)
	return held
}

// addLimitFields puts the fields of the proxy before those of the upstream. It joins the lines of
// RateLimit and RateLimit-Policy, because many clients read only the first line of a field.
func addLimitFields(response *http.Response) error {
	h := response.Header
	for name, values := range heldLimitFields(response.Request) {
		h[name] = slices.Concat(values, h[name])
	}
	for _, name := range [...]string{"Ratelimit", "Ratelimit-Policy"} {
		if lines := h[name]; len(lines) > 1 {
			lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
			h[name] = []string{strings.Join(lines, ", ")}
		}
	}
	maps.DeleteFunc(response.Trailer, func(name string, _ []string) bool { return isLimitField(name) })
	return nil
}

func isLimitField(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "ratelimit") || strings.HasPrefix(name, "x-ratelimit") || name == "retry-after"
}
