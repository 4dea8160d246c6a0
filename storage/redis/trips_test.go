package redis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// after is the swap that follows another on the same keys.
func after(swaps []storage.Swap) []storage.Swap {
	var next []storage.Swap
	for _, s := range swaps {
		follow := creating(s.Key, "after")
		follow.Old = s.New.Version
		next = append(next, follow)
	}
	return next
}

// A swap is one command, whatever it does and however many keys there are; two
// when the server does not know the script, of which one is for one key.
func TestOneCommand(t *testing.T) {
	server := shared.Redis(t)
	proxy := faultproxy.Redis(t, server.Addr())
	client := newClient(t, proxy.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())
	s := open(t, client, t.Name())
	do(t, server, "SCRIPT", "FLUSH")
	two := []storage.Swap{creating("a", "x"), creating("b", "x")}
	for _, c := range []struct {
		name     string
		group    []storage.Swap
		commands int
		swapped  bool
	}{
		{"the first", []storage.Swap{creating("first", "x")}, 2, true},
		{"a creation", []storage.Swap{creating("one", "x")}, 1, true},
		{"a conflict", []storage.Swap{creating("one", "x")}, 1, false},
		{"the first of two keys", two, 2, true},
		{"two keys", after(two), 1, true},
		{"a conflict of two keys", after(two), 1, false},
	} {
		proxy.Plan()
		_, swapped, err := s.CompareAndSwap(t.Context(), c.group...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.swapped, swapped, c.name)
		require.Equal(t, c.commands, proxy.Seen(), c.name)
	}
}
