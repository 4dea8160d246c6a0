package main

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/serve"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

// serveFlags has the flags of sluice serve.
type serveFlags struct {
	limit, by, config string
	trust             []string

	upstream, listen string
	upstreamHost     bool
	upstreamTimeout  durationFlag
	clientTimeout    durationFlag
	minBodyRate      countFlag
	bodyGrace        durationFlag
	legacy           bool
	maxBody          countFlag
	maxConnections   countFlag

	api, tokenFile string

	store, namespace, onFailure string
	maxKeys                     countFlag
	decisionTimeout             durationFlag
	noFunctions                 bool
	circuitOpenAfter            durationFlag // 0: never
	denialCacheTTL              durationFlag // 0: no cache

	shutdownDelay       durationFlag
	drain               durationFlag
	logFormat, logLevel string

	given func(flag string) bool // on the command line
}

// The default addresses.
const (
	defaultListen = "127.0.0.1:8080"
	defaultAPI    = "127.0.0.1:8081"
)

func (f *serveFlags) define(c *cobra.Command) {
	f.decisionTimeout, f.drain = durationFlag(time.Second), durationFlag(10*time.Second)
	f.circuitOpenAfter, f.denialCacheTTL = durationFlag(time.Second), durationFlag(time.Second)
	f.clientTimeout, f.shutdownDelay = durationFlag(time.Minute), durationFlag(5*time.Second)
	f.minBodyRate, f.bodyGrace = serve.DefaultMinBodyRate, durationFlag(serve.DefaultBodyGrace)
	f.maxConnections = serve.DefaultMaxConnections
	f.maxKeys = 1 << 20
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.limit, "limit", "", "the `POLICY` of the one rule, such as \"gcra 100/m burst=20\"; for several rules, use --config")
	flags.StringVar(&f.by, "by", "ip", "the key of --limit, `FIELDS`: ip, user, method, path, host, header:NAME, cookie:NAME, or several joined by +; everything: all requests share one limit")
	flags.StringSliceVar(&f.trust, "trust", nil, "with --limit and --upstream, the `PREFIXES` of your own proxies, such as 10.0.0.0/24, whose X-Forwarded-For is trusted")
	flags.StringVar(&f.config, "config", "", "read the rules from this `FILE`, a limits.yaml, instead of --limit; SIGHUP reads it again")

	flags.StringVar(&f.upstream, "upstream", "", "run a reverse proxy that limits requests to this `URL`, such as http://localhost:3000")
	flags.StringVar(&f.listen, "listen", defaultListen, "the `ADDRESS` of the proxy: HOST:PORT, or :PORT for all network interfaces")
	flags.BoolVar(&f.upstreamHost, "upstream-host", false, "send the host name of --upstream as Host, instead of the client's Host")
	flags.Var(&f.upstreamTimeout, "upstream-timeout", "answer 504 if the upstream has not begun its response after this time; 0s is no limit")
	flags.Var(&f.clientTimeout, "client-timeout", "close a connection if the client sends no byte of a request body for this time, or reads no byte of the response for 10 times as long; 1s to 24h, 0s is never")
	flags.Var(&f.minBodyRate, "min-body-rate", "answer 408 to clients that send a request body at less than `N` bytes a second; 0 is any rate")
	flags.Var(&f.bodyGrace, "body-grace", "how far a client may fall behind --min-body-rate, at the start or later, before it gets 408; 1s to 24h")
	flags.Var(&f.maxBody, "max-body", "refuse requests with a body of more than `N` bytes; 0 is no limit")
	flags.BoolVar(&f.legacy, "legacy-fields", false, "also send X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset")

	flags.StringVar(&f.api, "api", "", "the `ADDRESS` of the decision service: HOST:PORT or unix:PATH (default: "+defaultAPI+", or no API if --upstream is set)")
	flags.StringVar(&f.tokenFile, "token-file", "", "callers of --api must send the token in this `FILE`; without it, --api must be a loopback address or a unix socket")

	flags.Var(&f.maxConnections, "max-connections", "how many connections may be open at once, `N` for --listen and N for --api; further ones wait; 0 is no limit")
	flags.StringVar(&f.store, "store", "memory:", "the `URL` of the store: memory:, sqlite:FILE, postgres://... or redis://...; without this flag, the URL in the environment variable "+storeVariable)
	flags.BoolVar(&f.noFunctions, "no-functions", false, "do not create functions in the PostgreSQL database; a decision then takes two or more round trips")
	flags.Var(&f.maxKeys, "max-keys", "how many keys of each rule the store memory: holds, at about 70 bytes each")
	flags.StringVar(&f.namespace, "namespace", "", "a `NAME` that separates these rules from rules of the same names in the same store")
	flags.StringVar(&f.onFailure, "on-failure", "closed", "`WHAT` to do when the store fails: closed answers 503, open allows all requests, local limits in the memory of this process")
	flags.Var(&f.decisionTimeout, "decision-timeout", "how long a decision may take; after that the store counts as failed")
	flags.Var(&f.circuitOpenAfter, "circuit-open-after", "circuit breaker: when the store has failed for this time, decisions fail at once, without waiting for --decision-timeout, until a probe succeeds; 0s turns it off")
	flags.Var(&f.denialCacheTTL, "denial-cache-ttl", "how long a denial is cached; a key that was reset or refunded may still be denied for this time; 0s caches nothing")

	flags.Var(&f.shutdownDelay, "shutdown-delay", "how long to keep serving after SIGTERM, while /readyz answers 503, before the listeners close")
	flags.Var(&f.drain, "drain", "how long requests in flight may take after --shutdown-delay, or after SIGINT")
	flags.StringVar(&f.logFormat, "log-format", "text", "the log's `FORMAT`: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "the lowest `LEVEL` that is logged: debug, info, warn or error")
	f.given = flags.Changed
	refuseRepeats(flags)
}

