package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/internal/trace"
)

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

// runTraces runs all sources. name is the name of the first one.
func (p *replayRun) runTraces(ctx context.Context, name string, s streams) error {
	if flags := given(p.flags, "config", "by", "out", "json", "top", "reorder", "time-field", "key-field"); len(flags) > 0 {
		return usagef("--%s is for access logs only, and %s is a trace; leave --%[1]s out", flags[0], name)
	}
	if p.check && len(p.specs) > 0 {
		return usagef("--check runs the policies of the trace; leave -p out")
	}
	var reported error
	for i, src := range p.sources {
		t, err := await(ctx, func() (*trace.Trace, error) { return p.parseTrace(src) })
		if err != nil {
			return err
		}
		if p.check {
			differences, err := t.Check()
			if err != nil {
				return err
			}
			for _, d := range differences {
				fmt.Fprintln(s.out, d)
				reported = errReported
			}
			fmt.Fprintf(s.out, "%s: %s\n", graphic(src.name), checkText(t.Events(), len(differences)))
			continue
		}
		ran, err := t.Run()
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := ran.Format(s.out); err != nil {
			return err
		}
	}
	return reported
}

// checkText returns the outcome of a check.
func checkText(events, different int) string {
	if different > 0 {
		return fmt.Sprintf("%d of %s got other results than the trace has", different, plural(int64(events), "event"))
	}
	return plural(int64(events), "event") + " checked, and all got the results that the trace has"
}

func (p *replayRun) parseTrace(src source) (*trace.Trace, error) {
	f, err := src.input.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trace.Parse(accesslog.Unzip(f), src.name)
	if err != nil || len(p.specs) == 0 {
		return t, err
	}
	return t.Under(p.policies...), nil
}
