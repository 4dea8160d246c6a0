package readme

import (
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/gcra"
)

func TestLaws(t *testing.T) {
	algotest.Run(t, algotest.Subject{
		Name: "gcra",
		New: func(limit algo.Limit) (algo.Policy, error) {
			return gcra.New(gcra.Options{Limit: limit})
		},
	})
}
