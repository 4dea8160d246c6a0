package compare_test

// These tests promise:
//
//   - All parts of a response follow from the same calls. Each export can be used as it is. The error of
//     each invalid request says what to do (service_test.go).
//   - Lists are never null, because the page reads their lengths (empty_view_test.go).
//   - Only the page itself, on this machine, gets responses (handler_test.go).

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
)

// The page reads the length of each list, so an empty list must not be null.
func TestAViewWithoutCallsHasEmptyLists(t *testing.T) {
	const query = `{"specs": ["gcra 30/m"], "stream": {"kind": "steady", "requests": 10, "length": 60, "clients": 1}, "view": {"from": 1000, "to": 2000}}`
	response, err := compare.NewService().Call(context.Background(), "compare", strings.NewReader(query), func(float64) {})
	require.NoError(t, err)
	text, err := json.Marshal(response)
	require.NoError(t, err)
	require.Contains(t, string(text), `"marks":{"number":[],"at":[],"allowed":[]}`)
	require.NotContains(t, string(text), "null")
}

func TestProgressCountsRequests(t *testing.T) {
	const query = `{"specs": ["gcra 1/h"], "stream": {"kind": "steady", "requests": 20000, "length": 60, "clients": 1}, "reaction": "retry"}`
	var shares []float64
	_, err := compare.NewService().Call(context.Background(), "compare", strings.NewReader(query), func(share float64) { shares = append(shares, share) })
	require.NoError(t, err)
	require.Greater(t, len(shares), 10)
	require.IsIncreasing(t, shares[:10])
	require.LessOrEqual(t, shares[len(shares)-1], 1.0)
}
