package algotest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEverySearchTriesAllSmallCounts(t *testing.T) {
	efforts := []effort{long, thorough, brief, racing}
	for _, l := range laws {
		if l.effort != (effort{}) {
			efforts = append(efforts, l.effort)
		}
	}
	for _, e := range efforts {
		s := &search{subject: subject(noFlaw)}
		counts := map[int64]int{}
		for limit := range s.small(e.limits) {
			counts[limit.Count]++
		}
		require.Len(t, counts, 6, "%+v", e)
	}
}
