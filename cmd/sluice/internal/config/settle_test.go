package config_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/httplimit"
)

// costAfter returns what a request costs under a rule in the end, and the problems that are reported.
func costAfter(t *testing.T, rule string, status int, h http.Header) (cost int64, problems []string) {
	t.Helper()
	f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: gcra 1000/s, "+rule+"}]"))
	require.NoError(t, err)
	require.True(t, f.NeedsResponse())
	rules, err := f.HTTPRules(0, func(r *config.Rule, problem string) { problems = append(problems, r.Name+": "+problem) })
	require.NoError(t, err)
	r := httptest.NewRequest("POST", "/", http.NoBody)
	r.ContentLength = 70
	require.NotZero(t, rules[0].Cost(r), "the estimate")
	require.Empty(t, problems)
	return rules[0].Cost(httplimit.WithResponse(r, httplimit.Response{Status: status, Header: h})), problems
}

func TestCountChargesOnlySomeStatuses(t *testing.T) {
	for rule, costs := range map[string]map[int]int64{
		"count: [401, 403, 5xx]":                {200: 0, 400: 0, 401: 1, 402: 0, 403: 1, 404: 0, 499: 0, 500: 1, 599: 1},
		"count: 401, cost: 20":                  {200: 0, 401: 20},
		"count: 2xx, cost: bytes":               {199: 0, 200: 70, 299: 70, 300: 0},
		"count: [100, 599]":                     {100: 1, 101: 0, 599: 1},
		"missing: deny, by: user, count: [401]": {401: 1},
	} {
		for status, want := range costs {
			cost, _ := costAfter(t, rule, status, nil)
			require.Equal(t, want, cost, "%s: %d", rule, status)
		}
	}
	f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: gcra 1/s, cost: 1}]"))
	require.NoError(t, err)
	require.False(t, f.NeedsResponse())
}

func TestActualCostIsInAHeaderOfTheResponse(t *testing.T) {
	const rule = "cost: {estimate: 500, actual: header:x-tokens-used}"
	for _, test := range []struct {
		header  http.Header
		cost    int64
		problem string
	}{
		{http.Header{"X-Tokens-Used": {"120"}}, 120, ""},
		{http.Header{"X-Tokens-Used": {"0"}}, 0, ""},
		{http.Header{"X-Tokens-Used": {" 9000 "}}, 9000, ""},
		{http.Header{http.TrailerPrefix + "X-Tokens-Used": {"7"}}, 7, ""},
		{http.Header{"X-Tokens-Used": {"9223372036854775807"}}, 9223372036854775807, ""},
		{nil, 500, "a: the response does not have the header"},
		{http.Header{"X-Tokens": {"1"}}, 500, "a: the response does not have the header"},
		{http.Header{"X-Tokens-Used": {""}}, 500, "a: the header is not one whole number of at least 0"},
		{http.Header{"X-Tokens-Used": {"-1"}}, 500, "a: the header is not one whole number of at least 0"},
		{http.Header{"X-Tokens-Used": {"+1"}}, 500, "a: the header is not one whole number of at least 0"},
		{http.Header{"X-Tokens-Used": {"1.5"}}, 500, "a: the header is not one whole number of at least 0"},
		{http.Header{"X-Tokens-Used": {"9223372036854775808"}}, 500, "a: the header is not one whole number of at least 0"},
		{http.Header{"X-Tokens-Used": {"1", "2"}}, 500, "a: the header is not one whole number of at least 0"},
	} {
		cost, problems := costAfter(t, rule, 200, test.header)
		require.Equal(t, test.cost, cost, test.header)
		if test.problem == "" {
			require.Empty(t, problems)
		} else {
			require.Equal(t, []string{test.problem}, problems, test.header)
		}
	}
	cost, problems := costAfter(t, rule+", count: 2xx", 502, nil)
	require.Zero(t, cost)
	require.Empty(t, problems, "a response that is not charged need not report its cost")
}
