package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/internal/trace"
)

// errDiffers ends a check that found, and told, differences.
var errDiffers = errors.New("answers differ")

// peekSize is how much of a file is looked at to tell a trace from a log.
const peekSize = 64 << 10

// looksLikeTrace reports whether the first line with a word of its own is one
// of a trace.
func looksLikeTrace(first []byte) bool {
	for line := range bytes.Lines(first) {
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

func (p *plan) runTraces(traces int, s streams) error {
	switch {
	case traces < len(p.sources):
		return usagef("traces and access logs cannot be replayed together")
	case p.json || p.out != "":
		return usagef("--json and --out are for access logs; a trace is printed with its answers")
	case p.check && len(p.policies) > 0:
		return usagef("--check compares with the answers of the trace's own policies; leave -p out")
	}
	differ := false
	for i, src := range p.sources {
		t, err := p.parseTrace(src)
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
		return errDiffers
	}
	return nil
}

func (p *plan) parseTrace(src source) (*trace.Trace, error) {
	f, err := src.input.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trace.Parse(f, src.name)
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
