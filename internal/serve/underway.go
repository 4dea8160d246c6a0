package serve

import (
	"net"
	"net/http"
	"sync"
)

// underway knows the connections that have a request, so that nothing is said to be
// cut off where nothing was. Those that were upgraded have none.
type underway struct {
	mu   sync.Mutex
	busy map[net.Conn]struct{}
}

// note is for http.Server.ConnState.
func (u *underway) note(conn net.Conn, state http.ConnState) {
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

func (u *underway) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.busy) > 0
}
