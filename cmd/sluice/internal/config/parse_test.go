package config_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestParse(t *testing.T) {
	f := parsed(t, `
trusted: [10.0.0.0/8, 192.0.2.1, 2001:db8::/32, ::1, 2001:db8::]
rules:
  - name: client
    policy: gcra 100/m burst=20
    by: ip
  - name: login
    policy: fixedwindow 50/h
    by: [ip, path]
    methods: POST
    paths: [/login, /api/*]
    cost: +1_0
    shadow: true
`)
	require.Len(t, f.Rules, 2)
	require.Equal(t, "[10.0.0.0/8 192.0.2.1/32 2001:db8::/32 ::1/128 2001:db8::/128]", fmt.Sprint(f.Trusted))
	login := f.Rules[1]
	require.Equal(t, "ip+path", login.ByString())
	require.Equal(t, config.Cost{Units: 10}, login.Cost)
	require.True(t, login.Shadow)
	require.True(t, login.For("POST", &url.URL{Path: "/login/"}))
	require.False(t, login.For("GET", &url.URL{Path: "/login"}))
}

func TestParseReadsHeldUnits(t *testing.T) {
	f := parsed(t, "rules: [{name: running, policy: inflight 20 ttl=30s, by: ip, cost: 20}, {name: client, policy: gcra 100/m, by: ip}]")
	require.Equal(t, "inflight 20 ttl=30s", f.Rules[0].Policy.String())
	require.True(t, f.Rules[0].HoldsUnits())
	require.False(t, f.Rules[1].HoldsUnits())
	_, err := config.Parse("limits.yaml", []byte(`rules: [{name: running, policy: inflight 20 ttl=30s, cost: 21}]`))
	require.ErrorContains(t, err, "the policy inflight 20 ttl=30s never allows more than 20 at once")
}

// TestAllFaultsAreReportedAtOnce: the errors of testdata/faults.yaml are in testdata/faults.txt.
func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := config.Read(filepath.Join("testdata", "faults.yaml"))
	var all *config.Error
	require.ErrorAs(t, err, &all)
	var reported strings.Builder
	for _, f := range all.Faults {
		one := config.Error{File: "faults.yaml", Faults: []config.Fault{f}}
		fmt.Fprintln(&reported, one.Error())
	}
	tracetest.Golden(t, filepath.Join("testdata", "faults.txt"), reported.String())
	requireFaults(t, errors.Join(&config.Error{File: "x", Faults: all.Faults}))
}

// TestOtherFaults: these errors hide all others of a file.
func TestOtherFaults(t *testing.T) {
	tracetest.Answers(t, "testdata/others.txt", func(text string) string {
		_, err := config.Parse("x", []byte(text))
		if err == nil {
			return "valid"
		}
		requireFaults(t, err)
		return err.Error()
	})
}

func TestReadReturnsErrorsOfTheFileSystem(t *testing.T) {
	_, err := config.Read(filepath.Join(t.TempDir(), "limits.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = config.Read(t.TempDir())
	require.ErrorContains(t, err, "directory")
}

// TestLargeTexts: parsing soon returns an error.
func TestLargeTexts(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, config.MaxSize/len(s)) }
	for text, want := range map[string]string{
		many("# b\n"):                         "the file is empty",
		many("#") + "##":                      "more than 128 kB",
		many("["):                             "exceeded max depth",
		many("&a "):                           "invalid YAML",
		strings.Repeat("a: b\n", 100):         "x: 81 more errors",
		"rules:\n- cost: -" + many("9")[:1e4]: "...; want a whole number",
		"rules:\n- name: " + strings.Repeat("ä", 50): `is "` + strings.Repeat("ä", 50) + `"; want`,
	} {
		_, err := config.Parse("x", []byte(text))
		require.ErrorContains(t, err, want)
		requireFaults(t, err)
	}
}

// requireFaults requires that each line of an error begins with the name of the file, or shows the place of
// the error with a caret.
func requireFaults(t *testing.T, err error) {
	var all *config.Error
	require.ErrorAs(t, err, &all)
	require.NotEmpty(t, all.Faults)
	for _, line := range strings.Split(err.Error(), "\n") {
		require.Regexp(t, `^(x:\d+: |  |x: \d+ more errors$)`, line)
		require.NotContains(t, line, "\x1b")
		require.Less(t, len(line), 1000)
	}
	for _, f := range all.Faults {
		require.Positive(t, f.Line, fmt.Sprint(f))
		require.NotContains(t, f.Problem, "\n")
	}
}

// FuzzParse: every text is refused with an error in the right form, or makes a limiter.
func FuzzParse(f *testing.F) {
	for _, name := range []string{filepath.Join("testdata", "faults.yaml"), filepath.Join("..", "..", "..", "..", "examples", "limits.yaml")} {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{"", "rules:", "rules:\n- name: a\n  policy: |\n    gcra 1/s\n", "rules: [{name: a, policy: gcra 1/s, by: [ip, path]}]",
		"? rules\n: - {name: a, policy: gcra 1/s}", "&a *a", "--- |", "a: b: c", "\t", "%YAML", "!!map {}", "rules: [*a", "\"\\x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse("x", text)
		if err != nil {
			requireFaults(t, err)
			return
		}
		requireUsable(t, file)
	})
}

// requireUsable requires that the rules of a file make a limiter that decides.
func requireUsable(t *testing.T, file *config.File) {
	for _, r := range file.Rules {
		again, err := compose.ParsePolicy(r.Policy.String())
		require.NoError(t, err)
		require.Equal(t, r.Policy.String(), again.String()) // slots=1 and no slots are equal
		if len(r.By) > 0 {
			by, err := config.ParseFields(r.ByString())
			if err == nil { // a + may be part of the name of a header
				require.Equal(t, r.By, by)
			}
		}
	}
	limiter, err := sluice.For(nil, file.HTTPRules(1, nil)...)
	require.NoError(t, err)
	d, err := limiter.Allow(t.Context(), &http.Request{Method: "GET", URL: &url.URL{Path: "/"}, RemoteAddr: "192.0.2.1:1", Header: http.Header{}})
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// TestSuggestedValuesAreValid: each value that a message suggests makes the file valid.
func TestSuggestedValuesAreValid(t *testing.T) {
	tracetest.Answers(t, "testdata/suggestions.txt", func(question string) string { return problemOf(t, question) })
	problemOf(t, "«"+strings.Repeat("# long\n", 20000)+"»rules: [$] | 128 kB -> ")
}

// problemOf returns the message of a file with one error, and checks the suggestions.
func problemOf(t *testing.T, question string) string {
	t.Helper()
	file, suggestions, _ := strings.Cut(strings.ReplaceAll(question, "$", "{name: ok, policy: gcra 100/m}"), " | ")
	before, rest, _ := strings.Cut(file, "«")
	mistake, after, _ := strings.Cut(rest, "»")
	_, err := config.Parse("x", []byte(before+mistake+after))
	var all *config.Error
	require.ErrorAs(t, err, &all, file)
	require.Len(t, all.Faults, 1, file)
	problem := all.Faults[0].Problem
	for s := range strings.SplitSeq(suggestions, " | ") {
		words, remedy, found := strings.Cut(s, " -> ")
		if !found {
			remedy = words
		}
		assert.Contains(t, problem, words, file)
		_, err := config.Parse("x", []byte(before+remedy+after))
		assert.NoError(t, err, "%s\n%s\n%s", file, problem, remedy)
	}
	return problem
}
