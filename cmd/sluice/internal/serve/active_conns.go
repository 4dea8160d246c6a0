package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// activeConns has the connections with a request in flight, so that Close can report whether it
// cut off requests. Upgraded connections do not count.
type activeConns struct {
	mu   sync.Mutex
	busy map[net.Conn]struct{}
}

// note is an http.Server.ConnState hook.
func (u *activeConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateActive {
		delete(u.busy, conn)
		return
	}
	if u.busy == nil {
		u.busy = make(map[net.Conn]struct{})
	}
	u.busy[conn] = struct{}{}
}

// cutGrace is how long Close waits for requests to end. A client can have its complete response
// before the server marks the connection as idle.
const cutGrace = 100 * time.Millisecond

// waitIdle waits until no connection has a request, for at most d. It reports whether there is
// none.
func (u *activeConns) waitIdle(d time.Duration) bool {
	end := time.After(d)
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for u.any() {
		select {
		case <-end:
			return false
		case <-ticks.C:
		}
	}
	return true
}

func (u *activeConns) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.busy) > 0
}
