package simulate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// maxLogged is the largest number of requests that FromLog returns.
const maxLogged = 1_000_000

// FromLog returns the requests of an access log, and the counts of its lines. The clients are
// addresses. FromLog reads a log with too many requests to its end, because a browser
// that uploads the log reads no answer before.
func FromLog(ctx context.Context, input accesslog.Input) (Stream, accesslog.Stats, error) {
	return fromLog(ctx, maxLogged, input)
}

// fromLog is FromLog for at most that many requests.
func fromLog(ctx context.Context, most int, input accesslog.Input) (Stream, accesslog.Stats, error) {
	keyer, _ := accesslog.ParseKeyer("ip") // the field is known
	var s Stream
	numbers := make(map[string]int32)
	requests := 0
	stats, err := accesslog.Read(ctx, []accesslog.Input{input}, accesslog.Options{Reorder: accesslog.DefaultReorder, Fields: accesslog.IP}, func(e *accesslog.Entry) error {
		if requests++; requests > most {
			return nil
		}
		key := keyer.Key(e)
		number, known := numbers[string(key)]
		if !known {
			number = int32(len(s.Clients))
			numbers[string(key)] = number
			s.Clients = append(s.Clients, string(key))
		}
		s.Arrivals = append(s.Arrivals, Arrival{At: algo.Instant(e.Time), Client: number})
		return nil
	})
	if err = cmp.Or(err, stats.CheckAddresses()); err != nil {
		return Stream{}, stats, err
	}
	if requests > most {
		return Stream{}, stats, fmt.Errorf("the log has %d requests, but at most %d can be simulated here; use a shorter log, or sluice replay", requests, most)
	}
	if requests == 0 {
		return Stream{}, stats, fmt.Errorf("the log is empty; choose another log")
	}
	return s, stats, nil
}
