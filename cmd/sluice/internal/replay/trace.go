package replay

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/trace"
)

// runTraces runs all sources. name is the name of the first one.
func (p *replayRun) runTraces(ctx context.Context, name string, s cli.Streams) error {
	if flags := cli.Given(p.Flags, "config", "by", "out", "json", "top", "reorder", "time-field", "key-field"); len(flags) > 0 {
		return cli.Usagef("--%s is for access logs only, and %s is a trace; leave --%[1]s out", flags[0], name)
	}
	if p.check && len(p.Specs) > 0 {
		return cli.Usagef("--check runs the policies of the trace; leave -p out")
	}
	var reported error
	for i, src := range p.sources {
		t, err := cli.Await(ctx, func() (*trace.Trace, error) { return p.parseTrace(src) })
		if err != nil {
			return err
		}
		if p.check {
			d, err := t.Diff()
			if err != nil {
				return err
			}
			if d.Events > 0 {
				reported = cli.ErrReported
			}
			fmt.Fprintf(s.Out, "%s%s%s\n", d.Text, readable.Graphic(src.Name), checkText(t.Events(), d))
			continue
		}
		ran, err := t.Run()
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := ran.Format(s.Out); err != nil {
			return err
		}
	}
	return reported
}

// checkText returns the outcome of a check, to follow the name of the trace.
func checkText(events int, d trace.Difference) string {
	if d.Events > 0 {
		return fmt.Sprintf(":%d: %d of %s got other results than the trace has", d.Line, d.Events, readable.Plural(int64(events), "event"))
	}
	return ": " + readable.Plural(int64(events), "event") + " checked, and all got the results that the trace has"
}

func (p *replayRun) parseTrace(src logs.Source) (*trace.Trace, error) {
	f, err := src.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trace.Parse(accesslog.Unzip(f), src.Name)
	if err != nil || len(p.Specs) == 0 {
		return t, err
	}
	return t.Under(p.policies...), nil
}
