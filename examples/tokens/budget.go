// Tokens shows a budget of tokens for a language model. A prompt is charged an estimate before the
// model answers. The charge is corrected when the number of tokens is known.
//
//	go run ./examples/tokens
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
)

// prompt is a request to a language model. tokens is the estimate of what the model
// will use, and later the number that it has used.
type prompt struct {
	tenant string
	tokens int64
}

// budgetRules limit the requests of a tenant and their tokens. A request is charged under
// both rules or under neither.
func budgetRules() []sluice.Rule[prompt] {
	tenant := func(p prompt) string { return p.tenant }
	return []sluice.Rule[prompt]{
		sluice.By("llm-requests", tenant, "gcra 60/min burst=10"),
		{Name: "llm-tokens", Key: tenant, Spec: "gcra 10000/min", Cost: func(p prompt) int64 { return p.tokens }},
	}
}

// overBudget is the error of a prompt that the limiter denied.
type overBudget struct {
	rule       string
	retryAfter time.Duration
}

func (e *overBudget) Error() string {
	return fmt.Sprintf("over budget under %s, try again in %v", e.rule, e.retryAfter)
}

// complete charges the estimate of a prompt and calls the model. It then replaces the estimate
// by the number of tokens that the model has used. The model returns this number even if it
// fails. A prompt that used more than its estimate can leave a debt. Later prompts are denied
// until refills have paid the debt.
func complete(ctx context.Context, limiter *sluice.Limiter[prompt], p prompt, model func(context.Context) (used int64, err error)) error {
	reservation, d, err := limiter.Reserve(ctx, p, 1)
	if err != nil {
		return err
	}
	if !d.Allowed {
		return &overBudget{d.Rule, d.RetryAfter}
	}
	p.tokens, err = model(ctx)
	// The correction must run even if ctx has ended. If it fails, the estimate stays charged.
	_, _ = reservation.SettleFor(context.WithoutCancel(ctx), p)
	return err
}

func main() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := sluice.Options[prompt]{Clock: func() time.Time { return now }}.New(nil, budgetRules()...)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []struct{ estimate, used int64 }{{4000, 1500}, {4000, 4000}, {6000, 0}, {4000, 4600}, {1000, 500}} {
		err := complete(ctx, limiter, prompt{"acme", p.estimate}, func(context.Context) (int64, error) { return p.used, nil })
		d, peekErr := limiter.Peek(ctx, prompt{"acme", 1})
		if peekErr != nil {
			log.Fatal(peekErr)
		}
		outcome := fmt.Sprint("used ", p.used)
		if err != nil {
			outcome = err.Error()
		}
		fmt.Printf("estimate %d: %s; %d tokens left\n", p.estimate, outcome, d.Results[1].Remaining)
	}
}
