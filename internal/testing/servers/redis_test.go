package servers

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedisKeepsDataOnlyWithAppendOnly(t *testing.T) {
	tests := []struct {
		settings []string
		kept     string
	}{
		{nil, ""},
		{[]string{"appendonly yes", "appendfsync always"}, "value"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.settings, " "), func(t *testing.T) {
			s := Redis(t, test.settings...)
			reply, err := s.Do("SET", "key", "value")
			require.NoError(t, err)
			require.Equal(t, "OK", reply)
			s.Kill()
			require.NoError(t, s.Start())
			reply, err = s.Do("GET", "key")
			require.NoError(t, err)
			require.Equal(t, test.kept, reply)
		})
	}
}

func TestRedisListensOnTCPAndUnixSocket(t *testing.T) {
	s := shared.Redis(t)
	for network, addr := range map[string]string{"tcp": s.Addr(), "unix": s.Socket()} {
		conn, err := net.Dial(network, addr)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", line)
	}
}

func TestRepliesAreText(t *testing.T) {
	s := shared.Redis(t)
	for script, want := range map[string]string{
		`return redis.status_reply("OK")`: "OK",
		`return -12`:                      "-12",
		`return "a\r\nb"`:                 "a\r\nb",
		`return false`:                    "",
		`return {"a", 2, {"c"}}`:          "a\n2\nc",
	} {
		text, err := s.Do("EVAL", script, "0")
		require.NoError(t, err, script)
		require.Equal(t, want, text, script)
	}
	_, err := s.Do("EVAL", `return redis.error_reply("ERR no")`, "0")
	require.EqualError(t, err, "ERR no")
}

func TestSentinelPromotesTheReplica(t *testing.T) {
	s := Sentinel(t)
	defer func() {
		if t.Failed() {
			t.Log(s.Sentinel.Log())
		}
	}()
	addr, err := s.PrimaryAddr()
	require.NoError(t, err)
	require.Equal(t, s.Primary.Addr(), addr)

	s.Primary.Kill()
	require.NoError(t, waitUntil("the replica is promoted", func() bool {
		addr, err := s.PrimaryAddr()
		return err == nil && addr == s.Replica.Addr()
	}))
	reply, err := s.Replica.Do("SET", "key", "value")
	require.NoError(t, err)
	require.Equal(t, "OK", reply)

	require.NoError(t, s.Primary.Start())
	require.NoError(t, waitUntil("the old primary follows the new", func() bool {
		return s.Primary.replies("INFO replication", "role:slave", "master_link_status:up")
	}))
}

func TestNodesOfAClusterOwnTheirSlots(t *testing.T) {
	const key, slot = "123456789", 0x31c3 // the example of the specification
	c := shared.Cluster(t)
	require.Same(t, c.Nodes[0], c.Owner(0))
	require.Same(t, c.Nodes[2], c.Owner(slots-1))
	require.Len(t, c.Addrs(), 3)

	for _, node := range c.Nodes {
		reply, err := node.Do("SET", key, "value")
		if node == c.Owner(slot) {
			require.NoError(t, err)
			require.Equal(t, "OK", reply)
		} else {
			require.EqualError(t, err, "MOVED 12739 "+c.Owner(slot).Addr())
		}
	}
}
