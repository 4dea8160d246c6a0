package compose_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// A rule with a spec decides as a rule with the policy of that spec.
func TestARuleMayHaveASpec(t *testing.T) {
	rules := []compose.Rule[call]{{Name: "user", Key: byUser, Spec: "gcra 2/min"}}
	l, err := compose.Options[call]{Clock: newVirtual().Now}.New(nil, rules...)
	require.NoError(t, err)
	d, err := l.AllowN(background, call{user: "ann"}, 2)
	require.True(t, must(t, d, err).Allowed)
	require.Equal(t, limitOf(t, "gcra 2/m"), d.Results[0].Policy)
	d, err = l.Allow(background, call{user: "ann"})
	require.False(t, must(t, d, err).Allowed)
	require.Nil(t, rules[0].Policy, "New does not change the rules of the caller")
}

func TestARuleHasOnePolicy(t *testing.T) {
	policy := limitOf(t, "gcra 1/s")
	policyFor := func(call) (algo.Policy, error) { return policy, nil }
	for _, test := range []struct {
		rule compose.Rule[call]
		want string
	}{
		{compose.Rule[call]{Name: "r"}, `compose: rule "r" has no policy; set Spec, Policy or PolicyFor`},
		{compose.Rule[call]{Name: "r", Spec: "gcra 1/s", Policy: policy}, `more than one of Spec, Policy and PolicyFor`},
		{compose.Rule[call]{Name: "r", Spec: "gcra 1/s", PolicyFor: policyFor}, `more than one of Spec, Policy and PolicyFor`},
		{compose.Rule[call]{Name: "r", Policy: policy, PolicyFor: policyFor}, `more than one of Spec, Policy and PolicyFor`},
		{compose.Rule[call]{Spec: "gcra 1/s"}, `compose: rule 0: Name must not be empty`},
	} {
		_, err := compose.New(nil, test.rule)
		require.ErrorContains(t, err, test.want)
	}
}

// The error names the rule and shows the word at fault.
func TestAFaultySpecIsPointedAt(t *testing.T) {
	_, err := compose.New(nil,
		compose.Rule[call]{Name: "address", Spec: "gcra 20/min"},
		compose.Rule[call]{Name: "account", Spec: "gcra 5/min brust=2"})
	require.EqualError(t, err, strings.Join([]string{
		`compose: rule "account": policy "gcra 5/min brust=2", column 12: unknown option "brust"; gcra takes burst=; did you mean burst=?`,
		`gcra 5/min brust=2`,
		`           ^^^^^^^`,
	}, "\n"))
	var bad *compose.SpecError
	require.True(t, errors.As(err, &bad))
	require.Equal(t, "account", bad.Rule)

	_, err = compose.New(nil, compose.Rule[call]{Name: "gcra 5/x", Spec: "gcra 5/x"})
	require.ErrorContains(t, err, `compose: policy "gcra 5/x", column 6: `, "a rule that is named for its spec is not named again")

	_, err = compose.New(nil, compose.Rule[call]{Name: "account", Spec: "gcra 5/m cost=2"})
	require.ErrorContains(t, err, `rule "account": policy "gcra 5/m cost=2", column 10: cost= is not an option of a rule's policy`)
}

// The two lines with the caret are left out where a terminal would not show them as lines.
func TestAHostileSpecOfARuleIsRefusedInOneLine(t *testing.T) {
	for _, spec := range []string{strings.Repeat("x", 5000), "gcra\n5/x", "gcra 5/\x1b[2J"} {
		_, err := compose.New(nil, compose.Rule[call]{Name: "r", Spec: spec})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 600)
	}
}
