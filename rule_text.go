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
	recent := t.recent.Load()
	if recent == nil {
		return t.add(nil, kind)
	}
	for i := range *recent {
		if known := &(*recent)[i]; known.kind == kind {
			return known.text
		}
	}
	return t.add(*recent, kind)
}

// add returns the text for another kind than the recent ones. If several goroutines add kinds at once, one of them is kept.
func (t *ruleTexts) add(recent []ruleText, kind string) string {
	text := driver.Rule(t.namespace, t.name, kind)
	recent = append([]ruleText{{kind, text}}, recent[:min(len(recent), maxKinds-1)]...)
	t.recent.Store(&recent)
	return text
}

// text returns the text of the rule with a policy.
func (r *Rule[T]) text(p algo.Policy) string {
	if r.PolicyFor == nil {
		return r.ownText
	}
	return r.texts.of(p)
}
