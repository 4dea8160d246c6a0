package browsertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageRecoversWhenTheProgramStartsAgain(t *testing.T) {
	t.Parallel()
	b := blank(t)
	address := freeAddress(t)
	first, err := start(address)
	require.NoError(t, err)
	defer first.kill()
	b.visit(first.address + "#" + steady(10, "gcra 1/5s").settings())
	before := b.table()

	first.kill()
	b.enter("#spec-1", "fixedwindow 3/20s")
	b.wait("document.querySelector('#messages').innerText.includes('does not answer')")
	require.Contains(t, b.messages(), "--listen")
	require.Equal(t, before, b.table(), "what was drawn remains")

	second, err := start(address)
	require.NoError(t, err)
	defer second.kill()
	b.wait("document.querySelector('#results tbody code').textContent === 'fixedwindow 3/20s'")
	require.Empty(t, b.messages())
	b.requireTable(b.compare(steady(10, "fixedwindow 3/20s")))
	for _, fault := range b.take() {
		require.True(t, strings.Contains(fault, "ERR_CONNECTION_") || strings.Contains(fault, "ERR_EMPTY_RESPONSE"), fault)
	}
}

// freeAddress returns an address that is free, and that remains free while the program does not run: its
// port is below those that the system gives to clients.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
