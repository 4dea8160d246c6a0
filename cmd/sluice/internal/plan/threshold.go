package plan

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// shareLimit is the value of a flag that limits a number of requests: a whole number, or a
// percentage of all requests.
type shareLimit struct {
	text  string // empty: the flag is not given
	count int64
	share *big.Rat // of a percentage
}

// Set implements pflag.Value.
func (l *shareLimit) Set(text string) error {
	count, err := strconv.ParseUint(text, 10, 63)
	share, percentage := cli.ParsePercentage(text)
	if err != nil && !percentage {
		return errors.New("want a whole number of requests such as 100, or a share of all requests from 0% to 100%, such as 0.1%")
	}
	*l = shareLimit{text, int64(count), share}
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
	return cli.Part(l.share, requests)
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
	return fmt.Sprintf("%s --%s %s: %s %s %s, and at most %d may be", within, t.Flag, t.Limit, readable.Plural(t.Count, t.unit), readable.Are(t.Count), t.change, t.Most)
}
