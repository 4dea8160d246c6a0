package suggest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
)

// policySubject collects requests that all templates limit by the same key.
type policySubject struct {
	*accesslog.Keyer
	log       *Log
	templates []Template
	ipv6      int64 // requests from IPv6 addresses, if keys have addresses
}

func (s *policySubject) Add(e *accesslog.Entry) error {
	if s.Keyer.Named()&accesslog.IP != 0 && bytes.IndexByte(e.IP, ':') >= 0 {
		s.ipv6++
	}
	_, err := s.log.Add(e.Time, s.Key(e))
	return err
}

func (s *policySubject) suggestions(goal Goal) (all []*Suggestion) {
	s.log.Sort()
	for _, t := range s.templates {
		all = append(all, &Suggestion{Name: t.String(), Log: s.log, Template: t, Goal: goal})
	}
	return all
}

// policyReport is what the template shows of policies.
type policyReport struct {
	*Report
	Head, Legend string
	Keyer        *accesslog.Keyer
	Specs        []string              // of the policies found
	Denied       []backtest.KeyDenials // the keys with the most denials under all policies
	IPv6         int64
}

func (s *policySubject) report(_ context.Context, r *Report) (text, by string, err error) {
	t := policyReport{Report: r, Keyer: s.Keyer, IPv6: s.ipv6}
	t.Head = r.log.Head(fmt.Sprintf("%s by %v", readable.Plural(s.log.Clients(), "client"), s.Keyer), logs.MissingInKey)
	var specs []string
	var denied [][]backtest.Denials
	for _, found := range r.All {
		specs, denied = append(specs, found.Best.Spec), append(denied, found.TopDenied)
	}
	t.Specs, t.Legend = report.Columns(specs)
	t.Denied = backtest.MostDenied(r.top, denied...)
	text = report.Text(reports, "policies", t)
	r.cutTopDenied()
	r.Suggestions = r.All
	return text, fmt.Sprintf("limited by %v", s.Keyer), nil
}
