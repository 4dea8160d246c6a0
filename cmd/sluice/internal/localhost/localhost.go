// Package localhost protects services on a loopback address from the web pages that their user
// visits.
package localhost

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// IsHost reports whether the header Host has localhost or a loopback address. With DNS rebinding, a
// web page lets its own host name resolve to this machine, and could then read the responses.
func IsHost(host string) bool {
	host = (&url.URL{Host: host}).Hostname()
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap().IsLoopback() || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// FromPage reports whether a web page sent the request. If own is true, pages of the service itself
// do not count. Browsers let every page send POST requests to every address that they can reach,
// loopback included. But they add Origin to each such request, and Sec-Fetch-Site for trusted
// origins, and pages cannot remove them. Programs do not send these headers. Sec-Fetch-Mode is not
// checked, because some programs send it.
func FromPage(r *http.Request, own bool) bool {
	return slices.ContainsFunc(r.Header["Origin"], func(origin string) bool { return !own || origin != "http://"+r.Host }) ||
		slices.ContainsFunc(r.Header["Sec-Fetch-Site"], func(site string) bool { return site != "none" && (!own || site != "same-origin") })
}
