package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-go/sluice/internal/engine/breaker"
	"github.com/sluice-go/sluice/storage"
)

// isOutage reports whether an error means that the store cannot serve.
func isOutage(err error) bool {
	return !errors.Is(err, storage.ErrContended) &&
		(errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded))
}

// isUnreachable reports whether it was certain at once that no connection can be made: the server refused it, or there is no
// such socket or host. A timeout is not certain.
func isUnreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" && !op.Timeout() || errors.As(err, &dns) && !dns.Timeout()
}

// record gives the outcome of a round trip to the circuit breaker. began is when the round trip began. wrote says whether it wrote
// anything, if err is nil.
func (q *queue) record(began time.Time, err error, wrote bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	isShort := time.Since(began) < q.engine.options.Timeout
	switch {
	case errors.Is(err, context.Canceled) || isOutage(err) && breaker.IsTimeout(err) && isShort:
		q.breaker.CutShort(began)
	case isOutage(err):
		q.breaker.Failed(began, err)
		q.lastErr = err
	default:
		q.breaker.Succeeded(wrote)
		q.lastErr = nil
	}
}

// checkOutage returns an error while the circuit breaker is open, and starts its probes. The caller must hold q.mu.
func (q *queue) checkOutage(key string) error {
	probe, err := q.breaker.Admit()
	if probe {
		go q.probe(key)
	}
	if err != nil {
		return storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, err))
	}
	return nil
}

// probe asks the store to delete a record with a version that does not exist. The server must check
// whether it can write, and changes nothing.
func (q *queue) probe(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), max(q.engine.options.Timeout, probeTime))
	defer cancel()
	err := storage.ErrUnavailable // if the store panics
	defer func() {
		if _ = recover(); !isOutage(err) {
			err = nil
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.breaker.Probed(err)
	}()
	_, _, err = q.engine.store.CompareAndSwap(ctx, storage.Swap{Key: key, Old: storage.NewVersion()})
}
