package serve

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/errtext"
)

// serveFlags has the flags of sluice serve. Most of them set an option directly.
type serveFlags struct {
	Options
	limit, by, config   string
	trust               []string
	upstream            string
	tokenFile           string
	onFailure           string
	logFormat, logLevel string
	flags               *pflag.FlagSet
}

// defaultAPI is the address of the decision service if there is no proxy.
const defaultAPI = "127.0.0.1:8081"

func (f *serveFlags) Define(flags *pflag.FlagSet) {
	flags.StringVar(&f.limit, "limit", "", "the `POLICY` of the one rule, such as \"gcra 100/m burst=20\"; for several rules, use --config")
	flags.StringVar(&f.by, "by", "ip", "the key of --limit, `FIELDS`: ip, user, method, path, host, header:NAME, cookie:NAME, or several joined by +; everything: all requests share one limit")
	flags.StringSliceVar(&f.trust, "trust", nil, "with --limit and --upstream, the `PREFIXES` of your own proxies, such as 10.0.0.0/24, whose X-Forwarded-For is trusted")
	flags.StringVar(&f.config, "config", "", "read the rules from this `FILE`, a limits.yaml, instead of --limit; SIGHUP reads it again")

	flags.StringVar(&f.upstream, "upstream", "", "run a reverse proxy that limits requests to this `URL`, such as http://localhost:3000; an upstream that speaks only HTTP/2, as many gRPC servers do, needs https")
	flags.StringVar(&f.Listen, "listen", "127.0.0.1:8080", "the `ADDRESS` of the proxy: HOST:PORT, or :PORT for all network interfaces")
	flags.BoolVar(&f.UpstreamHost, "upstream-host", false, "send the host name of --upstream as Host, instead of the client's Host")
	flags.DurationVar(&f.UpstreamTimeout, "upstream-timeout", 0, "answer 504 if the upstream neither reads a request body nor begins its response for this time; 0s is no limit")
	flags.DurationVar(&f.ClientTimeout, "client-timeout", time.Minute, "close a connection if the client sends no byte of a request body for this time, or reads no byte of the response for 10 times as long; 1s to 24h, 0s is never")
	flags.Int64Var(&f.MinBodyRate, "min-body-rate", defaultMinBodyRate, "answer 408 to clients that send a request body at less than `N` bytes a second; 0 is any rate")
	flags.DurationVar(&f.BodyGrace, "body-grace", defaultBodyGrace, "how late a request body may be, compared with --min-body-rate, before the client gets 408; 1s to 24h")
	flags.Int64Var(&f.MaxBody, "max-body", 0, "refuse requests with a body of more than `N` bytes; 0 is no limit")
	flags.BoolVar(&f.Legacy, "legacy-fields", false, "also send X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset; if the upstream sends them too, the client gets the three fields of the limit with less remaining")

	flags.StringVar(&f.API, "api", "", "the `ADDRESS` of the decision service: HOST:PORT or unix:PATH (default: "+defaultAPI+", or no API if --upstream is set)")
	flags.StringVar(&f.tokenFile, "token-file", "", "callers of --api must send the token in this `FILE`; without it, --api must be a loopback address or a unix socket")

	flags.IntVar(&f.MaxConnections, "max-connections", defaultMaxConnections, "how many connections may be open at once, `N` for --listen and N for --api, and how many requests may be in progress in the proxy; further connections wait, and further requests get 503; 0 is no limit")
	flags.StringVar(&f.Store, "store", "memory:", "the `URL` of the store: memory:, sqlite:FILE, postgres://... or redis://...; without this flag, the URL in the environment variable "+stores.Variable)
	flags.BoolVar(&f.NoFunctions, "no-functions", false, "do not create functions in the PostgreSQL database; a decision then takes two or more round trips")
	flags.IntVar(&f.MaxKeys, "max-keys", 1<<20, "how many keys of each rule the store memory: holds, at about 70 bytes each")
	flags.StringVar(&f.Namespace, "namespace", "", "a `NAME` that separates these rules from rules of the same names in the same store")
	flags.StringVar(&f.onFailure, "on-failure", "closed", "`WHAT` to do when the store fails: closed answers 503, open allows all requests, local limits in the memory of this process")
	flags.DurationVar(&f.DecisionTimeout, "decision-timeout", time.Second, "how long a decision may take; after that the store counts as failed")
	flags.DurationVar(&f.CircuitOpenAfter, "circuit-open-after", time.Second, "circuit breaker: when the store has failed for this time, decisions fail at once, without waiting for --decision-timeout, until a probe succeeds; 0s turns it off")
	flags.DurationVar(&f.DenialCacheTTL, "denial-cache-ttl", time.Second, "how long a denial is cached; a key that was reset or refunded may still be denied for up to twice this time; 0s caches nothing")

	flags.DurationVar(&f.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long to keep serving after SIGTERM, while /readyz answers 503, before the listeners close")
	flags.DurationVar(&f.Drain, "drain", 10*time.Second, "how long requests in flight may take after --shutdown-delay, or after SIGINT")
	flags.StringVar(&f.logFormat, "log-format", "text", "the log's `FORMAT`: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "the lowest `LEVEL` that is logged: debug, info, warn or error")
	f.flags, f.Version = flags, cli.Version()
}

// options checks the flags and returns the options.
func (f *serveFlags) options(log io.Writer) (Options, error) {
	for _, step := range [...]func() error{f.checkGiven, f.rules, f.proxy, f.service, f.storage, func() error { return f.logger(log) }} {
		if err := step(); err != nil {
			return Options{}, err
		}
	}
	return f.Options, nil
}

// checkGiven checks which flags are given together.
func (f *serveFlags) checkGiven() error {
	switch {
	case f.limit == "" && f.config == "":
		return cli.Usagef("no rules; want --limit \"gcra 100/m burst=20\", or --config limits.yaml")
	case f.limit != "" && f.config != "":
		return cli.Usagef("--limit and --config exclude each other; write the limit into the file")
	case f.upstream != "" && f.API == "" && f.flags.Changed("token-file"):
		return cli.Usagef("--token-file needs --api; only the API checks the token")
	case f.flags.Changed("trust") && len(f.trust) == 0:
		return cli.Usagef("--trust is empty; want the addresses of your own proxies, such as 10.0.0.0/24, or leave it out")
	}
	if flags := cli.Given(f.flags, "by", "trust"); f.config != "" && len(flags) > 0 {
		return cli.Usagef("--%s needs --limit; with --config, set it in the file", flags[0])
	}
	return nil
}

func (f *serveFlags) rules() error {
	if f.config == "-" {
		return cli.Usagef("--config -: sluice serve reads the rules again on SIGHUP, which standard input does not allow; name a file")
	}
	if f.config != "" {
		f.Read = func(ctx context.Context) (*config.File, error) {
			return rules.Read(ctx, f.config)
		}
		return rules.Stat(f.config)
	}
	file, err := f.oneRule()
	f.Read = func(context.Context) (*config.File, error) { return file, nil }
	return err
}

func (f *serveFlags) oneRule() (*config.File, error) {
	policy, err := compose.ParsePolicy(f.limit)
	if err != nil {
		if _, other := costed.Parse(f.limit); other == nil { // cost= is the only fault
			return nil, cli.Usagef("--limit %s: --limit takes no cost=; write a limits.yaml with the field cost beside policy, and use --config", errtext.Quote(f.limit))
		}
		return nil, cli.Usagef("--limit: %s", cli.WithoutPackage(err))
	}
	rule := config.Rule{Name: "default", Policy: policy, Cost: config.Cost{Units: 1}}
	if rule.By, err = config.ParseFields(f.by); err != nil {
		return nil, cli.Usagef("--by: %v", err)
	}
	file := &config.File{Rules: []config.Rule{rule}}
	for _, text := range f.trust {
		prefix, err := config.ParseTrusted(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.Usagef("--trust: %v", err)
		}
		file.Trusted = append(file.Trusted, prefix)
	}
	return file, nil
}

func (f *serveFlags) proxy() (err error) {
	if f.upstream == "" {
		flags := cli.Given(f.flags, "trust", "listen", "upstream-host", "upstream-timeout", "client-timeout",
			"min-body-rate", "body-grace", "max-body", "legacy-fields")
		if len(flags) > 0 {
			return cli.Usagef("--%s needs --upstream, the program behind the proxy, such as http://localhost:3000", flags[0])
		}
		return nil
	}
	if strings.HasPrefix(f.Listen, "unix:") {
		return cli.Usagef("--listen %s: a unix socket has no client address; want HOST:PORT or :PORT", f.Listen)
	}
	if f.Upstream, err = parseUpstream(f.upstream); err != nil {
		return err
	}
	shortest, longest := algo.FormatDuration(minClientTimeout), algo.FormatDuration(maxClientTimeout)
	if t := f.ClientTimeout; t != 0 && (t < minClientTimeout || t > maxClientTimeout) {
		return cli.Usagef("--client-timeout %s: want %s to %s, such as 1m, or 0s for never", algo.FormatDuration(t), shortest, longest)
	}
	if g := f.BodyGrace; g < minClientTimeout || g > maxClientTimeout {
		return cli.Usagef("--body-grace %s: want %s to %s, such as 10s; to allow any rate, want --min-body-rate 0", algo.FormatDuration(g), shortest, longest)
	}
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
		return nil, cli.Usagef("%s: the URL has no scheme; want http:// or https:// in front, such as http://localhost:3000", shown)
	case err != nil:
		return nil, cli.Usagef("%s: not a valid URL; want a URL such as http://localhost:3000", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, cli.Usagef("%s: the scheme is not supported; want http or https, such as http://localhost:3000", shown)
	case u.Hostname() == "":
		return nil, cli.Usagef("%s: the URL has no host; want a URL such as http://localhost:3000", shown)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, cli.Usagef("--upstream: want only a scheme, a host and a path, such as http://localhost:3000/app")
	}
	if n, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16); err != nil || n == 0 {
		return nil, cli.Usagef("--upstream: invalid port %s; want 1 to 65535, such as http://localhost:3000", u.Port())
	}
	return u, nil
}

func (f *serveFlags) service() (err error) {
	if f.API == "" && f.upstream == "" {
		f.API = defaultAPI
	}
	if f.flags.Changed("token-file") {
		if f.Token, err = readToken(f.tokenFile); err != nil {
			return err
		}
	}
	if _, _, err := f.addresses(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

const minToken, maxToken = 16, 4 << 10 // the length of a token, the size of its file

func readToken(file string) (string, error) {
	if _, err := cli.StatFile(file, "a file with one token, for instance from openssl rand -hex 32", "a file in it"); err != nil {
		return "", cli.Usagef("--token-file: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", cli.Usagef("--token-file: %w; let sluice read the file, or name another", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1)) // the file can have no end
	if err != nil {
		return "", cli.Usagef("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case len(text) > maxToken:
		return "", cli.Usagef("--token-file %s: the file has more than %d bytes; want one token, for instance from openssl rand -hex 32", file, maxToken)
	case len(token) < minToken:
		return "", cli.Usagef("--token-file %s: the token has %d characters; want at least %d, for instance from openssl rand -hex 32", file, len(token), minToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", cli.Usagef("--token-file %s: want one token of printable ASCII, without spaces", file)
	}
	return token, nil
}

func (f *serveFlags) storage() (err error) {
	if f.Store, f.StoreFrom, err = stores.FromFlag(f.flags); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(f.Store, ":")
	var known bool
	f.OnFailure, known = map[string]sluice.FailurePolicy{
		"closed": sluice.FailClosed, "open": sluice.FailOpen, "local": sluice.FailLocal,
	}[f.onFailure]
	switch {
	case f.flags.Changed("max-keys") && kind != "memory":
		return cli.Usagef("--max-keys is for the store memory: only, and the store is %s; leave --max-keys out", kind)
	case !known:
		return cli.Usagef("--on-failure %q: want closed, open or local", f.onFailure)
	case f.MaxKeys == 0:
		return cli.Usagef("--max-keys 0: want at least 1")
	case f.DecisionTimeout == 0:
		return cli.Usagef("--decision-timeout 0s: want a duration above 0s, such as 1s")
	case f.DecisionTimeout > maxDecisionTimeout:
		return cli.Usagef("--decision-timeout %s: want at most %s, such as 1s", algo.FormatDuration(f.DecisionTimeout), algo.FormatDuration(maxDecisionTimeout))
	}
	// In package sluice 0 is the default, and a negative value is off.
	f.CircuitOpenAfter, f.DenialCacheTTL = cmp.Or(f.CircuitOpenAfter, -1), cmp.Or(f.DenialCacheTTL, -1)
	return nil
}

func (f *serveFlags) logger(w io.Writer) error {
	var level slog.Level
	if level.UnmarshalText([]byte(f.logLevel)) != nil {
		return cli.Usagef("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	handler, known := map[string]slog.Handler{"text": slog.NewTextHandler(w, options), "json": slog.NewJSONHandler(w, options)}[f.logFormat]
	if !known {
		return cli.Usagef("--log-format %q: want text or json", f.logFormat)
	}
	f.Log = slog.New(handler)
	return nil
}
