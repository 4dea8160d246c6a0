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
	"github.com/sluice-go/sluice/internal/errtext"
)

// replayFlags has the flags of sluice replay.
type replayFlags struct {
	policies  []string
	config    string
	by        string
	out       string
	json      bool
	check     bool
	top       countFlag
	reorder   durationFlag
	timeField string
	keyField  string
	given     func(flag string) bool // on the command line
}

// logFlags are the flags that traces do not support.
var logFlags = [...]string{"config", "by", "out", "json", "top", "reorder", "time-field", "key-field"}

func (f *replayFlags) define(c *cobra.Command) {
	f.top, f.reorder = 10, durationFlag(time.Minute) // the defaults
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVarP(&f.policies, "policy", "p", nil, "rate limiting `POLICY`; repeat the flag to compare several")
	flags.StringVar(&f.config, "config", "", "use the rules of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&f.by, "by", "ip", "the key of a request, `FIELDS`: ip, user, method, path, host, status, key, or several joined by +; everything: all requests share one limit")
	flags.StringVar(&f.out, "out", "", "also draw a chart into this `FILE`, .svg or .png")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	flags.Var(&f.top, "top", "how many of the most denied keys to report")
	flags.Var(&f.reorder, "reorder", "sort lines that are out of order by up to this duration")
	flags.StringVar(&f.timeField, "time-field", "", "the `MEMBER` of JSON lines that holds the time, such as request.at")
	flags.StringVar(&f.keyField, "key-field", "", "the `MEMBER` of JSON lines that holds the key (sets --by key)")
	flags.BoolVar(&f.check, "check", false, "run traces and compare the results with those written after ->")
	f.given = flags.Changed
	refuseRepeats(flags)
}

// validate checks the flags as far as this is possible without the input.
func (f *replayFlags) validate() error {
	for _, flag := range [...]struct{ name, value string }{{"config", f.config}, {"out", f.out}, {"time-field", f.timeField}, {"key-field", f.keyField}} {
		if flag.value == "" && f.given(flag.name) {
			return usagef("--%s is empty; give it a value or leave it out", flag.name)
		}
	}
	if f.out != "" && pictureFormat(f.out) == "" {
		return usagef("--out %q: want a name that ends in .svg or .png", f.out)
	}
	if f.config != "" {
		return f.checkConfigFlags()
	}
	return nil
}

// checkConfigFlags refuses flags that the rules of a file replace.
func (f *replayFlags) checkConfigFlags() error {
	switch {
	case len(f.policies) > 0:
		return usagef("-p and --config exclude each other; leave one out, or write the policy into a rule of %s", f.config)
	case f.given("by"):
		return usagef("--by and --config exclude each other; leave --by out, or set by in the rules of %s", f.config)
	}
	return nil
}

// parseKeyer parses --by. --key-field alone means --by key.
func (f *replayFlags) parseKeyer() (*accesslog.Keyer, error) {
	if f.keyField != "" && !f.given("by") {
		f.by = "key"
	}
	for word := range strings.SplitSeq(f.by, "+") {
		if kind, _, named := strings.Cut(strings.TrimSpace(word), ":"); named && (kind == "header" || kind == "cookie") {
			return nil, usagef("--by %s: replay does not look for a %s in logs; name the member of JSON lines that holds it with --key-field, and write key in --by", errtext.Quote(f.by), kind)
		}
	}
	k, err := accesslog.ParseKeyer(f.by)
	if err != nil {
		return nil, usagef("--by: %s", withoutPackage(err))
	}
	byKey := k.Fields()&accesslog.Key != 0
	switch {
	case byKey && f.keyField == "":
		return nil, usagef("--by %s needs --key-field, the member of JSON lines that holds the key", f.by)
	case !byKey && f.keyField != "":
		return nil, usagef("--key-field has no effect with --by %s; leave one out, or add key to --by, such as ip+key", f.by)
	}
	return k, nil
}

// checkLogFlags refuses flags that logs do not support.
func (f *replayFlags) checkLogFlags(log string) error {
	if f.check {
		return usagef("--check works with traces only, and %s is not a trace; leave --check out", log)
	}
	return nil
}

// checkTraceFlags refuses flags that traces do not support.
func (f *replayFlags) checkTraceFlags(trace string) error {
	for _, name := range logFlags {
		if f.given(name) {
			return usagef("--%s is for access logs only, and %s is a trace; leave --%[1]s out", name, trace)
		}
	}
	if f.check && len(f.policies) > 0 {
		return usagef("--check runs the policies of the trace; leave -p out")
	}
	return nil
}

// refuseRepeats refuses flags that are given twice, except lists. Otherwise the first value would
// be ignored silently.
func refuseRepeats(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &onceFlag{Value: f.Value}
		}
	})
}

type onceFlag struct {
	pflag.Value
	given bool
}

// Set implements pflag.Value.
func (s *onceFlag) Set(text string) error {
	if s.given {
		return errors.New("the flag is given twice; give it once")
	}
	s.given = true
	return s.Value.Set(text)
}

// countFlag is a flag for a number of at least 0.
type countFlag int

// String implements pflag.Value.
func (c *countFlag) String() string { return strconv.Itoa(int(*c)) }

// Set implements pflag.Value.
func (c *countFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("want at most %d", math.MaxInt)
	}
	if err != nil || n < 0 {
		return errors.New("want a whole number of at least 0, such as 10")
	}
	*c = countFlag(n)
	return nil
}

// Type implements pflag.Value.
func (c *countFlag) Type() string { return "N" }

// durationFlag is a flag for a duration of at least 0.
type durationFlag time.Duration

// String implements pflag.Value.
func (d *durationFlag) String() string { return algo.FormatDuration(time.Duration(*d)) }

// Set implements pflag.Value.
func (d *durationFlag) Set(s string) error {
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return errors.New("want a duration of at least 0s, such as 30s or 5m")
	}
	*d = durationFlag(t)
	return nil
}

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "DURATION" }

// pictureFormat returns svg or png, by the ending of the name; empty for any other ending.
func pictureFormat(path string) string {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")); format {
	case "svg", "png":
		return format
	}
	return ""
}

// withoutPackage returns the text of an error without the name of its package, which users of the
// command do not know.
func withoutPackage(err error) string {
	text := err.Error()
	for _, name := range [...]string{"accesslog", "replay", "compose", "algo"} {
		text = strings.TrimPrefix(text, name+": ")
	}
	return text
}
