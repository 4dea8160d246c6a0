package main

import (
	"context"
	"strings"

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
	attempt, d, err := limiter.Reserve(ctx, l, 1) // pays before the check
	if err != nil || !d.Allowed || !check() {
		return false, d, err // a failure stays paid
	}
	// If one of these fails, attempts stay counted. The login is good all the same.
	ctx = context.WithoutCancel(ctx)
	_, _ = attempt.Settle(ctx, 0)                  // gives back what this attempt paid
	_ = limiter.ResetRule(ctx, "login-account", l) // forgets the failures before it
	return true, d, nil
}

// unlock ends the lock of an account, for example after its owner has followed a link that
// was sent by mail. The failures of addresses still count.
func unlock(ctx context.Context, limiter *sluice.Limiter[login], account string) error {
	return limiter.ResetRule(ctx, "login-account", login{account: account})
}
