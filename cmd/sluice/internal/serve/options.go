package serve

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
)

// MaxDecisionTimeout is longer than anybody would wait for a decision.
const MaxDecisionTimeout = 10 * time.Minute

// Sooner than MinClientTimeout clients are cut off that only have a slow line. Of times
// longer than MaxClientTimeout, which nobody waits, a multiple may be no duration.
const (
	MinClientTimeout = time.Second
	MaxClientTimeout = 24 * time.Hour
)

// Options say what to serve.
type Options struct {
	// Read reads the rules: at the start, and at each [Server.Reload]. When ctx ends
	// it returns, even if what it reads does not come.
	Read func(ctx context.Context) (*config.File, error)

	Store     string // memory:, sqlite:FILE, postgres://... or redis://...
	StoreFrom string // the flag or variable that Store is from, for errors; empty: --store
	MaxKeys   int    // how many keys of each rule the store in memory holds at most; 0: memory.DefaultMaxKeys

	NoFunctions bool // see postgres.Options

	Upstream        *url.URL      // nil: no proxy
	Listen          string        // HOST:PORT of the proxy
	UpstreamHost    bool          // send the upstream's own name as Host, not what the client said
	UpstreamTimeout time.Duration // how long the upstream may take to begin its response; 0: any time
	ClientTimeout   time.Duration // how long the client may send nothing amid a request, or slowly times as long take nothing; 0: any time; else from MinClientTimeout to MaxClientTimeout
	MinBodyRate     int64         // bytes a second at which a client must send content, or get 408; 0: any rate
	BodyGrace       time.Duration // for how long a client may fall behind MinBodyRate
	MaxBody         int64         // bytes of a request's content; 0: no limit
	Legacy          bool          // see httplimit.Options

	MaxConnections int // open at a time, each of the proxy and the decision service; 0: no limit

	API   string // HOST:PORT or unix:PATH of the decision service; empty: none
	Token string // what callers of it must have; required unless API is this machine's own

	Namespace       string
	DecisionTimeout time.Duration // 0: compose.DefaultTimeout; at most MaxDecisionTimeout
	OnFailure       compose.FailurePolicy

	CircuitOpenAfter time.Duration // as in compose.Options: 0 is the default, and negative is never
	DenialCacheTTL   time.Duration // likewise; negative is no cache

	ShutdownDelay time.Duration // how long the server goes on to serve, and says that it is not ready, before it closes its listeners
	Drain         time.Duration // how long requests have to end after that

	Log     *slog.Logger
	Version string
}

func (o *Options) storeFrom() string { return cmp.Or(o.StoreFrom, "--store") }