// options converts the flags to options.
func (f *serveFlags) options(log io.Writer) (o serve.Options, err error) {
	for _, step := range [...]func(*serve.Options) error{f.rules, f.proxy, f.service, f.storage, func(o *serve.Options) error { return f.logger(o, log) }} {
		if err = step(&o); err != nil {
			return o, err
		}
	}
	o.MaxConnections = int(f.maxConnections)
	o.ShutdownDelay = time.Duration(f.shutdownDelay)
	o.Drain, o.Version = time.Duration(f.drain), version()
	return o, nil
}

func (f *serveFlags) rules(o *serve.Options) error {
	switch {
	case f.limit == "" && f.given("limit"):
		return usagef("--limit is empty; want a policy such as \"gcra 100/m burst=20\"")
	case f.config == "" && f.given("config"):
		return usagef("--config is empty; name a file or leave it out")
	case f.limit == "" && f.config == "":
		return usagef("no rules; want --limit \"gcra 100/m burst=20\", or --config limits.yaml")
	case f.limit != "" && f.config != "":
		return usagef("--limit and --config exclude each other; write the limit into the file")
	case f.config != "":
		for _, flag := range [...]string{"by", "trust"} {
			if f.given(flag) {
				return usagef("--%s needs --limit; with --config, set it in the file", flag)
			}
		}
		o.Read = func(ctx context.Context) (*config.File, error) {
			return await(ctx, func() (*config.File, error) { return config.Read(f.config) })
		}
		return statConfig(f.config)
	}
	file, err := f.oneRule()
	o.Read = func(context.Context) (*config.File, error) { return file, nil }
	return err
}

// oneRuleName is the name of the rule of --limit.
const oneRuleName = "default"

func (f *serveFlags) oneRule() (*config.File, error) {
	policy, err := compose.ParseRulePolicy(f.limit)
	if err != nil {
		if _, other := compose.ParsePolicy(f.limit); other == nil { // cost= is the only fault
			return nil, usagef("--limit %s: --limit takes no cost=; write a limits.yaml with the field cost beside policy, and use --config", errtext.Quote(f.limit))
		}
		return nil, usagef("--limit: %s", withoutPackage(err))
	}
	rule := config.Rule{Name: oneRuleName, Policy: policy, Cost: config.Cost{Units: 1}}
	if rule.By, err = config.ParseFields(f.by); err != nil {
		return nil, usagef("--by: %v", err)
	}
	file := &config.File{Rules: []config.Rule{rule}}
	if f.given("trust") && len(f.trust) == 0 {
		return nil, usagef("--trust is empty; want the addresses of your own proxies, such as 10.0.0.0/24, or leave it out")
	}
	for _, text := range f.trust {
		prefix, err := config.ParseTrusted(strings.TrimSpace(text))
		if err != nil {
			return nil, usagef("--trust: %v", err)
		}
		file.Trusted = append(file.Trusted, prefix)
	}
	return file, nil
}

