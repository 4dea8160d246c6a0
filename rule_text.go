package sluice

import (
	"sync/atomic"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage/driver"
)

// maxKinds is the number of kinds of policies for which a rule keeps its text.
const maxKinds = 8

// ruleTexts has the texts of a rule for driver.RuleKey. A rule with PolicyFor has one for each kind of policy.
type ruleTexts struct {
	namespace, name string
	recent          atomic.Pointer[[]ruleText] // of different kinds, the latest first
}

type ruleText struct{ kind, text string }

// of returns the text of the rule with a policy. It allocates only if the kind is not one of the recent ones.
func (t *ruleTexts) of(p algo.Policy) string {
	kind := compose.Kind(p)
	var recent []ruleText
	if known := t.recent.Load(); known != nil {
		recent = *known
	}
	for i := range recent {
		if recent[i].kind == kind {
			return recent[i].text
		}
	}
	text := driver.Rule(t.namespace, t.name, kind)
	latest := append([]ruleText{{kind, text}}, recent[:min(len(recent), maxKinds-1)]...)
	t.recent.Store(&latest) // if several goroutines add kinds at once, one of them is kept
	return text
}

// text returns the text of the rule with a policy.
func (r *Rule[T]) text(p algo.Policy) string {
	if r.PolicyFor == nil {
		return r.ownText
	}
	return r.texts.of(p)
}
