package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage/driver"
)

const (
	refusalTime = 250 * time.Millisecond // how long a call waits for the reply of a server to a new connection
	refusalKept = 10 * time.Second       // how long that reply is used for further errors
	askingEvery = time.Second            // how often a server is asked that has not refused a connection
)

// refusal asks a server for its reply to a new connection, and keeps the reply, because a call whose deadline has passed cannot ask.
type refusal struct {
	asking sync.Mutex // is held while a call asks; the others do not wait, because their deadlines can be earlier
	last   atomic.Pointer[serverReply]
}

// serverReply is the reply of a server to a new connection, if it was an error, and otherwise "".
type serverReply struct {
	addr string
	at   time.Time
	text string
}

// withRefusal adds the reason to err if the server closes connections because it has too many clients, or because of its
// protected mode. Such a server sends an error before it reads anything. go-redis takes that for the reply to HELLO, ignores
// it, and only reports a closed connection. So withRefusal connects again and reads the error. name is one of the keys in
// Redis.
func (s *Store) withRefusal(ctx context.Context, name string, err error) error {
	isClosed := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if !isClosed {
		return err
	}
	server, _ := s.client.(*redis.Client)
	if s.serverOf != nil {
		server, _ = s.serverOf(name)
	}
	if server == nil {
		return err
	}
	if reply := s.refusal.of(ctx, server.Options()); reply != "" {
		return fmt.Errorf("%w (the server replies to a new connection: %s)", err, reply)
	}
	return err
}

func (r *serverReply) isFresh() bool {
	kept := askingEvery
	if r.text != "" {
		kept = refusalKept
	}
	return time.Since(r.at) < kept
}

// of returns the error that a server replies to a new connection, or "".
func (r *refusal) of(ctx context.Context, o *redis.Options) string {
	if last := r.last.Load(); last != nil && last.addr == o.Addr && last.isFresh() {
		return last.text
	}
	if ctx.Err() != nil || !r.asking.TryLock() {
		return ""
	}
	defer r.asking.Unlock()
	asking, cancel := context.WithTimeout(ctx, refusalTime)
	defer cancel()
	// With TLS, the dialer of go-redis ignores the context. An error means that no time is left.
	reply, _ := driver.Detached(asking, func(ctx context.Context) (string, error) { return askRefusal(ctx, o), nil })
	r.last.Store(&serverReply{o.Addr, time.Now(), reply})
	return reply
}

// askRefusal connects to a server and returns the error that it replies, or "". A server that accepts the connection
// replies to PING, perhaps that the client must send a password first.
func askRefusal(ctx context.Context, o *redis.Options) string {
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	_, _ = io.WriteString(conn, "PING\r\n") // fails if the server has closed the connection already
	line, _ := bufio.NewReader(conn).ReadString('\n')
	if reply, isError := strings.CutPrefix(line, "-"); isError && !strings.HasPrefix(reply, "NOAUTH") {
		return strings.TrimSpace(reply)
	}
	return ""
}