func (f *serveFlags) proxy(o *serve.Options) error {
	if f.upstream == "" {
		if f.given("upstream") {
			return usagef("--upstream is empty; want the program behind the proxy, such as http://localhost:3000")
		}
		for _, flag := range [...]string{"trust", "listen", "upstream-host", "upstream-timeout", "client-timeout", "min-body-rate", "body-grace", "max-body", "legacy-fields"} {
			if f.given(flag) {
				return usagef("--%s needs --upstream, the program behind the proxy, such as http://localhost:3000", flag)
			}
		}
		return nil
	}
	if strings.HasPrefix(f.listen, "unix:") {
		return usagef("--listen %s: a unix socket has no client address; want HOST:PORT or :PORT", f.listen)
	}
	if err := serve.CheckListen(f.listen); err != nil {
		return usagef("--listen %v", err)
	}
	u, err := parseUpstream(f.upstream)
	if err != nil {
		return err
	}
	if err := serve.CheckUpstream(u, f.listen); err != nil {
		return usagef("--upstream %v", err)
	}
	if t := time.Duration(f.clientTimeout); t != 0 && (t < serve.MinClientTimeout || t > serve.MaxClientTimeout) {
		return usagef("--client-timeout %s: want %s to %s, such as 1m, or 0s for never", f.clientTimeout.String(),
			algo.FormatDuration(serve.MinClientTimeout), algo.FormatDuration(serve.MaxClientTimeout))
	}
	if g := time.Duration(f.bodyGrace); g < serve.MinClientTimeout || g > serve.MaxClientTimeout {
		return usagef("--body-grace %s: want %s to %s, such as 10s; to allow any rate, want --min-body-rate 0", f.bodyGrace.String(),
			algo.FormatDuration(serve.MinClientTimeout), algo.FormatDuration(serve.MaxClientTimeout))
	}
	o.MinBodyRate, o.BodyGrace = int64(f.minBodyRate), time.Duration(f.bodyGrace)
	o.Upstream, o.Listen, o.UpstreamHost = u, f.listen, f.upstreamHost
	o.UpstreamTimeout, o.ClientTimeout = time.Duration(f.upstreamTimeout), time.Duration(f.clientTimeout)
	o.MaxBody, o.Legacy = int64(f.maxBody), f.legacy
	return nil
}

func parseUpstream(text string) (*url.URL, error) {
	shown := "--upstream"
	if !strings.ContainsAny(text, "@?") { // otherwise it may contain a password
		shown += " " + errtext.Quote(text)
	}
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return nil, usagef("%s: the URL has no scheme; want http:// or https:// in front, such as http://localhost:3000", shown)
	case err != nil:
		return nil, usagef("%s: not a valid URL; want a URL such as http://localhost:3000", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, usagef("%s: the scheme is not supported; want http or https, such as http://localhost:3000", shown)
	case u.Hostname() == "":
		return nil, usagef("%s: the URL has no host; want a URL such as http://localhost:3000", shown)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("--upstream: want only a scheme, a host and a path, such as http://localhost:3000/app")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, usagef("--upstream: invalid port %s; want 1 to 65535, such as http://localhost:3000", port)
		}
	}
	return u, nil
}

