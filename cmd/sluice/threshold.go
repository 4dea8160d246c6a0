package main

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
)

// shareLimit is the value of a flag that limits a number of requests: a whole number, or a
// percentage of all requests.
type shareLimit struct {
	text  string // empty: the flag is not given
	count int64
	share *big.Rat // from 0 to 1; nil: count has the limit
}

var errShareLimit = errors.New("want a whole number of requests such as 100, or a share of all requests from 0% to 100%, such as 0.1%")

// percentage bounds the length, because a number of any length would take any time.
var percentage = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,18})?)%$`)

// Set implements pflag.Value.
func (l *shareLimit) Set(text string) error {
	if count, err := strconv.ParseUint(text, 10, 63); err == nil {
		*l = shareLimit{text: text, count: int64(count)}
		return nil
	}
	match := percentage.FindStringSubmatch(text)
	if match == nil {
		return errShareLimit
	}
	percent, _ := new(big.Rat).SetString(match[1])
	share := percent.Quo(percent, big.NewRat(100, 1))
	if share.Cmp(big.NewRat(1, 1)) > 0 {
		return errShareLimit
	}
	*l = shareLimit{text: text, share: share}
	return nil
}

// String implements pflag.Value.
func (l *shareLimit) String() string { return l.text }

// Type implements pflag.Value. It is a word of the help.
func (l *shareLimit) Type() string { return "LIMIT" }

// most returns the largest number of requests within the limit. A share is rounded down, so that
// a number of requests is within it if it is at most the result.
func (l *shareLimit) most(requests int64) int64 {
	if l.share == nil {
		return l.count
	}
	product := new(big.Rat).Mul(l.share, new(big.Rat).SetInt64(requests))
	return new(big.Int).Quo(product.Num(), product.Denom()).Int64()
}

// threshold is a flag that limits the change, with the count that it limits.
type threshold struct {
	Flag     string `json:"flag"`  // such as max-newly-denied
	Limit    string `json:"limit"` // the value of the flag, such as 0.1%
	Most     int64  `json:"most"`  // the largest count within the limit
	Count    int64  `json:"count"`
	Exceeded bool   `json:"exceeded"`

	unit   string // request or client
	change string // newly denied or newly allowed
}

// String describes the threshold, the count and the largest count within the threshold.
func (t threshold) String() string {
	within := "within"
	if t.Exceeded {
		within = "beyond"
	}
	return fmt.Sprintf("%s --%s %s: %s %s %s, and at most %d may be", within, t.Flag, t.Limit, plural(t.Count, t.unit), are(t.Count), t.change, t.Most)
}

// are returns the verb for a number.
func are(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
