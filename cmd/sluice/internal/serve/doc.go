// Package serve is the server behind "sluice serve": a reverse proxy with limits
// in front of it, and a decision service for programs that ask by themselves. Both
// go by the same rules on the same store.
//
//	clients  -> proxy listener -> limits -> upstream
//	programs -> API listener   -> /v1/...      decisions, see openapi.yaml
//	                              /livez       does the process serve
//	                              /readyz      are requests answered as configured
//	                              /metrics     for Prometheus
//	                              /debug/denied
//
// A rule has the same name and the same keys on both sides, so that they share
// its use: the service asked with the key "203.0.113.7" sees, refunds or resets
// what the proxy counted for that client. Of a rule by several fields the key is
// what [httplimit.JoinKeys] makes of them.
//
// # Reload
//
// The rules can be replaced while requests are served. States are in the store
// under the names of rules, so what was used stays used. A rule that changes its
// algorithm needs a new name, because its states could not be read: such a reload
// is refused, as is every other that is faulty, and the old rules stay. A start is
// refused likewise, for the store keeps which algorithms each rule had.
//
// With compose.FailLocal what was used in memory during an outage is forgotten at
// a reload, as it is at the outage's end.
//
// # What the proxy tells the upstream
//
// X-Forwarded-For, -Host and -Proto are the proxy's own words. What a client wrote
// there is passed on only if the client is one of the trusted proxies; so nobody
// forges them. The same goes for other fields that tell of the client, and for those
// that give a request another path or method than the rules have seen.
package serve