func (f *serveFlags) service(o *serve.Options) (err error) {
	o.API = f.api
	switch {
	case f.given("api") && f.api == "":
		return usagef("--api is empty; want HOST:PORT or unix:PATH, or leave it out")
	case f.api == "" && f.upstream == "":
		o.API = defaultAPI
	case f.api == "" && f.given("token-file"):
		return usagef("--token-file needs --api; only the API checks the token")
	case f.api == "":
		return nil
	}
	if f.given("token-file") {
		if o.Token, err = readToken(f.tokenFile); err != nil {
			return err
		}
	}
	if err := serve.CheckAPI(o.API, o.Token); err != nil {
		return usagef("--api %v", err)
	}
	if f.upstream != "" {
		if err := serve.CheckApart(f.listen, f.api); err != nil {
			return usagef("--api %v", err)
		}
	}
	return nil
}

const (
	minToken = 16 // enough for a random token
	maxToken = 4 << 10
)

func readToken(file string) (string, error) {
	if _, err := statFile(file, "a file with one token, for instance from openssl rand -hex 32", "a file in it"); err != nil {
		return "", usagef("--token-file: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", usagef("--token-file: %w; let sluice read the file, or name another", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", usagef("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case len(text) > maxToken:
		return "", usagef("--token-file %s: the file has more than %d bytes; want one token, for instance from openssl rand -hex 32", file, maxToken)
	case len(token) < minToken:
		return "", usagef("--token-file %s: the token has %d characters; want at least %d, for instance from openssl rand -hex 32", file, len(token), minToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usagef("--token-file %s: want one token of printable ASCII, without spaces", file)
	}
	return token, nil
}

// storeVariable is the environment variable with the address of the store. Unlike a flag, process
// lists do not show it.
const storeVariable = "SLUICE_STORE"

// storeAddress returns the address of the store, and the name of the flag or variable.
func (f *serveFlags) storeAddress() (address, from string) {
	if address := os.Getenv(storeVariable); address != "" && !f.given("store") {
		return address, storeVariable
	}
	return f.store, "--store"
}

func (f *serveFlags) storage(o *serve.Options) error {
	store, from := f.storeAddress()
	if err := serve.CheckStore(store); err != nil {
		return usagef("%s %v", from, err)
	}
	if f.given("max-keys") && !strings.HasPrefix(store, "memory:") {
		return usagef("--max-keys is for the store memory: only, and the store is %s; leave --max-keys out", strings.SplitN(store, ":", 2)[0])
	}
	switch f.onFailure {
	case "closed":
		o.OnFailure = compose.FailClosed
	case "open":
		o.OnFailure = compose.FailOpen
	case "local":
		o.OnFailure = compose.FailLocal
	default:
		return usagef("--on-failure %q: want closed, open or local", f.onFailure)
	}
	if f.maxKeys == 0 {
		return usagef("--max-keys 0: want at least 1")
	}
	switch {
	case f.decisionTimeout == 0:
		return usagef("--decision-timeout 0s: want a duration above 0s, such as 1s")
	case time.Duration(f.decisionTimeout) > serve.MaxDecisionTimeout:
		return usagef("--decision-timeout %v: want at most %s, such as 1s", f.decisionTimeout.String(), algo.FormatDuration(serve.MaxDecisionTimeout))
	}
	o.Store, o.StoreFrom, o.MaxKeys, o.Namespace = store, from, int(f.maxKeys), f.namespace
	o.NoFunctions, o.DecisionTimeout = f.noFunctions, time.Duration(f.decisionTimeout)
	o.CircuitOpenAfter, o.DenialCacheTTL = zeroIsOff(f.circuitOpenAfter), zeroIsOff(f.denialCacheTTL)
	return nil
}

// zeroIsOff translates a flag to an option of package compose, where 0 is the default and a negative
// value is off.
func zeroIsOff(d durationFlag) time.Duration {
	if d == 0 {
		return -1
	}
	return time.Duration(d)
}

func (f *serveFlags) logger(o *serve.Options, w io.Writer) error {
	var level slog.Level
	switch f.logLevel {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(f.logLevel)) // it accepts these four words
	default:
		return usagef("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		o.Log = slog.New(slog.NewTextHandler(w, options))
	case "json":
		o.Log = slog.New(slog.NewJSONHandler(w, options))
	default:
		return usagef("--log-format %q: want text or json", f.logFormat)
	}
	return nil
}
