// These tests promise that each state has one encoding, that ParseUsage inverts Append, and that all
// other bytes are refused.
package algorithm_test

import (
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

func TestParseInvertsAppend(t *testing.T) {
	for _, c := range []struct {
		state algorithm.Usage
		want  string
	}{
		{algorithm.Usage{Period: 1}, "7a01" + "01" + "0000000000000000" + "" + "00" + "01"},
		{algorithm.Usage{At: 5, Used: 255, Part: 7, Period: 256}, "7a01" + "12" + "0000000000000005" + "ff" + "0007" + "0100"},
		{algorithm.Usage{At: 5, Used: 256, Part: 255, Period: 256}, "7a01" + "22" + "0000000000000005" + "0100" + "00ff" + "0100"},
		{
			algorithm.Usage{At: algo.MaxInstant, Used: algo.MaxCount, Part: math.MaxInt64 - 1, Period: time.Duration(math.MaxInt64)},
			"7a01" + "88" + "3fffffffffffffff" + "4000000000000000" + "7ffffffffffffffe" + "7fffffffffffffff",
		},
	} {
		require.True(t, c.state.IsNormal(c.state.Period))
		b := c.state.Append([]byte("before"), 'z')
		require.Equal(t, c.want, hex.EncodeToString(b[len("before"):]))
		require.Equal(t, "before", string(b[:len("before")]))
		got, err := algorithm.ParseUsage(b[len("before"):], 'z')
		require.NoError(t, err)
		require.Equal(t, c.state, got)
	}
	got, err := algorithm.ParseUsage(nil, 'z')
	require.NoError(t, err)
	require.Zero(t, got)
}

func TestMalformedBytesAreRefused(t *testing.T) {
	good := algorithm.Usage{At: 5, Used: 300, Part: 7, Period: 1000}.Append(nil, 'z')
	for i := range good {
		_, err := algorithm.ParseUsage(good[:i], 'z')
		require.Equal(t, i > 0, err != nil, "the first %d bytes", i)
	}
	for _, c := range []struct {
		text string
		want error
	}{
		{"7902220000000000000005012c000703e8", algo.ErrState},                  // another tag
		{"7a02220000000000000005012c000703e8", algo.ErrStateVersion},           // later
		{"7a00220000000000000005012c000703e8", algo.ErrState},                  // never was
		{"7a01220000000000000005012c000703e800", algo.ErrState},                // goes on
		{"7a0132000000000000000500012c000703e8", algo.ErrState},                // Used is longer than it need be
		{"7a01230000000000000005012c0000070003e8", algo.ErrState},              // Period is
		{"7a01220000000000000005012c03e803e8", algo.ErrState},                  // Part is Period
		{"7a01224000000000000000012c000703e8", algo.ErrState},                  // At is too late
		{"7a0182000000000000000540000000000000010007" + "03e8", algo.ErrState}, // Used is too much
		{"7a01200000000000000005012c", algo.ErrState},                          // there is no Period
	} {
		b, err := hex.DecodeString(c.text)
		require.NoError(t, err)
		got, err := algorithm.ParseUsage(b, 'z')
		require.Equal(t, c.want, err, c.text)
		require.Zero(t, got, c.text)
	}
}
