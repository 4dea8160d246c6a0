// The tests promise that each prompt is charged the tokens that it used, whatever its estimate and however it
// ends, and that a denied prompt does not call the model.
package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func Example() {
	main()
	// Output:
	// estimate 4000: used 1500; 8500 tokens left
	// estimate 4000: used 4000; 4500 tokens left
	// estimate 6000: over budget under llm-tokens, try again in 9s; 4500 tokens left
	// estimate 4000: used 4600; -100 tokens left
	// estimate 1000: over budget under llm-tokens, try again in 6.6s; -100 tokens left
}

// newLimiter returns a limiter whose clock never moves.
func newLimiter(t *testing.T) *sluice.Limiter[prompt] {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := sluice.Options[prompt]{Clock: func() time.Time { return noon }}.New(nil, budgetRules()...)
	require.NoError(t, err)
	return limiter
}

// uses returns a model that uses a number of tokens.
func uses(tokens int64) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return tokens, nil }
}

func left(t *testing.T, limiter *sluice.Limiter[prompt]) (requests, tokens int64) {
	t.Helper()
	d, err := limiter.Peek(t.Context(), prompt{"acme", 1})
	require.NoError(t, err)
	return d.Results[0].Remaining, d.Results[1].Remaining
}

func TestDeniedPromptDoesNotCallTheModel(t *testing.T) {
	limiter := newLimiter(t)
	require.NoError(t, complete(t.Context(), limiter, prompt{"acme", 8000}, uses(8000)))
	err := complete(t.Context(), limiter, prompt{"acme", 8000}, func(context.Context) (int64, error) {
		t.Error("the model was called")
		return 0, nil
	})
	var over *overBudget
	require.ErrorAs(t, err, &over)
	require.Equal(t, "llm-tokens", over.rule)
	require.Positive(t, over.retryAfter)
	requests, _ := left(t, limiter)
	require.EqualValues(t, 9, requests, "a denied prompt does not pay for a request")
}

// A prompt whose context ends, or whose model fails, pays for the tokens that it used.
func TestFailedPromptIsSettled(t *testing.T) {
	limiter := newLimiter(t)
	failed := errors.New("the model failed")
	ctx, leave := context.WithCancel(t.Context())
	err := complete(ctx, limiter, prompt{"acme", 9000}, func(context.Context) (int64, error) { leave(); return 50, failed })
	require.ErrorIs(t, err, failed)
	_, tokens := left(t, limiter)
	require.EqualValues(t, 9950, tokens)
}
