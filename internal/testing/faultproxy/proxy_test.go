package faultproxy

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachFaultHappensOnce(t *testing.T) {
	tests := []struct {
		kind     Kind
		half     string // the part of the reply before the error
		err      error
		received []string // by the server, when the client gets the error
	}{
		{DropRequest, "", io.EOF, []string{"one"}},
		{ResetRequest, "", syscall.ECONNRESET, []string{"one"}},
		{StallRequest, "", os.ErrDeadlineExceeded, []string{"one"}},
		{LateRequest, "", os.ErrDeadlineExceeded, []string{"one"}},
		{DropReply, "", io.EOF, []string{"one", "two"}},
		{ResetReply, "", syscall.ECONNRESET, []string{"one", "two"}},
		{CutReply, "tw", io.EOF, []string{"one", "two"}},
		{StallReply, "", os.ErrDeadlineExceeded, []string{"one", "two"}},
	}
	require.Len(t, tests, len(Kinds()))
	for _, test := range tests {
		t.Run(test.kind.String(), func(t *testing.T) {
			e, p := setUp(t)
			p.Plan(Fault{At: 2, Kind: test.kind})
			c := dial(t, p)
			c.send(t, "one\n")
			line, err := c.receive(longTimeout)
			require.NoError(t, err)
			require.Equal(t, "one\n", line)
			require.Empty(t, p.Hits())

			c.send(t, "two\n")
			timeout := longTimeout
			if test.kind.Hangs() {
				timeout = shortTimeout
			}
			line, err = c.receive(timeout)
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.half, line)
			if test.kind.Hangs() { // the client does not know how far the request came
				await(t, func() bool { return p.Exchanges() == 2 && (len(p.Hits()) == 1 || test.kind == LateRequest) })
			}
			require.Equal(t, test.received, e.lines())
			require.Equal(t, 2, p.Exchanges())

			c.Close()
			requireHit(t, p, Fault{At: 2, Kind: test.kind})
			applied := test.received
			if test.kind == LateRequest {
				applied = append(applied, "two")
			}
			require.Equal(t, applied, e.lines())
			require.Equal(t, test.kind.Applied(), len(applied) == 2)

			c = dial(t, p)
			c.send(t, "three\n")
			line, err = c.receive(longTimeout)
			require.NoError(t, err)
			require.Equal(t, "three\n", line)
		})
	}
}

func TestFaultInAPipelineHitsOneExchange(t *testing.T) {
	for _, kind := range Kinds() {
		if kind == StallReply {
			continue // the connection stays open
		}
		t.Run(kind.String(), func(t *testing.T) {
			e, p := setUp(t)
			p.Plan(Fault{At: 3, Kind: kind})
			c := dial(t, p)
			c.send(t, "one\ntwo\nthree\nfour\nfive\n")
			for _, want := range []string{"one\n", "two\n"} {
				line, err := c.receive(longTimeout)
				require.NoError(t, err)
				require.Equal(t, want, line)
			}
			await(t, func() bool { return len(p.Hits()) > 0 || kind == LateRequest && p.Exchanges() >= 3 })
			c.receive(shortTimeout)
			c.Close()
			requireHit(t, p, Fault{At: 3, Kind: kind})
			want := []string{"one", "two"}
			if kind.Applied() {
				want = append(want, "three")
			}
			require.Equal(t, want, e.lines())
		})
	}
}

func TestStalledReplyIsReleased(t *testing.T) {
	_, p := setUp(t)
	p.Plan(Fault{At: 1, Kind: StallReply})
	c := dial(t, p)
	c.send(t, "one\n")
	_, err := c.receive(shortTimeout)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	c.send(t, "two\n")
	var line string
	await(t, func() bool { // the reply may not be held yet
		p.Release()
		line, err = c.receive(shortTimeout)
		return err == nil
	})
	require.Equal(t, "one\n", line)
	line, err = c.receive(longTimeout)
	require.NoError(t, err)
	require.Equal(t, "two\n", line)
}

// A client may give up before the server replies. Its reply would have been held, so the fault counts.
func TestReplyIsStalledAfterTheClientIsGone(t *testing.T) {
	e, gone := newEcho(t), make(chan struct{})
	p := start(t, e.listener.Addr().String(), func() framing { return lines{gone} })
	p.Plan(Fault{At: 1, Kind: StallReply})
	c := dial(t, p)
	e.mu.Lock() // the server does not reply
	c.send(t, "one\n")
	await(t, func() bool { return p.Exchanges() == 1 })
	c.Close()
	<-gone
	e.mu.Unlock()
	requireHit(t, p, Fault{At: 1, Kind: StallReply})
	require.Equal(t, []string{"one"}, e.lines())
}

func TestPlanRestartsTheNumbering(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	c.send(t, "one\n")
	c.receive(longTimeout)
	p.Plan(Fault{At: 1, Kind: DropReply})
	require.Zero(t, p.Exchanges())
	c.send(t, "two\n")
	_, err := c.receive(longTimeout)
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, p.Hits(), 1)

	p.Plan()
	require.Empty(t, p.Hits())
	require.Equal(t, []string{"one", "two"}, e.lines())
}

func TestExchangesAreNumberedOverAllConnections(t *testing.T) {
	_, p := setUp(t)
	p.Plan(Fault{At: 3, Kind: DropReply})
	first, second := dial(t, p), dial(t, p)
	for i, c := range []client{first, second, first} {
		c.send(t, "line\n")
		_, err := c.receive(longTimeout)
		require.Equal(t, i == 2, err != nil)
	}
	require.Equal(t, 3, p.Exchanges())
}

func TestOnlyMatchingExchangesAreNumbered(t *testing.T) {
	_, p := setUp(t)
	p.Only(func(request []byte) bool { return request[0] == 't' })
	p.Plan(Fault{At: 2, Kind: DropReply})
	c := dial(t, p)
	for _, line := range []string{"one\n", "two\n", "four\n"} {
		c.send(t, line)
		got, err := c.receive(longTimeout)
		require.NoError(t, err)
		require.Equal(t, line, got)
	}
	c.send(t, "three\n")
	_, err := c.receive(longTimeout)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, p.Exchanges())
}

func TestDisconnectClosesConnections(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	c.send(t, "one\n")
	c.receive(longTimeout)
	p.Disconnect()
	_, err := c.receive(longTimeout)
	require.ErrorIs(t, err, io.EOF)
	dial(t, p).send(t, "two\n")
}

func TestServerThatIsDownClosesTheConnection(t *testing.T) {
	e, p := setUp(t)
	require.NoError(t, e.listener.Close())
	_, err := dial(t, p).receive(longTimeout)
	require.Error(t, err)
}

// requireHit waits until fault is the only hit.
func requireHit(t *testing.T, p *Proxy, fault Fault) {
	t.Helper()
	await(t, func() bool { return len(p.Hits()) > 0 })
	require.Equal(t, []Fault{fault}, p.Hits())
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, longTimeout, shortTimeout/10)
}
