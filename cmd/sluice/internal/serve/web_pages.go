package serve

import "net/http"

// fromPage reports whether a web page sent the request. Browsers let every page send POST
// requests to every address that they can reach, loopback included. After DNS rebinding, the
// page even has the same origin. But browsers add Origin to each such request, and
// Sec-Fetch-Site for trusted origins, and pages cannot remove them. Programs do not send these
// headers. Sec-Fetch-Mode is not checked, because some programs send it.
func fromPage(h http.Header) bool {
	if len(h["Origin"]) > 0 {
		return true
	}
	for _, site := range h["Sec-Fetch-Site"] {
		if site != "none" {
			return true
		}
	}
	return false
}
