// Package serve is the server of "sluice serve": a reverse proxy with rate limits, and a
// decision service for other programs. Both use the same rules and the same store.
//
//	clients  -> proxy listener -> limits -> upstream
//	programs -> API listener   -> /v1/...      decisions, see openapi.yaml
//	                              /livez       200 while the process serves
//	                              /readyz      200 if requests are answered as configured
//	                              /metrics     for Prometheus
//	                              /debug/denied
//
// A rule has the same name and the same keys in the proxy and in the service, so both share
// its quota. With the key "203.0.113.7" the service reads, refunds or resets what the proxy
// counted for that client. The key of a rule by several fields is made by
// [httplimit.JoinKeys].
//
// # Reload
//
// [Server.Reload] replaces the rules while requests are served. The store keeps states under
// the names of the rules, so quota that was used stays used. A rule that changes its
// algorithm needs a new name, because its states could not be read. The store records the
// algorithm of each rule, so New and Reload refuse such a change. If a reload fails, the old
// rules stay in force.
//
// With compose.FailLocal, quota that was used in memory during an outage is lost at a
// reload, and at the end of the outage.
//
// # Headers to the upstream
//
// The proxy writes X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto itself. It passes on
// values from the request only if the peer is a trusted proxy, so clients cannot forge
// them. The same holds for other headers that identify the client, and for headers that
// change the path or the method after the rules have been applied.
package serve
