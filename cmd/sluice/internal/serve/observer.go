package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/observe"
	"github.com/sluice-go/sluice/storage/memory"
)

// observer returns the Observer for the limiters of one side, or nil if nothing would use
// it, because limiters are faster without one.
func (s *Server) observer(side string) func(compose.Event) {
	var observers []func(compose.Event)
	if s.options.API != "" {
		observers = append(observers, s.metrics.decisions.Observer(side), s.denied.Observe)
	}
	if _, ok := s.store.Store.(*memory.Store); !ok {
		observers = append(observers, func(e compose.Event) { logFailure(s.sampled, side, &e) })
	}
	return observe.Each(observers...)
}

// The sides, each with its own limiters.
const (
	proxySide   = "proxy"
	serviceSide = "service"
)

// logFailure logs a decision that failed or was degraded. The decision service logs its
// own failures itself.
func logFailure(log *slog.Logger, side string, e *compose.Event) {
	if e.Err == nil || errors.Is(e.Err, context.Canceled) || side == serviceSide && e.Outcome == compose.Failed {
		return
	}
	level, message := slog.LevelWarn, "the store failed"
	if p := problemOfError(e.Err); p.Status == http.StatusInternalServerError {
		level, message = slog.LevelError, "a limit cannot be decided"
	}
	args := []any{"side", side, "op", string(e.Op), "outcome", string(e.Outcome)}
	log.Log(context.Background(), level, message, append(args, logAttributes(e.Err)...)...)
}

// logAttributes are the attributes that the log shows for an error. For a rule that cannot
// read its states they include the rule and the remedy.
func logAttributes(err error) []any {
	args := []any{"error", withoutKey(err)}
	var of *compose.RuleError
	if errors.As(err, &of) && (errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion)) {
		args = append(args, "rule", of.Rule, "remedy", newName)
	}
	return args
}

// withoutKey removes the key from the error of a decision, because it may be a secret.
func withoutKey(err error) error {
	var of *compose.RuleError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
