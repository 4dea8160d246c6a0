package sluice

import (
	"errors"
	"log/slog"
)

// LogValue implements [slog.LogValuer]. It has the main fields that are set, but no keys, not even in err, because keys can be
// secret.
func (d Decision) LogValue() slog.Value { return slog.GroupValue(d.attrs()...) }

func (d *Decision) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Bool("allowed", d.Allowed), slog.String("rule", d.Rule), slog.Int64("remaining", d.Remaining)}
	if d.RetryAfter != 0 {
		attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
	}
	for _, flag := range [...]struct {
		name string
		set  bool
	}{{"cached", d.Cached}, {"prepaid", d.Prepaid}, {"degraded", d.Degraded}} {
		if flag.set {
			attrs = append(attrs, slog.Bool(flag.name, true))
		}
	}
	if d.Attempts > 1 {
		attrs = append(attrs, slog.Int("attempts", d.Attempts))
	}
	if d.Skew != 0 {
		attrs = append(attrs, slog.Duration("skew", d.Skew))
	}
	if d.Err != nil {
		attrs = append(attrs, slog.Any("err", withoutKey(d.Err)))
	}
	return attrs
}

// LogValue implements [slog.LogValuer]. It has no keys, like that of Decision.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("op", string(e.Op)), slog.String("outcome", string(e.Outcome)), slog.Duration("duration", e.Duration)}
	if e.Outcome == Failed { // there is no decision
		return slog.GroupValue(append(attrs, slog.Any("err", withoutKey(e.Err)))...)
	}
	return slog.GroupValue(append(attrs, e.Decision.attrs()...)...)
}

// withoutKey returns an error without the key of a RuleError. Its Err can have one too, if PolicyFor asks another limiter.
func withoutKey(err error) error {
	var rule *RuleError
	if errors.As(err, &rule) {
		return &RuleError{Rule: rule.Rule, Err: withoutKey(rule.Err)}
	}
	return err
}
