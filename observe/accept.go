package observe

import (
	"mime"
	"strconv"
	"strings"
)

// prefersJSON reports whether an Accept field (RFC 9110, section 12.5.1) prefers
// application/json to text/plain. If it prefers neither, the answer is true only if it
// names application/json.
func prefersJSON(accept []string) bool {
	qualities := make(map[string]float64)
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(parameters["q"], 64)
		if err != nil || !(q >= 0 && q <= 1) {
			q = 1
		}
		if _, repeated := qualities[media]; !repeated {
			qualities[media] = q
		}
	}
	mostPrecise := func(ranges ...string) float64 {
		for _, r := range ranges {
			if q, found := qualities[r]; found {
				return q
			}
		}
		return 0
	}
	json := mostPrecise("application/json", "application/*", "*/*")
	text := mostPrecise("text/plain", "text/*", "*/*")
	_, named := qualities["application/json"]
	return json > text || json == text && json > 0 && named
}
