package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/errtext"
)

// checkValues refuses flags that are given twice, because the first value would be ignored silently. It also refuses
// empty values, negative numbers and durations, and octal numbers. It does not check flags that are lists.
func checkValues(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if d, err := time.ParseDuration(f.DefValue); err == nil && f.Value.Type() == "duration" {
			f.DefValue = readable.Exact(d)
		}
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &checkedFlag{Value: f.Value}
		}
	})
}

type checkedFlag struct {
	pflag.Value
	given bool
}

var errEmpty = errors.New("empty value")

// Set implements pflag.Value.
func (f *checkedFlag) Set(text string) error {
	if f.given {
		return errors.New("the flag is given twice; give it once")
	}
	f.given = true
	if text == "" {
		return errEmpty
	}
	err := f.Value.Set(text)
	if limit, notPeriod := algo.ParseLimit("1/" + text); err != nil && f.Type() == "DURATION" && notPeriod == nil { // 7d, or 15min
		err = f.Value.Set(limit.Period.String())
	}
	invalid := err != nil || strings.HasPrefix(text, "-")
	digits := strings.TrimPrefix(text, "+")
	switch t := f.Type(); {
	case t == "DURATION" && invalid:
		return errors.New("want a duration of at least 0s and at most 2562047h, such as 30s or 5m")
	case t == "bool" && invalid:
		return errors.New("want true or false, or no value")
	case t == "N" && errors.Is(err, strconv.ErrRange) && text[0] != '-':
		return fmt.Errorf("want at most %d", math.MaxInt)
	case t == "N" && (invalid || len(digits) > 1 && digits[0] == '0'): // pflag reads 010 as 8
		return errors.New("want a whole number of at least 0, such as 10, in decimal digits")
	}
	return err
}

// valueNames are the words of the help for types of values.
var valueNames = map[string]string{"duration": "DURATION", "int": "N", "int64": "N"}

// Type implements pflag.Value.
func (f *checkedFlag) Type() string { return cmp.Or(valueNames[f.Value.Type()], f.Value.Type()) }

// NoArgs refuses the arguments of a command. instead says what to use.
func NoArgs(instead string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("%s takes no argument %s; %s", c.Name(), errtext.Quote(args[0]), instead)
		}
		return nil
	}
}

// Given returns those of the flags that are on the command line.
func Given(flags *pflag.FlagSet, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !flags.Changed(name) })
}
