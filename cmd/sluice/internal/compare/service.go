package compare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
)

// Service handles the requests of the page. It keeps the last logs that were read. It is safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	logs   []namedStream // the newest last
	sample func() (simulate.Stream, error)
}

type namedStream struct {
	id     string
	stream simulate.Stream
}

// maxLogs is how many logs a Service keeps.
const maxLogs = 3

// NewService returns a Service without logs.
func NewService() *Service {
	return &Service{sample: sync.OnceValues(func() (simulate.Stream, error) {
		stream, _, err := simulate.FromLog(context.Background(), accesslog.FromReader(sample.Name, sample.Open()))
		return stream, err
	})}
}

// Progress is called with the finished share of the work, from 0 to 1.
type Progress func(share float64)

// Call runs a method. body is JSON, or the bytes of a log. The result is to be encoded as JSON.
// Errors are for people.
func (s *Service) Call(ctx context.Context, method string, body io.Reader, progress Progress) (any, error) {
	switch method {
	case "compare":
		return decoded(body, func(q *Query) (*Comparison, error) { return s.compare(ctx, q, progress) })
	case "explain":
		return decoded(body, func(e *ExplainRequest) (*Decision, error) { return s.explain(ctx, e, progress) })
	case "trace":
		return decoded(body, func(e *ExplainRequest) (*Text, error) { return s.trace(ctx, e) })
	case "rules":
		return decoded(body, func(q *Query) (*Text, error) { return rules(q) })
	case "log":
		return s.readLog(ctx, body)
	}
	return nil, fmt.Errorf("unknown method %q; want compare, explain, trace, rules or log", method)
}

// Response encodes what [Service.Call] returned: {"result":...}, or {"error":TEXT} without the name of the package that reads logs.
func Response(result any, err error) []byte {
	response := map[string]any{"result": result}
	if err != nil {
		response = map[string]any{"error": strings.TrimPrefix(err.Error(), "accesslog: ")}
	}
	text, err := json.Marshal(response)
	if err != nil {
		return []byte(`{"error":"the response cannot be encoded"}`)
	}
	return text
}

// decoded decodes the body, which must begin with a JSON value without unknown members.
func decoded[Q, R any](body io.Reader, handle func(*Q) (R, error)) (any, error) {
	request := new(Q)
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(request); err != nil {
		return nil, fmt.Errorf("the body is not valid JSON for this method: %w", err)
	}
	return handle(request)
}

// Log is an access log that the service has read.
type Log struct {
	ID       string `json:"id"`
	Requests int    `json:"requests"`
	Clients  int    `json:"clients"`
	Skipped  int64  `json:"skipped"` // lines that are not requests
	Late     int64  `json:"late"`    // lines that were more than a minute out of order

	NoAddress int64  `json:"no_address"` // requests with a client that is no address
	Damage    string `json:"damage"`     // of a gzip file that ends early; empty: none
}

// readLog reads a log and keeps its requests, but not its text.
func (s *Service) readLog(ctx context.Context, body io.Reader) (*Log, error) {
	sum := sha256.New()
	stream, stats, err := simulate.FromLog(ctx, accesslog.FromReader("the log", io.TeeReader(body, sum)))
	if err != nil {
		return nil, err
	}
	damage := ""
	if len(stats.Damaged) > 0 {
		damage = stats.Damaged[0].Problem
	}
	id := hex.EncodeToString(sum.Sum(nil))[:16]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = slices.DeleteFunc(s.logs, func(l namedStream) bool { return l.id == id })
	s.logs = append(s.logs, namedStream{id, stream})
	s.logs = s.logs[max(0, len(s.logs)-maxLogs):]
	return &Log{ID: id, Requests: len(stream.Arrivals), Clients: len(stream.Clients), Skipped: stats.Skipped, Late: stats.Late, NoAddress: stats.NoAddress, Damage: damage}, nil
}

// logged returns the requests of a log that was read before.
func (s *Service) logged(ctx context.Context, id string) (simulate.Stream, error) {
	if id == "" {
		return s.sample()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		if l.id == id {
			return l.stream, ctx.Err()
		}
	}
	return simulate.Stream{}, errors.New("the log of this address is no longer in memory; drop the file onto the page again")
}
