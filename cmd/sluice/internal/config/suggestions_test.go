package config_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// In each file, the mistake is between guillemets. Each suggestion is a text in the error message. If it
// replaces the mistake, the file must be valid. An arrow separates the text in the message from the text for
// the file, if they differ.
type faulty struct {
	file        string
	suggestions []string
}

// In these files $ stands for a valid rule.
var faultyFiles = []faulty{
	{"trusted: [«10.0.0.300»]\nrules: [$]", []string{"10.0.0.0/24", "192.0.2.1"}},
	{"trusted: [«10.0.0.1/24»]\nrules: [$]", []string{"10.0.0.0/24", "10.0.0.1"}},
	{"«forwrded»: true\ntrusted: 10.0.0.1\nrules: [$]", []string{"forwarded"}},
	{"trusted: 10.0.0.1\n«trusted: 10.0.0.1»\nrules: [$]", []string{"write it once -> "}},
	{"«forwarded: true»\nrules: [$]", []string{"write the addresses of your proxies into trusted -> trusted: 10.0.0.1\nforwarded: true"}},
	{"trusted: «[]»\nforwarded: true\nrules: [$]", []string{"write the addresses of your proxies into trusted -> 10.0.0.1"}},
	{"trusted: 10.0.0.1\nforwarded: «1»\nrules: [$]", []string{"true", "false"}},
	{"ipv6_bits: «129»\nrules: [$]", []string{"32", "128"}},
	{"ipv6_bits: 64\n«»", []string{"[{name: client, policy: gcra 100/m, by: ip}] -> rules: [{name: client, policy: gcra 100/m, by: ip}]"}},
	{"«»", []string{"[{name: client, policy: gcra 100/m, by: ip}] -> rules: [{name: client, policy: gcra 100/m, by: ip}]"}},
	{"rules: [$]\n«---\nrules: [$]»", []string{"want one document, so remove the --- -> "}},
	{"rules: [«x»]", []string{"name, policy -> {name: a, policy: gcra 100/m}"}},
	{"rules: [{name: a, policy: gcra 100/m, «paht»: /a}]", []string{"paths"}},
	{"rules: [{name: «a b», policy: gcra 100/m}]", []string{"per-client"}},
	{"rules: [{name: «007», policy: gcra 100/m}]", []string{`"007"`}},
	{"rules: [$, {name: «ok», policy: gcra 100/m}]", []string{"another name -> another"}},
	{"rules: [{name: a, «by: ip»}]", []string{"gcra 100/m burst=20 -> policy: gcra 100/m burst=20"}},
	{"rules: [{name: a, policy: «[x]»}]", []string{"gcra 100/m burst=20"}},
	{"rules: [{name: a, policy: gcra 100/m «cost=2»}]", []string{"cost -> , cost: 2", "cost -> "}},
	{"rules: [{name: a, policy: gcra 100/m «cst=2»}]", nil},
	{"rules: [{name: a, policy: gcra 100/m «brst=2»}]", nil},
	{"rules: [{name: a, policy: gcra 100/m, cost: «101»}]", []string{"want at most 100 -> 100", "a larger policy -> 1"}},
	{"rules: [{name: a, policy: gcra 100/m, cost: «0»}]", []string{"1", "bytes"}},
	{"rules: [{name: a, policy: gcra 100/m, by: «[]»}]", []string{"ip", "user", "method", "path", "host"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«colour»]}]", []string{"ip", "user", "method", "path", "host"}},
	{"rules: [{name: a, policy: gcra 100/m, by: «colour»}]", []string{"ip+path", "everything"}},
	{"«" + strings.Repeat("# long\n", 20000) + "»rules: [$]", []string{"128 kB -> "}},
	{"«\x00»rules: [$]", []string{"is it a limits.yaml? -> "}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«ip:x»]}]", []string{"ip"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«\"header:\"»]}]", []string{"header:X-Api-Key"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«\"cookie:\"»]}]", []string{"cookie:session"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«header:X-Forwarded-For»]}]", []string{"ip"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [«header:Host»]}]", []string{"host"}},
	{"rules: [{name: a, policy: gcra 100/m, by: [ip«, ip»]}]", []string{"write it once -> "}},
	{"rules: [{name: a, policy: gcra 100/m, by: header:a, missing: «x»}]", []string{"ip", "share", "skip", "deny"}},
	{"rules: [{name: a, policy: gcra 100/m, by: header:a, missing: «shrae»}]", nil},
	{"rules: [{name: a, policy: gcra 100/m, by: «ip», missing: deny}]", []string{"user", "header:NAME", "cookie:NAME"}},
	{"rules: [{name: a, policy: gcra 100/m, methods: [«G T»]}]", []string{"GET"}},
	{"rules: [{name: a, policy: gcra 100/m, paths: [«login»]}]", []string{"/login", "/api/*"}},
	{"rules: [{name: a, policy: gcra 100/m, paths: [«/a/*/b»]}]", []string{"/api/*"}},
	{"rules: [{name: a, policy: gcra 100/m, paths: [«\"/\\a\"»]}]", []string{"/login"}},
	{"rules: [{name: a, policy: gcra 100/m, paths: [«/a//b»]}]", []string{"/a/b"}},
	{"rules: [{name: a, policy: gcra 100/m, count: «600»}]", []string{"[401, 403, 5xx]", "100", "599", "1xx", "5xx"}},
	{"rules: [{name: a, policy: gcra 1000/m, cost: {estimate: «0», actual: header:a}}]", []string{"10"}},
	{"rules: [{name: a, policy: gcra 1000/m, cost: {estimate: 1, actual: «header»}}]", []string{"header:X-Tokens-Used"}},
	{"rules: [{name: a, policy: gcra 100/m, shadow: «1»}]", []string{"true", "false"}},
}

