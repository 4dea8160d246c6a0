package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/internal/trace"
)

// errReported means that a check found errors, and has already printed them.
var errReported = errors.New("errors were reported")

// peekSize is how many bytes of a file are read to detect a trace.
const peekSize = 64 << 10

// isTrace reports whether the first line that is not empty or a comment belongs to a trace.
func isTrace(first []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(first, []byte("\uFEFF"))) {
		words := bytes.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		return string(words[0]) == "policy" || string(words[0]) == "show" || words[0][0] == '@'
	}
	return false
}

func (p *plan) traces() (n int) {
	for _, s := range p.sources {
		if s.trace {
			n++
		}
	}
	return n
}

// firstOfEach returns the names of the first trace and the first log.
func (p *plan) firstOfEach() (trace, log string) {
	for _, s := range p.sources {
		switch {
		case s.trace && trace == "":
			trace = s.name
		case !s.trace && log == "":
			log = s.name
		}
	}
	return trace, log
}

func (p *plan) runTraces(ctx context.Context, traces int, s streams) error {
	first, other := p.firstOfEach()
	if traces < len(p.sources) {
		return usagef("%s is a trace and %s is a log; replay them in separate runs", first, other)
	}
	if err := p.checkTraceFlags(first); err != nil {
		return err
	}
	differ := false
	for i, src := range p.sources {
		t, err := await(ctx, func() (*trace.Trace, error) { return p.parseTrace(src) })
		if err != nil {
			return err
		}
		if p.check {
			found, err := check(t, s)
			if err != nil {
				return err
			}
			differ = differ || found
			continue
		}
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := printTrace(t, s); err != nil {
			return err
		}
	}
	if differ {
		return errReported
	}
	return nil
}

func (p *plan) parseTrace(src source) (*trace.Trace, error) {
	f, err := src.input.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trace.Parse(accesslog.Unzip(f), src.name)
	if err != nil || len(p.policies) == 0 {
		return t, err
	}
	return t.Under(p.policies...), nil
}

func check(t *trace.Trace, s streams) (differ bool, err error) {
	differences, err := t.Check()
	for _, d := range differences {
		fmt.Fprintln(s.out, d)
	}
	return len(differences) > 0, err
}

func printTrace(t *trace.Trace, s streams) error {
	ran, err := t.Run()
	if err != nil {
		return err
	}
	return ran.Format(s.out)
}
