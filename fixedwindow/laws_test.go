package fixedwindow_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/fixedwindow"
)

func TestLaws(t *testing.T) {
	for _, o := range []fixedwindow.Options{
		{},
		{Align: fixedwindow.AlignClock},
		{Align: fixedwindow.AlignClock, Offset: 2},
		{Align: fixedwindow.AlignClock, Offset: -7 * time.Minute},
	} {
		name := "fixedwindow align=" + o.Align.String() + " offset=" + o.Offset.String()
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name,
				New: func(l algo.Limit) (algo.Policy, error) {
					o := o
					o.Limit = l
					return fixedwindow.New(o)
				},
				Oracle: func(l algo.Limit) algotest.Oracle {
					if o.Align == fixedwindow.AlignClock {
						return algotest.WindowByClock(l, o.Offset)
					}
					return algotest.WindowFromFirst(l)
				},
				Recode: func(state []byte) ([]byte, error) {
					s, err := fixedwindow.ParseState(state)
					return fixedwindow.AppendState(nil, s), err
				},
				Windowed: true,
			})
		})
	}
}