// TestSuggestedValuesAreValid: each value that a message suggests makes the file valid.
func TestSuggestedValuesAreValid(t *testing.T) {
	for _, f := range faultyFiles {
		file := strings.ReplaceAll(f.file, "$", "{name: ok, policy: gcra 100/m}")
		before, rest, _ := strings.Cut(file, "«")
		mistake, after, _ := strings.Cut(rest, "»")
		problem := problemOf(t, before+mistake+after)
		remedies := guesses(problem, mistake)
		for _, s := range f.suggestions {
			words, remedy, found := strings.Cut(s, " -> ")
			if !found {
				remedy = words
			}
			assert.Contains(t, problem, words, f.file)
			remedies = append(remedies, remedy)
		}
		for _, remedy := range remedies {
			_, err := config.Parse("x", []byte(before+remedy+after))
			assert.NoError(t, err, "%s\n%s\n%s", f.file, problem, remedy)
		}
	}
}

// problemOf returns the message of a file with one error.
func problemOf(t *testing.T, file string) string {
	t.Helper()
	_, err := config.Parse("x", []byte(file))
	var all *config.Error
	require.ErrorAs(t, err, &all, file)
	require.Len(t, all.Faults, 1, file)
	return all.Faults[0].Problem
}

var (
	guessed = regexp.MustCompile(`did you mean ([^?]+)\?`)
	offered = regexp.MustCompile(`\w+ takes ((?:\w+=(?:, )?)+)`)
)

// guesses returns the suggestions in a message: the word after "did you mean", and the options that a policy
// takes.
func guesses(problem, mistake string) (all []string) {
	_, value, _ := strings.Cut(mistake, "=")
	if m := guessed.FindStringSubmatch(problem); m != nil {
		name, isOption := strings.CutSuffix(m[1], "=")
		if isOption {
			name += "=" + value
		}
		all = append(all, name)
	}
	if m := offered.FindStringSubmatch(problem); m != nil {
		for _, name := range strings.Split(m[1], ", ") {
			all = append(all, name+value)
		}
	}
	return all
}
