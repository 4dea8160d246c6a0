package serve

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// activeConns knows the connections that have a request, so that nothing is said to be
// cut off where nothing was. Those that were upgraded have none.
type activeConns struct {
	mu   sync.Mutex
	busy map[net.Conn]struct{}
}

// note is for http.Server.ConnState.
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

// cutGrace is for how long Close waits for requests to end. A client can have its whole
// response before the server notes that the request has ended.
const cutGrace = 100 * time.Millisecond

// waitIdle waits until no connection has a request, for at most d, and reports whether that
// is so.
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
