package report

import (
	"cmp"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// Output has the flags that choose policies and the form of a report.
type Output struct {
	Specs       []string // of --policy
	Config, Out string
	JSON        bool
	Top         int
}

// Validate checks the flags as far as this is possible without the input.
func (r *Output) Validate(flags *pflag.FlagSet) error {
	ext := strings.ToLower(filepath.Ext(r.Out))
	switch {
	case r.Out != "" && ext != ".svg" && ext != ".png":
		return cli.Usagef("--out %q: want a name that ends in .svg or .png", r.Out)
	case r.Config != "" && len(r.Specs) > 0:
		return cli.Usagef("-p and --config exclude each other; leave one out, or write the policy into a rule of %s", r.Config)
	case r.Config != "" && flags.Changed("by"):
		return cli.Usagef("--by and --config exclude each other; leave --by out, or set by in the rules of %s", r.Config)
	}
	return nil
}

// Report is the result of a command in all forms of output.
type Report struct {
	Tables string
	JSON   any
	Chart  interface{ Draw(path string) error }
}

// Print writes the report, and the chart into the file of --out.
func (r *Output) Print(w io.Writer, report Report) (err error) {
	if r.JSON {
		err = JSON(w, report.JSON)
	} else {
		_, err = io.WriteString(w, report.Tables)
	}
	if r.Out == "" {
		return err
	}
	return cmp.Or(err, report.Chart.Draw(r.Out)) // if one output fails, the other may succeed
}
