package serve

import "net/http"

// fromPage reports whether a web page sent the request. A browser lets every page
// post to every address that it can reach, this machine's own included, and a page
// whose name is made to point here (DNS rebinding) is of the same origin even. But
// it adds Origin to each such request, and Sec-Fetch-Site where it speaks to an
// origin that it trusts, and no page can leave them out. Programs do not send them,
// and there is no page that belongs here: whatever says that it comes from one is
// refused.
//
// Sec-Fetch-Mode is no such sign, for there are programs that send it.
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
