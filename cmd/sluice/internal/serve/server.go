package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/earlyreply"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// maxDecisionTimeout is the largest decision timeout.
const maxDecisionTimeout = 10 * time.Minute

// minClientTimeout protects clients with a slow line. maxClientTimeout keeps multiples of the
// timeout within a duration.
const (
	minClientTimeout = time.Second
	maxClientTimeout = 24 * time.Hour
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
	UpstreamTimeout time.Duration // how long the upstream may neither read a request body nor begin its response; 0: no limit
	ClientTimeout   time.Duration // see Options.idleTimeout; 0: no limit; else from minClientTimeout to maxClientTimeout
	MinBodyRate     int64         // the lowest rate of a request body in bytes a second, else 408; 0: any rate
	BodyGrace       time.Duration // how long a client may be slower than MinBodyRate
	MaxBody         int64         // bytes of a request body; 0: no limit
	Legacy          bool          // see httplimit.Options

	MaxConnections int // open at once, for the proxy and the decision service each, and requests in progress in the proxy; 0: no limit

	API   string // HOST:PORT or unix:PATH of the decision service; empty: none
	Token string // the bearer token of callers; required unless API is a loopback address or a unix socket

	Namespace       string
	DecisionTimeout time.Duration // 0: sluice.DefaultTimeout; at most maxDecisionTimeout
	OnFailure       sluice.FailurePolicy

	CircuitOpenAfter time.Duration // as in sluice.Options: 0 is the default, negative is off
	DenialCacheTTL   time.Duration // as in sluice.Options: 0 is the default, negative is off

	ShutdownDelay time.Duration // how long the server keeps serving, not ready, before it closes the listeners
	Drain         time.Duration // how long requests in flight may take after ShutdownDelay

	Log     *slog.Logger
	Version string
}

// Server runs the proxy, the decision service, or both.
type Server struct {
	options Options
	log     *slog.Logger
	sampled *slog.Logger // for failures that can happen at every request
	current atomic.Pointer[limiters]
	metrics *metrics
	denied  *observe.Denied

	transport     *http.Transport // to the upstream; nil: no proxy
	answered      atomic.Bool     // the upstream has answered a request
	forwardingLog *slog.Logger

	service  sluice.Options[decisionRequest] // of the limiters of all reloads
	requests sluice.Options[*http.Request]
	local    memory.Store // of both, for sluice.FailLocal

	store   *stores.Store
	missing atomic.Bool           // the store has been unavailable since the start
	health  atomic.Pointer[error] // why the store cannot be used; of the last probe

	reloading sync.Mutex

	proxy, api *listener       // nil if there is none
	listeners  []*listener     // the proxy before the decision service
	background context.Context // of requests and background tasks; Close cancels it
	stop       context.CancelFunc
	closeOnce  sync.Once
	busy       sync.Map            // the connections with a request in flight, without upgraded ones
	slots      *semaphore.Weighted // one for each request to the proxy that has not ended, with upgraded connections
	draining   atomic.Bool
	cut        bool // Close cut off requests; valid after Close
	purgeEvery time.Duration
}

// listener is a listening address with its HTTP server.
type listener struct {
	net.Listener
	http *http.Server
}

