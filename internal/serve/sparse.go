package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
)

// sparsely is a log that says the same at most three times at once and then once
// every ten seconds, and how often it did not say it.
func sparsely(log *slog.Logger) *slog.Logger {
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(1, 10*time.Second), Burst: 3})
	if err != nil {
		panic(err) // the options are constants
	}
	limiter, err := compose.New(nil, compose.Rule[string]{Name: "message", Key: func(m string) string { return m }, Policy: policy})
	if err != nil {
		panic(err)
	}
	return slog.New(&sparse{Handler: log.Handler(), unsaid: &unsaid{limiter: limiter, count: make(map[string]int)}})
}

type sparse struct {
	slog.Handler
	*unsaid
}

// unsaid is what was not said of each message. Messages are few: constants of
// this program.
type unsaid struct {
	limiter *compose.Limiter[string]
	mu      sync.Mutex
	count   map[string]int
}

// Handle implements slog.Handler.
func (s *sparse) Handle(ctx context.Context, r slog.Record) error {
	omitted, say := s.say(r.Message)
	if !say {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return s.Handler.Handle(ctx, r)
}

func (u *unsaid) say(message string) (omitted int, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	// A context of its own: what went wrong is worth saying when the request is over.
	d, err := u.limiter.Allow(context.Background(), message)
	if err == nil && !d.Allowed {
		u.count[message]++
		return 0, false
	}
	omitted = u.count[message]
	delete(u.count, message)
	return omitted, true
}

// WithAttrs implements slog.Handler.
func (s *sparse) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparse{s.Handler.WithAttrs(attrs), s.unsaid}
}

// WithGroup implements slog.Handler.
func (s *sparse) WithGroup(name string) slog.Handler {
	return &sparse{s.Handler.WithGroup(name), s.unsaid}
}
