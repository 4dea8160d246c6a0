package movingwindow_test

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/movingwindow"
)

func TestLaws(t *testing.T) {
	for _, o := range []movingwindow.Options{
		{},
		{Slots: 3},
		{Slots: 12},
		{Slots: 20},
		{Trailing: movingwindow.Whole},
		{Slots: 5, Trailing: movingwindow.Whole},
	} {
		name := fmt.Sprintf("movingwindow slots=%d trailing=%v", max(o.Slots, 1), o.Trailing)
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name,
				New: func(l algo.Limit) (algo.Policy, error) {
					o := o
					o.Limit = l
					return movingwindow.New(o)
				},
				Oracle: func(l algo.Limit) algotest.Oracle {
					return algotest.MovingWindow(l, max(o.Slots, 1), o.Trailing == movingwindow.Whole)
				},
				Recode: func(state []byte) ([]byte, error) {
					s, err := movingwindow.ParseState(state)
					return movingwindow.AppendState(nil, s), err
				},
				Windowed:  true,
				Allocates: o.Slots > 16,
			})
		})
	}
}
