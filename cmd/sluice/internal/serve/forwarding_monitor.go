package serve

import (
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/httplimit"
)

// forwardingMonitor counts and logs requests that may be limited under a wrong address, because
// the list of trusted proxies or a proxy is wrong. It stores nothing about peers, so many peers
// need no more memory.
type forwardingMonitor struct {
	log    *slog.Logger // samples
	faults *prometheus.CounterVec
}

// The reasons in forwardingMonitor.faults.
const (
	untrustedPeer = "untrusted_peer"
	noAddress     = "no_address"
)

func newForwardingMonitor(log *slog.Logger, faults *prometheus.CounterVec) *forwardingMonitor {
	for _, reason := range [...]string{untrustedPeer, noAddress} { // so that the series exist from the start
		faults.WithLabelValues(reason)
	}
	return &forwardingMonitor{sampleLog(log, forwardingSamples), faults}
}

// watch checks each request, then calls next.
func (m *forwardingMonitor) watch(file *config.File, next http.Handler) (http.Handler, error) {
	check, err := httplimit.ClientIP{Trusted: file.Trusted, Forwarded: file.Forwarded}.Check()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			m.report(r, err)
		}
		next.ServeHTTP(w, r)
	}), nil
}

func (m *forwardingMonitor) report(r *http.Request, fault error) {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = r.RemoteAddr
	}
	if errors.Is(fault, httplimit.ErrUntrustedPeer) {
		m.faults.WithLabelValues(untrustedPeer).Inc()
		m.log.Warn("ignored X-Forwarded-For or Forwarded from a peer that is not trusted", "peer", peer,
			"remedy", "if the peer is your own proxy, add its address to trusted in the rules, or to --trust; until then all clients behind it share the limits by ip")
		return
	}
	m.faults.WithLabelValues(noAddress).Inc()
	m.log.Warn("X-Forwarded-For or Forwarded from a trusted proxy has no client address", "peer", peer,
		"remedy", "configure each trusted proxy to append the address of its peer; until then such requests are limited by the proxy's address")
}
