package frontdoor

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSlowBodiesOfAllowedRequests are cut off, and their connections make room for others.
func TestSlowBodiesOfAllowedRequests(t *testing.T) {
	u := newUpstream(t)
	p := serve(t, "--limit", "gcra 100/s", "--upstream", u.url, "--min-body-rate", "1000", "--body-grace", "1s",
		"--client-timeout", "24h", "--max-connections", "2")
	var conns [4]net.Conn
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
		require.NoError(t, err)
		conns[i] = conn
	}
	for _, conn := range conns {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
	}
}

// TestSlowBodiesOfDeniedRequests: a thousand clients without quota send one byte of their
// bodies and no more. All are denied at once, and the program goes on to serve others.
func TestSlowBodiesOfDeniedRequests(t *testing.T) {
	const clients = 1000
	u := newUpstream(t)
	p := serve(t, "--limit", "fixedwindow 1/24h", "--by", "header:X-Client", "--upstream", u.url,
		"--client-timeout", "24h") // so that nothing but the denial ends the wait
	require.Equal(t, http.StatusOK, curl(t, "-H", "X-Client: slow", p.proxy).StatusCode)
	began := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Client: slow\r\nContent-Length: 100000\r\n\r\nx")
			assert.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("%d answered in %v", clients, took.Round(time.Millisecond))
	require.Less(t, took, 5*time.Second, "0.2 s where the machine has nothing else to do")
	require.EqualValues(t, 1, u.admitted())
	require.Equal(t, http.StatusOK, curl(t, "-H", "X-Client: other", p.proxy).StatusCode)
}
