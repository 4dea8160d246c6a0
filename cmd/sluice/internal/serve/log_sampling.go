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

// How often the same message is logged.
var (
	failureSamples    = gcra.Options{Limit: algo.Per(1, 10*time.Second), Burst: 3}
	forwardingSamples = gcra.Options{Limit: algo.Per(1, time.Minute)}
)

// sampleLog returns a log that writes each message no more often than the limit allows. The
// next one that it writes says how many it omitted. It remembers messages, which are few,
// because they are constants of this program, and not their attributes.
func sampleLog(log *slog.Logger, limit gcra.Options) *slog.Logger {
	policy, err := gcra.New(limit)
	if err != nil {
		panic(err) // the options are constants
	}
	limiter, err := compose.New(nil, compose.Rule[string]{Name: "message", Key: func(m string) string { return m }, Policy: policy})
	if err != nil {
		panic(err)
	}
	return slog.New(&samplingHandler{Handler: log.Handler(), samples: &samples{limiter: limiter, omitted: make(map[string]int)}})
}

type samplingHandler struct {
	slog.Handler
	*samples
}

// samples counts how often each message was omitted since it was last written.
type samples struct {
	limiter *compose.Limiter[string]
	mu      sync.Mutex
	omitted map[string]int
}

// Handle implements slog.Handler.
func (h *samplingHandler) Handle(ctx context.Context, r slog.Record) error {
	omitted, ok := h.take(r.Message)
	if !ok {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return h.Handler.Handle(ctx, r)
}

// take reports whether to write the message, and how many were omitted before it.
func (s *samples) take(message string) (omitted int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not the request's context: a failure is logged also when the request is over.
	d, err := s.limiter.Allow(context.Background(), message)
	if err == nil && !d.Allowed {
		s.omitted[message]++
		return 0, false
	}
	omitted = s.omitted[message]
	delete(s.omitted, message)
	return omitted, true
}

// WithAttrs implements slog.Handler.
func (h *samplingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &samplingHandler{h.Handler.WithAttrs(attrs), h.samples}
}

// WithGroup implements slog.Handler.
func (h *samplingHandler) WithGroup(name string) slog.Handler {
	return &samplingHandler{h.Handler.WithGroup(name), h.samples}
}
