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

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// CheckValues refuses flags that are given twice, except lists: otherwise the first value would be
// ignored silently. It also refuses negative numbers and durations, and octal numbers.
func CheckValues(flags *pflag.FlagSet) {
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

// Set implements pflag.Value.
func (f *checkedFlag) Set(text string) error {
	if f.given {
		return errors.New("the flag is given twice; give it once")
	}
	f.given = true
	err := f.Value.Set(text)
	if limit, notPeriod := algo.ParseLimit("1/" + text); err != nil && f.Type() == "DURATION" && notPeriod == nil { // 7d, or 15min
		err = f.Value.Set(limit.Period.String())
	}
	invalid := err != nil || strings.HasPrefix(text, "-")
	digits := strings.TrimPrefix(text, "+")
	switch t := f.Type(); {
	case t == "DURATION" && invalid:
		return errors.New("want a duration of at least 0s and at most 2562047h, such as 30s or 5m")
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

// RefuseEmpty returns an error if one of the flags was given without a value.
func RefuseEmpty(flags *pflag.FlagSet, remedy string, names ...string) error {
	for _, name := range names {
		if flags.Changed(name) && flags.Lookup(name).Value.String() == "" {
			return Usagef("--%s is empty; %s", name, remedy)
		}
	}
	return nil
}

// Given returns those of the flags that are on the command line.
func Given(flags *pflag.FlagSet, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !flags.Changed(name) })
}
