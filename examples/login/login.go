// Login shows a limit on failed logins. Ann mistypes her password and then logs in. An attacker
// guesses her password until her account is locked. She unlocks the account. The failures of
// the attacker's address still count.
//
//	go run ./examples/login
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// login is one attempt to log in.
type login struct{ account, address string }

// loginRules limit failures: 5 for each account and 20 for each address, in 15 minutes.
func loginRules() []sluice.Rule[login] {
	return []sluice.Rule[login]{
		sluice.By("login-account", func(l login) string { return strings.ToLower(l.account) }, "fixedwindow 5/15min"),
		sluice.By("login-address", func(l login) string { return l.address }, "fixedwindow 20/15min"),
	}
}

// signIn reports whether the attempt is allowed and its password is right. If the attempt is
// not allowed, the password is not checked.
func signIn(ctx context.Context, limiter *sluice.Limiter[login], l login, check func() bool) (bool, sluice.Decision, error) {
	attempt, d, err := limiter.Reserve(ctx, l, 1) // charges 1 attempt before the check
	if err != nil || !d.Allowed || !check() {
		return false, d, err // a failure stays charged
	}
	// If Settle or ResetRule fails, the attempts stay charged, but the login succeeds.
	ctx = context.WithoutCancel(ctx)
	_, _ = attempt.Settle(ctx, 0)                  // refunds this attempt
	_ = limiter.ResetRule(ctx, "login-account", l) // clears earlier failures of the account
	return true, d, nil
}

// unlock ends the lock of an account, for example after its owner has followed a link that
// was sent by mail. The failures of addresses still count.
func unlock(ctx context.Context, limiter *sluice.Limiter[login], account string) error {
	return limiter.ResetRule(ctx, "login-account", login{account: account})
}

func main() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // so that the program does not wait
	limiter, err := sluice.Options[login]{Clock: func() time.Time { return now }}.New(nil, loginRules()...)
	if err != nil {
		log.Fatal(err)
	}
	home, away := login{"ann", "192.0.2.1"}, login{"ann", "203.0.113.9"}
	for _, step := range []struct {
		after  time.Duration
		login  login
		right  bool
		unlock bool
	}{
		{login: home}, {login: home}, {login: home, right: true},
		{login: away}, {login: away}, {login: away}, {login: away}, {login: away}, {login: away},
		{after: time.Minute, login: home, right: true},
		{login: home, right: true, unlock: true},
		{login: away},
		{after: 20 * time.Minute, login: away},
	} {
		now = now.Add(step.after)
		if step.unlock {
			if err := unlock(ctx, limiter, step.login.account); err != nil {
				log.Fatal(err)
			}
			fmt.Println(now.Format("15:04"), step.login.account, "is unlocked")
		}
		ok, d, err := signIn(ctx, limiter, step.login, func() bool { return step.right })
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format("15:04"), step.login.account, "from", step.login.address, answer(ok, d))
	}
}

func answer(ok bool, d sluice.Decision) string {
	switch {
	case ok:
		return "is logged in"
	case d.Allowed:
		return fmt.Sprintf("fails, %d attempts left", d.Remaining)
	}
	return fmt.Sprintf("is denied by %s for %v", d.Rule, d.RetryAfter)
}
