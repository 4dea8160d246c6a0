package serve

import (
	"net/http"
	"strings"
)

// Trailers tell nothing of limits: what is sent is what was known at the beginning, and
// of a field that the upstream announces, the server would send ours once more.

// announceNoLimits takes the names of such fields out of Trailer.
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

// sendNoLimits drops such fields that were not announced.
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
