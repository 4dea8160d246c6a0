// Package suggest is the command sluice suggest. It finds the tightest rate limit that leaves a share of past requests
// untouched.
//
//	log := suggest.NewLog(memory)
//	for ... { _, err := log.Add(at, key) }
//	log.Sort()
//	template, err := suggest.ParseTemplate("gcra ?/m")
//	share, err := suggest.ParseShare("99.9%")
//	found := suggest.Suggestion{Log: log, Template: template, Goal: suggest.Goal{Share: share, Of: suggest.OfRequests}}
//	err := suggest.Run(ctx, func() {}, &found)
//	fmt.Println(found.Best.Policy) // gcra 42/m
//
// A template is a policy with one unknown number. A number meets the goal if its policy denies no
// more requests, or clients, than the goal allows. The suggestion is a number that meets the goal
// while the number below it does not. To find it, the search doubles the number until it meets the
// goal, and then bisects.
//
// For most policies the share of denied requests falls as the number grows, but not for all. With
// refill=interval, for example, a larger number can move the times at which tokens come back. So
// the search also tries the 16 numbers below the one it found, and all numbers of the curve. It
// continues below the smallest one that meets the goal. A smaller number that meets the goal can
// still exist. Suggestion.Irregular is a larger number that does not meet it.
//
// Each decision is one Policy.Step on encoded state. Keys are independent, so the requests are
// grouped by key and all CPUs share the keys. Keys with so few requests that a policy cannot deny any
// are left out.
package suggest
