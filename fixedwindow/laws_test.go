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
		{Align: fixedwindow.AlignClock, Offset: 2 * time.Microsecond},
		{Align: fixedwindow.AlignClock, Offset: -7 * time.Minute},
	} {
		name := "fixedwindow align=" + o.Align.String() + " offset=" + o.Offset.String()
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, algotest.Subject{
				Name: name,
				New:  kit.NewWithLimit(o),
				Oracle: func(l algo.Limit) algotest.Oracle {
					if o.Align == fixedwindow.AlignClock {
						return algotest.WindowByClock(l, o.Offset)
					}
					return algotest.WindowFromFirst(l)
				},
				Recode:   kit.Recode,
				Windowed: true,
			})
		})
	}
}
