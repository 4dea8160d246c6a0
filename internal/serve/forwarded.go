package serve

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/config"
)

// forwarder tells the upstream who the client is.
type forwarder struct {
	trusted   []netip.Prefix
	forwarded bool // the proxies before this one write Forwarded
	client    func(*http.Request) string
}

func newForwarder(file *config.File) (*forwarder, error) {
	client, err := httplimit.ClientIP{Trusted: file.Trusted, Forwarded: file.Forwarded, IPv6Bits: 128}.Key()
	return &forwarder{file.Trusted, file.Forwarded, client}, err
}

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
)

// tell sets the X-Forwarded fields. Those that came in are passed on only from a
// trusted proxy.
func (f *forwarder) tell(r *httputil.ProxyRequest) {
	trusted := f.trusts(r.In.RemoteAddr)
	switch {
	case !trusted:
		dropForged(r.Out.Header)
	case f.forwarded:
		r.Out.Header.Set(forwardedFor, strings.TrimSuffix(f.client(r.In), "/128"))
	default:
		r.Out.Header[forwardedFor] = r.In.Header[forwardedFor]
	}
	r.SetXForwarded()
	if !trusted {
		return
	}
	for _, name := range [...]string{forwardedHost, forwardedProto} {
		if said := r.In.Header.Get(name); said != "" {
			r.Out.Header.Set(name, said)
		}
	}
}

// dropForged removes the fields by which proxies tell upstreams who the client is.
// With underscores they are the same to programs that take fields from
// environment variables, as CGI and WSGI do.
func dropForged(h http.Header) {
	for name := range h {
		plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if plain == "forwarded" || plain == "x-real-ip" || strings.HasPrefix(plain, "x-forwarded-") {
			delete(h, name)
		}
	}
}

func (f *forwarder) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := peer.Addr().WithZone("")
	plain := addr.Unmap()
	for _, prefix := range f.trusted {
		if prefix.Contains(plain) || prefix.Contains(netip.AddrFrom16(plain.As16())) {
			return true
		}
	}
	return false
}
