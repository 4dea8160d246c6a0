package servetest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// load is a running hey.
type load struct {
	t      *testing.T
	cmd    *exec.Cmd
	output bytes.Buffer
}

// hey starts hey with arguments.
func hey(t *testing.T, args ...string) *load {
	t.Helper()
	l := &load{t: t, cmd: exec.Command("hey", append([]string{"-t", "90"}, args...)...)}
	l.cmd.Stdout, l.cmd.Stderr = &l.output, &l.output
	require.NoError(t, l.cmd.Start(), "scripts/test.sh installs hey")
	t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	return l
}

// steadyLoad sends requests over 16 connections, at most 1600 a second, until stop.
func steadyLoad(t *testing.T, url string) *load {
	return hey(t, "-z", "1h", "-c", "16", "-q", "100", url)
}

// stop waits for the requests in flight and ends the load.
func (l *load) stop() report {
	l.t.Helper()
	require.NoError(l.t, l.cmd.Process.Signal(os.Interrupt))
	return l.report()
}

// report counts the results of the requests.
type report struct {
	statuses map[int]int64
	failures map[string]int64 // by error message
}

func (l *load) report() report {
	l.t.Helper()
	require.NoError(l.t, l.cmd.Wait(), "%s", &l.output)
	r := report{map[int]int64{}, map[string]int64{}}
	for _, m := range regexp.MustCompile(`(?m)^  \[(\d+)\]\t(\d+) responses$`).FindAllStringSubmatch(l.output.String(), -1) {
		r.statuses[int(number(l.t, m[1]))] = number(l.t, m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^  \[(\d+)\]\t([^\d].*)$`).FindAllStringSubmatch(l.output.String(), -1) {
		r.failures[m[2]] += number(l.t, m[1])
	}
	require.NotEmpty(l.t, r.statuses, "%s", &l.output)
	return r
}

// requireOnly requires that no other statuses occurred.
func (r report) requireOnly(t *testing.T, statuses ...int) {
	t.Helper()
	for status := range r.statuses {
		require.Contains(t, statuses, status, "%v", r.statuses)
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
