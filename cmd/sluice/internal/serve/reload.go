package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// readTime limits the reading of the rules at a reload. A read that blocks, such as of a pipe
// without a writer, must not block later reloads.
const readTime = 30 * time.Second

// Reload reads the rules again and uses them from the next request on. If it fails, the old
// rules stay in force. Quota that was used stays used. If ctx ends before the rules are read,
// Reload returns its error and logs nothing.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock() // also while it reads: of two reloads the later reading must win
	defer s.reloading.Unlock()
	read, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	file, err := s.options.Read(read)
	if err == nil {
		err = s.applyRules(ctx, file)
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the rules could not be read within %v; check the file and its file system, then reload again", readTime)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.metrics.reloads.WithLabelValues(failed).Inc()
		s.logReloadFailure(err)
		return err
	}
	s.metrics.reloads.WithLabelValues(succeeded).Inc()
	s.log.Info("reloaded", "rules", len(file.Rules))
	s.logUntrusting(file)
	return nil
}

// logReloadFailure logs one line for each error.
func (s *Server) logReloadFailure(err error) {
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

// applyRules puts the rules of file into force, unless the store will never decide under them. Only one goroutine may
// call it at a time.
func (s *Server) applyRules(ctx context.Context, file *config.File) error {
	l, err := s.newLimiters(file)
	if err != nil {
		return err
	}
	if s.transport != nil {
		l.handler = s.proxyHandler(l)
	}
	if !s.missing.Load() {
		within, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		if err := l.probe.run(within); err != nil && isPermanent(err) {
			return err
		}
	}
	s.metrics.rules.Set(float64(len(file.Rules)))
	s.metrics.read.SetToCurrentTime()
	s.current.Store(l)
	return nil
}

// logUntrusting logs a warning if rules limit by address and no proxy is trusted.
func (s *Server) logUntrusting(file *config.File) {
	if s.transport == nil {
		return
	}
	if names := file.LacksTrusted(); len(names) > 0 {
		s.log.Warn(rules.NoTrustedProxy, "rules", names, "remedy", "add the proxy's address to trusted in the rules, or to --trust")
	}
}

// unreadableRemedy is the remedy for a rule that cannot read its states.
const unreadableRemedy = "reset the key, give the rule a new name, or start with another --namespace (with --limit only the latter works)"
