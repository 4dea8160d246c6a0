package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// replayFlags are the flags as given.
type replayFlags struct {
	policies  []string
	config    string
	by        string
	out       string
	json      bool
	check     bool
	top       count
	reorder   stretch
	timeField string
	keyField  string
	given     func(flag string) bool // on the command line
}

// logFlags are those that mean nothing to a trace.
var logFlags = [...]string{"config", "by", "out", "json", "top", "reorder", "time-field", "key-field"}

func (f *replayFlags) define(c *cobra.Command) {
	f.top, f.reorder = 10, stretch(time.Minute) // the defaults
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVarP(&f.policies, "policy", "p", nil, "a `POLICY` to replay; repeat it to compare several")
	flags.StringVar(&f.config, "config", "", "replay the rules of this `FILE`, as limits.yaml has them, in place of policies")
	flags.StringVar(&f.by, "by", "ip", "what is limited, `FIELDS`: ip, user, method, path, host, status, key, or several joined by +; or everything")
	flags.StringVar(&f.out, "out", "", "also draw a picture into this `FILE`, .svg or .png")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	flags.Var(&f.top, "top", "how many of the keys denied most to tell")
	flags.Var(&f.reorder, "reorder", "put lines right that are out of order by up to this")
	flags.StringVar(&f.timeField, "time-field", "", "the `MEMBER` of JSON lines that has the time, such as request.at")
	flags.StringVar(&f.keyField, "key-field", "", "the `MEMBER` of JSON lines to limit by (sets --by key)")
	flags.BoolVar(&f.check, "check", false, "compare the answers of traces with those right of ->")
	f.given = flags.Changed
	giveOnce(flags)
}

// validate finds the flags that are wrong whatever there is to replay.
func (f *replayFlags) validate() error {
	for _, flag := range [...]struct{ name, value string }{{"config", f.config}, {"out", f.out}, {"time-field", f.timeField}, {"key-field", f.keyField}} {
		if flag.value == "" && f.given(flag.name) {
			return usagef("--%s is empty; leave it out or say which", flag.name)
		}
	}
	if f.out != "" && pictureFormat(f.out) == "" {
		return usagef("--out %q: want a name that ends in .svg or .png", f.out)
	}
	if f.config != "" {
		return f.withConfig()
	}
	return nil
}

// withConfig refuses what the rules of a file say themselves.
func (f *replayFlags) withConfig() error {
	switch {
	case len(f.policies) > 0:
		return usagef("-p and --config both say what to replay; leave one of them out, or write the policy into a rule of %s", f.config)
	case f.given("by"):
		return usagef("--by and --config both say what is limited; leave --by out, or write it into the rules of %s", f.config)
	}
	return nil
}

// parseKeyer reads what --by says, or --key-field alone.
func (f *replayFlags) parseKeyer() (*accesslog.Keyer, error) {
	if f.keyField != "" && !f.given("by") {
		f.by = "key"
	}
	k, err := accesslog.ParseKeyer(f.by)
	if err != nil {
		return nil, usagef("--by: %s", inWords(err))
	}
	byKey := k.Fields()&accesslog.Key != 0
	switch {
	case byKey && f.keyField == "":
		return nil, usagef("--by %s needs --key-field, the member of JSON lines that has the key", f.by)
	case !byKey && f.keyField != "":
		return nil, usagef("--key-field is of no use with --by %s; leave one of them out, or have key in --by, such as ip+key", f.by)
	}
	return k, nil
}

// forLogs refuses what means nothing to a log.
func (f *replayFlags) forLogs(log string) error {
	if f.check {
		return usagef("--check compares with the answers of a trace, and %s is none", log)
	}
	return nil
}

// forTraces refuses what means nothing to a trace.
func (f *replayFlags) forTraces(trace string) error {
	for _, name := range logFlags {
		if f.given(name) {
			return usagef("--%s is for access logs, and %s is a trace, which is printed with its answers", name, trace)
		}
	}
	if f.check && len(f.policies) > 0 {
		return usagef("--check compares with the answers of the trace's own policies; leave -p out")
	}
	return nil
}

// giveOnce refuses flags that are given twice, but for lists: the first value would go
// unnoticed.
func giveOnce(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &single{Value: f.Value}
		}
	})
}

type single struct {
	pflag.Value
	given bool
}

// Set implements pflag.Value.
func (s *single) Set(text string) error {
	if s.given {
		return errors.New("it is given twice")
	}
	s.given = true
	return s.Value.Set(text)
}

// count is a flag that says how many.
type count int

// String implements pflag.Value.
func (c *count) String() string { return strconv.Itoa(int(*c)) }

// Set implements pflag.Value.
func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("want at most %d", math.MaxInt)
	}
	if err != nil || n < 0 {
		return errors.New("want a whole number from 0, such as 10")
	}
	*c = count(n)
	return nil
}

// Type implements pflag.Value.
func (c *count) Type() string { return "N" }

// stretch is a flag that says how long.
type stretch time.Duration

// String implements pflag.Value.
func (d *stretch) String() string { return algo.FormatDuration(time.Duration(*d)) }

// Set implements pflag.Value.
func (d *stretch) Set(s string) error {
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return errors.New("want a duration from 0s, such as 30s or 5m")
	}
	*d = stretch(t)
	return nil
}

// Type implements pflag.Value.
func (d *stretch) Type() string { return "DURATION" }

// pictureFormat is svg or png, by the ending of the name; empty if it is neither.
func pictureFormat(path string) string {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")); format {
	case "svg", "png":
		return format
	}
	return ""
}

// inWords is what an error says, without the package that says it: a reader of the
// command line did not call it.
func inWords(err error) string {
	text := err.Error()
	for _, name := range [...]string{"accesslog", "replay", "compose", "algo"} {
		text = strings.TrimPrefix(text, name+": ")
	}
	return text
}