// New opens the store and the listeners. It serves no requests before [Server.Serve]. The
// caller must close the server.
func New(ctx context.Context, o Options) (*Server, error) {
	file, err := o.Read(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, log: o.Log, sampled: sampleLog(o.Log, failureSamples),
		denied: observe.NewDenied(0), purgeEvery: purgeEvery,
	}
	if s.store, err = stores.Open(o.Store, stores.Options{MaxKeys: o.MaxKeys, NoFunctions: o.NoFunctions}); err != nil {
		return nil, fmt.Errorf("%s %w", o.StoreFrom, err)
	}
	s.background, s.stop = context.WithCancel(context.Background())
	s.slots = semaphore.NewWeighted(s.maxRequests())
	if err := s.open(ctx, file); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open(ctx context.Context, file *config.File) (err error) {
	s.metrics = newMetrics(s.options.Version, s.store.Store)
	if s.options.Upstream != nil {
		s.transport, s.forwardingLog = s.options.newTransport(), sampleLog(s.log, forwardingSamples)
	}
	s.service, s.requests = limiterOptions[decisionRequest](s, serviceSide), limiterOptions[*http.Request](s, proxySide)
	if err := s.reachStore(ctx, file); err != nil {
		return err
	}
	if err := s.applyRules(ctx, file); err != nil {
		return err
	}
	return s.listen()
}

func limiterOptions[In any](s *Server, side string) sluice.Options[In] {
	o := &s.options
	return sluice.Options[In]{
		Namespace: o.Namespace, Timeout: o.DecisionTimeout, CircuitOpenAfter: o.CircuitOpenAfter, DenialCacheTTL: o.DenialCacheTTL,
		OnFailure: o.OnFailure, Local: &s.local, Observer: s.observer(side),
	}
}

func (s *Server) listen() error {
	proxy, api, err := s.options.addresses()
	if err != nil {
		return err
	}
	if s.transport != nil {
		l, err := listenTCP(s.options.Listen, proxy)
		if err != nil {
			return fmt.Errorf("--listen %w", err)
		}
		s.proxy = s.server(l, http.HandlerFunc(s.serveProxy))
	}
	if s.options.API == "" {
		return nil
	}
	var l net.Listener
	if api != nil {
		l, err = listenTCP(s.options.API, api)
	} else {
		l, err = listenUnix(strings.TrimPrefix(s.options.API, unixPrefix))
	}
	if err != nil {
		return fmt.Errorf("--api %w", err)
	}
	s.api = s.server(l, s.Routes(isPrivate(l)))
	s.api.http.WriteTimeout = requestTime + cmp.Or(s.options.DecisionTimeout, sluice.DefaultTimeout) + apiWriteTime
	return nil
}

// Limits for requests, so that slow clients cannot hold resources.
const (
	requestTime  = 10 * time.Second // to read a request, but not its body in the proxy: see Options.idleTimeout
	idleTime     = 2 * time.Minute
	apiWriteTime = 20 * time.Second // to write a response of the decision service
	headerSize   = 64 << 10
)

func (s *Server) server(l net.Listener, handler http.Handler) *listener {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &listener{http: &http.Server{
		Handler:        handler,
		ReadTimeout:    requestTime, // also of a body that net/http reads itself, as after an unknown Expect
		IdleTimeout:    idleTime,
		MaxHeaderBytes: headerSize,
		Protocols:      protocols,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: writeFactor * s.options.ClientTimeout},
		BaseContext:    func(net.Listener) context.Context { return s.background }, // Close ends the requests that are left
		ConnState:      s.trackConnection,
		ErrorLog:       errorLog(s.sampled, "a connection failed"),

		DisableGeneralOptionsHandler: true, // OPTIONS * must not bypass the handler and its timeouts
	}}
	server.Listener = limitConnections(l, s.options.MaxConnections, func(full bool) {
		server.http.SetKeepAlivesEnabled(!full) // closes idle connections, and active ones after their response
		if full {
			s.sampled.Warn("the number of connections has reached --max-connections; idle connections are closed, and new ones wait", "address", l.Addr().String(), "max-connections", s.options.MaxConnections)
		}
	})
	s.listeners = append(s.listeners, server)
	return server
}

// maxRequests is the number of slots.
func (s *Server) maxRequests() int64 { return cmp.Or(int64(s.options.MaxConnections), math.MaxInt64) }

// serveProxy refuses a request if as many are in progress as there may be connections, and none of them ends
// within slotWait. Over HTTP/1.1 a connection has only one, so connections wait instead.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	if !s.slots.TryAcquire(1) && !acquireSoon(r.Context(), s.slots) {
		s.sampled.Warn("the number of requests in progress has reached --max-connections; further ones get 503", "max-connections", s.options.MaxConnections)
		earlyreply.Prepare(w, r)
		w.Header().Set("Retry-After", busyRetryAfter)
		plainProblem(http.StatusServiceUnavailable, "the proxy has too many requests in progress; retry later").write(w)
		return
	}
	defer s.slots.Release(1)
	s.current.Load().handler.ServeHTTP(w, r)
}

// slotWait is how long a request waits for the end of another one. A connection that was upgraded makes room for the next
// connection a moment before its request ends.
const slotWait = time.Second

func acquireSoon(ctx context.Context, slots *semaphore.Weighted) bool {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	return slots.Acquire(ctx, 1) == nil
}

