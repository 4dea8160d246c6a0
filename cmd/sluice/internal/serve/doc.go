// Package serve is the command sluice serve: a reverse proxy with rate limits, and a
// decision service for other programs. Both use the same rules and the same store.
//
//	clients  -> proxy listener -> limits -> upstream
//	programs -> API listener   -> /v1/...      decisions, see openapi.yaml
//	                              /livez       200 while the process serves
//	                              /readyz      200 if requests get decisions
//	                              /metrics     for Prometheus
//	                              /debug/denied
//
// A rule has the same name and the same keys in the proxy and in the service, so both share
// its quota. With the key "203.0.113.7" the service reads, refunds or resets what the proxy
// counted for that client. The key of a rule by several fields is made by
// [httplimit.JoinKeys].
//
// The store keeps states under the names of the rules, so quota that was used stays used at a reload.
// A rule whose algorithm changes has new states. With sluice.FailLocal, quota that was used in memory during
// an outage is lost at the end of the outage.
//
// Clients cannot forge the headers that tell the upstream their address, the host or the scheme, nor
// headers that would change the path or the method after the rules have been applied. See
// [Server.Reload] and forwarding.
package serve
