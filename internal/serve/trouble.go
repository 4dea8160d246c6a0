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

// observer is what the limiters of one side are watched by; nil where there is
// nobody to tell and nothing that fails, for then they are quicker.
func (s *Server) observer(side string) func(compose.Event) {
	var watchers []func(compose.Event)
	if s.options.API != "" {
		watchers = append(watchers, s.metrics.decisions.Observer(side), s.denied.Observe)
	}
	if _, ok := s.store.Store.(*memory.Store); !ok {
		watchers = append(watchers, func(e compose.Event) { tellTrouble(s.sparse, side, &e) })
	}
	return observe.Each(watchers...)
}

// The sides that ask limiters.
const (
	proxySide   = "proxy"
	serviceSide = "service"
)

// tellTrouble logs what could not be decided as it should. Of its own failures the
// decision service tells by itself.
func tellTrouble(log *slog.Logger, side string, e *compose.Event) {
	if e.Err == nil || errors.Is(e.Err, context.Canceled) || side == serviceSide && e.Outcome == compose.Failed {
		return
	}
	level, message := slog.LevelWarn, "the store failed"
	if p := problemOfError(e.Err); p.Status == http.StatusInternalServerError {
		level, message = slog.LevelError, "a limit is at fault"
	}
	args := []any{"side", side, "op", string(e.Op), "outcome", string(e.Outcome)}
	log.Log(context.Background(), level, message, append(args, inLog(e.Err)...)...)
}

// inLog is what the log says of an error: of a rule that cannot read its states, which
// it is and what to do, too.
func inLog(err error) []any {
	args := []any{"error", withoutKey(err)}
	var of *compose.RuleError
	if errors.As(err, &of) && (errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion)) {
		args = append(args, "rule", of.Rule, "remedy", newName)
	}
	return args
}

// withoutKey is the error of a decision without the key that it was about, which
// may be a secret.
func withoutKey(err error) error {
	var of *compose.RuleError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
