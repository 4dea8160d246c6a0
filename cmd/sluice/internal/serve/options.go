package serve

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
)

// MaxDecisionTimeout is the largest decision timeout.
const MaxDecisionTimeout = 10 * time.Minute

// MinClientTimeout protects clients with a slow line. MaxClientTimeout keeps multiples of the
// timeout within a duration.
const (
	MinClientTimeout = time.Second
	MaxClientTimeout = 24 * time.Hour
)

// Options configure a Server.
type Options struct {
	// Read reads the rules, at the start and at each [Server.Reload]. It must return when ctx
	// ends, even if the read blocks.
	Read func(ctx context.Context) (*config.File, error)

	Store     string // memory:, sqlite:FILE, postgres://... or redis://...
	StoreFrom string // the flag or variable of Store, for errors
	MaxKeys   int    // the most keys of each rule in the memory store; 0: memory.DefaultMaxKeys

	NoFunctions bool // see postgres.Options

	Upstream        *url.URL      // nil: no proxy
	Listen          string        // HOST:PORT of the proxy
	UpstreamHost    bool          // send the upstream's host name as Host, not the client's Host
	UpstreamTimeout time.Duration // the longest time until the response begins; 0: no limit
	ClientTimeout   time.Duration // see idleTimeout; 0: no limit; else from MinClientTimeout to MaxClientTimeout
	MinBodyRate     int64         // the lowest rate of a request body in bytes a second, else 408; 0: any rate
	BodyGrace       time.Duration // how long a client may be slower than MinBodyRate
	MaxBody         int64         // bytes of a request body; 0: no limit
	Legacy          bool          // see httplimit.Options

	MaxConnections int // open at once, for the proxy and the decision service each; 0: no limit

	API   string // HOST:PORT or unix:PATH of the decision service; empty: none
	Token string // the bearer token of callers; required unless API is a loopback address or a unix socket

	Namespace       string
	DecisionTimeout time.Duration // 0: compose.DefaultTimeout; at most MaxDecisionTimeout
	OnFailure       compose.FailurePolicy

	CircuitOpenAfter time.Duration // as in compose.Options: 0 is the default, negative is off
	DenialCacheTTL   time.Duration // as in compose.Options: 0 is the default, negative is off

	ShutdownDelay time.Duration // how long the server keeps serving, not ready, before it closes the listeners
	Drain         time.Duration // how long requests in flight may take after ShutdownDelay

	Log     *slog.Logger
	Version string
}