// busyRetryAfter is the Retry-After of requests beyond the limit, in seconds.
const busyRetryAfter = "1"

// errCut is returned by Serve if requests in flight were cut off.
var errCut = errors.New("requests in flight were cut off; to give them more time, set a longer --drain")

// errInterrupted, as the cause of the context's end, lets Serve skip Options.ShutdownDelay, for
// a person who waits at a terminal.
var errInterrupted = errors.New("serve: interrupted")

// Serve serves until ctx ends. Then /readyz fails, and Serve keeps serving for
// Options.ShutdownDelay, closes the listeners, and waits up to Options.Drain for requests in
// flight. It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	s.announce()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer s.stop()
	tasks.Go(func() { every(s.background, probeEvery, s.checkStore) })
	if purger, ok := s.store.Store.(storage.Purger); ok {
		tasks.Go(func() {
			every(s.background, s.purgeEvery, func(ctx context.Context) { s.purge(ctx, purger) })
		})
	}
	failed := make(chan error, 2)
	for _, l := range s.listeners {
		go func() { failed <- l.http.Serve(l.Listener) }()
	}
	select {
	case <-ctx.Done():
		delay := s.options.ShutdownDelay
		if errors.Is(context.Cause(ctx), errInterrupted) {
			delay = 0
		}
		s.shutDown(delay)
	case <-s.background.Done():
	case err := <-failed:
		if !errors.Is(err, http.ErrServerClosed) {
			return err
		}
	}
	s.Close()
	s.log.Info("shut down", "cut", s.cut)
	if s.cut {
		return errCut
	}
	return nil
}

// every calls task once every d, until ctx ends.
func every(ctx context.Context, d time.Duration, task func(context.Context)) {
	ticks := time.NewTicker(d)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			task(ctx)
		}
	}
}

// shutDown makes /readyz fail, waits so that load balancers notice, and shuts down the proxy before the
// decision service, which serves health checks until then. It does not wait for upgraded connections.
func (s *Server) shutDown(delay time.Duration) {
	s.draining.Store(true)
	s.log.Info("shutting down", "delay", delay, "drain", s.options.Drain)
	retrywait.Pause(s.background, delay)
	ctx, cancel := context.WithTimeout(s.background, s.options.Drain)
	defer cancel()
	for _, l := range s.listeners {
		_ = l.http.Shutdown(ctx) // Close finds out whether requests are left
	}
}

// cutGrace is how long Close waits for requests to end. A client can have its complete response
// before the server marks the connection as idle.
const cutGrace = 100 * time.Millisecond

// releaseTime is how long Close waits until requests that were cut off have corrected their costs and released their units in the
// store. Upgraded connections are cut off at each shutdown.
const releaseTime = time.Second

// Close stops the server at once. Serve then returns.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		for end := time.Now().Add(cutGrace); s.isBusy() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		s.cut = s.isBusy()
		s.stop()
		for _, l := range s.listeners {
			_ = l.http.Close()
			_ = l.Close()
		}
		ended, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		_ = s.slots.Acquire(ended, s.maxRequests()) // when all requests have ended
		if s.transport != nil {
			s.transport.CloseIdleConnections()
		}
		s.store.Close()
	})
}

// trackConnection is an http.Server.ConnState hook.
func (s *Server) trackConnection(conn net.Conn, state http.ConnState) {
	if state == http.StateActive {
		s.busy.Store(conn, nil)
	} else {
		s.busy.Delete(conn)
	}
}

// isBusy reports whether a connection has a request.
func (s *Server) isBusy() bool {
	for range s.busy.Range {
		return true
	}
	return false
}

func (s *Server) announce() {
	file := s.current.Load().file
	args := []any{"version", s.options.Version, "store", s.store.Address, "rules", len(file.Rules)}
	if s.proxy != nil {
		args = append(args, "proxy", reachable(s.proxy.Addr()), "upstream", s.options.Upstream.Redacted())
	}
	if s.api != nil {
		args = append(args, "api", reachable(s.api.Addr()))
	}
	s.log.Info("serving", args...)
	s.logUntrusting(file)
}

// reachable returns the address as a URL for curl, or in the form of --api.
func reachable(addr net.Addr) string {
	if addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return "http://" + addr.String()
}
