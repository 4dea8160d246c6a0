package serve

import (
	"net/http"
	"strings"
)

// The functions below keep the fields of limits out of trailers: trailers cannot have newer values,
// and the server would send the proxy's fields twice if the upstream announces the same names.

// announceNoLimits removes the names of these fields from Trailer.
func announceNoLimits(h http.Header) {
	var names []string
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); !tellsLimit(name) {
				names = append(names, name)
			}
		}
	}
	if len(names) > 0 {
		h["Trailer"] = []string{strings.Join(names, ", ")}
	} else {
		delete(h, "Trailer")
	}
}

// sendNoLimits removes these fields from unannounced trailers.
func sendNoLimits(h http.Header) {
	for name := range h {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && tellsLimit(trailer) {
			delete(h, name)
		}
	}
}

func tellsLimit(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "ratelimit") || strings.HasPrefix(name, "x-ratelimit") || name == "retry-after"
}
