package serve

import (
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage/memory"
)

// How often the same message is logged.
const (
	failureSamples    = "gcra 1/10s burst=3"
	forwardingSamples = "gcra 1/m"
)

// sampler is the handler of a log that writes each message no more often than its limit allows. The next one that
// it writes says how many it omitted. It remembers messages, which are few, because they are constants of
// this program, and not their attributes.
type sampler struct {
	slog.Handler
	limiter *sluice.Limiter[string]
	mu      sync.Mutex
	omitted map[string]int // how often each message was omitted since it was last written
}

func sampleLog(log *slog.Logger, limit string) *slog.Logger {
	limiter, err := sluice.New(nil, limit)
	if err != nil {
		panic(err) // the limits are constants
	}
	return slog.New(&sampler{Handler: log.Handler(), limiter: limiter, omitted: make(map[string]int)})
}

// Handle implements slog.Handler.
func (h *sampler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	d, err := h.limiter.Allow(context.Background(), r.Message)
	isOmitted := err == nil && !d.Allowed
	n := h.omitted[r.Message]
	if isOmitted {
		h.omitted[r.Message]++
	} else {
		delete(h.omitted, r.Message)
	}
	h.mu.Unlock() // before the log is written, so that no omitted message waits for a slow log
	if isOmitted {
		return nil
	}
	if n > 0 {
		r.AddAttrs(slog.Int("omitted", n))
	}
	return h.Handler.Handle(ctx, r)
}

// takeStandardLog redirects package log, to which libraries write, to this log: each line
// becomes a warning. Package log is one for the whole process.
func takeStandardLog(log *slog.Logger) {
	stdlog.SetOutput(errorLines{sampleLog(log, failureSamples), "message from a library"})
	stdlog.SetFlags(0)
}

// errorLog is the ErrorLog for net/http. All lines have one message, so that sampling keeps
// clients that break connections from filling the log.
func errorLog(log *slog.Logger, message string) *stdlog.Logger {
	return stdlog.New(errorLines{log, message}, "", 0)
}

// errorLines logs lines without the addresses of connections, because they are keys.
type errorLines struct {
	log     *slog.Logger
	message string
}

// Write implements io.Writer.
func (l errorLines) Write(line []byte) (int, error) {
	l.log.Warn(l.message, "error", withoutAddresses(readable.Unquoted(strings.TrimSpace(string(line)))))
	return len(line), nil
}

// address is as net.Addr has that of a connection.
var address = regexp.MustCompile(`(\d+(\.\d+){3}|\[[^\]\s]*:[^\]\s]*\]):\d+`)

// withoutAddresses removes the addresses of connections from text.
func withoutAddresses(text string) string { return address.ReplaceAllLiteralString(text, "...") }

// observer returns the Observer for the limiters of one side, or nil if nothing would use
// it, because limiters are faster without one.
func (s *Server) observer(side string) func(context.Context, sluice.Event) {
	var observers []func(context.Context, sluice.Event)
	if s.options.API != "" {
		observers = append(observers, s.metrics.decisions.Observer(side), s.denied.Observe)
	}
	if _, ok := s.store.Store.(*memory.Store); !ok {
		observers = append(observers, func(_ context.Context, e sluice.Event) { logFailure(s.sampled, side, &e) })
	}
	return observe.Each(observers...)
}

// The sides, each with its own limiters.
const (
	proxySide   = "proxy"
	serviceSide = "service"
)

// logFailure logs a decision that failed or was degraded, unless its client has left. Each kind of problem has its own message, so that
// sampling does not omit one kind because of another.
func logFailure(log *slog.Logger, side string, e *sluice.Event) {
	if e.Err == nil || errors.Is(e.Err, context.Canceled) {
		return
	}
	p, level := problemOfError(e.Err), slog.LevelWarn
	if p.Status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	args := []any{"side", side, "op", string(e.Op), "outcome", string(e.Outcome), "applied", p.Applied}
	log.Log(context.Background(), level, "a decision failed: "+p.Title, append(args, logAttributes(e.Err)...)...)
}

// errorText returns the text of an error of a store for the log. The texts of stores contain no keys. Errors of code
// in the database can: those that a trigger raises, and those of PostgreSQL about a value that cannot be converted. Only
// their codes are shown.
func errorText(err error) string {
	text := err.Error()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !strings.HasPrefix(pg.Message, "sluice: ") && (pg.Routine == "exec_stmt_raise" || strings.HasPrefix(pg.Code, "22")) {
		return strings.ReplaceAll(text, pg.Message, "...")
	}
	if raised, ok := stores.TextOfTrigger(err); ok {
		return strings.ReplaceAll(text, raised, "a trigger of the table refuses the write")
	}
	return text
}

// logAttributes returns the attributes that the log shows for an error of a decision: not the key,
// which may be a secret. For a rule that cannot read its states they include the rule and the remedy.
func logAttributes(err error) []any {
	var of *sluice.RuleError
	if !errors.As(err, &of) {
		return []any{"error", errorText(err)}
	}
	args := []any{"error", errorText(of.Err)}
	if errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion) {
		args = append(args, "rule", of.Rule, "remedy", unreadableRemedy)
	}
	return args
}
