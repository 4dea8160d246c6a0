package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// readTime limits the reading of the rules at a reload. A read that blocks, such as of a pipe
// without a writer, must not block later reloads.
const readTime = 30 * time.Second

// Reload reads the rules again and uses them from the next request on. If it fails, the old
// rules stay in force. Quota that was used stays used. If ctx ends before the rules are read,
// Reload returns its error and logs nothing.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	file, err := s.readAgain(ctx) // under the lock: of two reloads the later reading must win
	if err == nil {
		err = s.adopt(ctx, file)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.metrics.reloads.WithLabelValues(failed).Inc()
		s.tellFaults(err)
		return err
	}
	s.metrics.reloads.WithLabelValues(succeeded).Inc()
	s.log.Info("reloaded", "rules", len(file.Rules))
	s.logUntrusting(file)
	return nil
}

func (s *Server) readAgain(ctx context.Context) (*config.File, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	file, err := s.options.Read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the rules could not be read within %v; check the file and its file system, then reload again", readTime)
	}
	return file, err
}

// tellFaults logs one line for each error.
func (s *Server) tellFaults(err error) {
	const message = "reload failed; the old rules stay in force"
	var faults *config.Error
	if !errors.As(err, &faults) {
		s.log.Error(message, "error", err)
		return
	}
	for _, f := range faults.Faults {
		s.log.Error(message, "file", faults.File, "line", f.Line, "field", f.Field, "problem", f.Problem)
	}
}

// adopt puts the rules of file into force. Only one goroutine may call it at a time.
func (s *Server) adopt(ctx context.Context, file *config.File) error {
	fingerprints, err := mergeFingerprints(file.Rules, s.fingerprints)
	if err != nil {
		return err
	}
	store := s.store.Store
	if s.missing.Load() {
		store = missingStore{}
	}
	l, err := s.base.limits(store, file)
	if err != nil {
		return err
	}
	if s.behind != nil {
		if l.front, err = s.behind.front(l); err != nil {
			return err
		}
	}
	if !s.missing.Load() {
		if err := s.recordFingerprints(ctx, file.Rules); err != nil {
			return err
		}
		s.fingerprints = fingerprints // nothing is stored while the store is missing
	}
	s.metrics.rules.Set(float64(len(file.Rules)))
	s.metrics.read.SetToCurrentTime()
	s.current.Store(l)
	return nil
}

// logUntrusting logs a hint if rules limit by address and no proxy is trusted.
func (s *Server) logUntrusting(file *config.File) {
	if s.behind == nil {
		return
	}
	if rules := file.LacksTrusted(); len(rules) > 0 {
		s.log.Info("no proxy is trusted; if requests come through a proxy, all clients share one limit by ip", "rules", rules,
			"remedy", "add the proxy's address to trusted in the rules, or to --trust")
	}
}
