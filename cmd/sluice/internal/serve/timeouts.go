package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults for slow clients. Kestrel's MinRequestBodyDataRate is 240 bytes a second too,
// after 5 seconds; Apache's mod_reqtimeout requires 500 bytes a second after 20 seconds. Ten
// seconds cover the pauses of a bad mobile connection.
const (
	defaultMinBodyRate = 240
	defaultBodyGrace   = 10 * time.Second
)

// idleTimeout closes the connection of a client that sends none of its request's body for
// ClientTimeout, or sends it more slowly than MinBodyRate, or takes none of the response for
// writeFactor times ClientTimeout. Connections that were upgraded are left alone.
//
// Over HTTP/2 the rate does not hold any more when the response has begun: client and
// upstream may then be talking in both directions, as gRPC streams do, with pauses.
func (o *Options) idleTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &transfer{ResponseWriter: w, ResponseController: http.NewResponseController(w), o: o, credit: o.BodyGrace, duplex: r.ProtoMajor > 1, http10: !r.ProtoAtLeast(1, 1)}
		t.unread = r.Body != nil && r.Body != http.NoBody
		if t.unread || len(r.Header["Upgrade"]) > 0 {
			r = r.WithContext(context.WithValue(r.Context(), transferKey{}, t))
		}
		if t.unread {
			_ = t.ResponseController.SetReadDeadline(time.Time{}) // instead of requestTime
			r.Body = &trackedBody{r.Body, t}
		}
		defer t.end() // a reverse proxy panics if a response breaks off
		next.ServeHTTP(t, r)
	})
}

type transferKey struct{} // of the context of a request with a body, or for an upgrade

// transfer is the writer of a response. It sets deadlines while the body of the request is read and
// the response is written, and clears them in between: then it may be the upstream that is idle.
// Over HTTP/1 the server itself reads when the body is over, and over HTTP/2 a deadline ends a
// response that nobody writes at the moment.
type transfer struct {
	http.ResponseWriter
	*http.ResponseController
	o      *Options
	duplex bool // the body can be read after the response has begun
	http10 bool // over HTTP/1.0, which has no interim responses

	mu sync.Mutex // the body is read and the response written at the same time
	// credit is how long the server still waits for a client that is slower than the rate. Waiting
	// reduces it, and each byte adds the time that it takes at the rate. It never exceeds the grace,
	// so a fast beginning does not pay for a slow rest.
	credit   time.Duration
	unread   bool  // there may be more of the body
	begun    bool  // the response has begun
	waiting  int   // calls that wait for the client to send
	broke    error // why the rest of the body cannot be read
	released bool  // the handler has set a read deadline of its own, or has returned
	hijacked bool
}

// beginRead sets the read deadline.
func (t *transfer) beginRead(writes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	t.begun = t.begun || writes
	rated := t.o.MinBodyRate > 0 && !(t.begun && t.duplex)
	wait := t.o.ClientTimeout
	if rated && (wait == 0 || t.credit < wait) {
		wait = t.credit
	}
	if !t.unread || t.released {
		return
	}
	if rated || wait > 0 {
		_ = t.ResponseController.SetReadDeadline(time.Now().Add(wait))
	}
	if !t.begun && !t.duplex { // net/http may send 100 Continue before it reads
		t.beginWrite()
	}
}

// endRead clears the read deadline, when n bytes of the body or an error came after a wait.
func (t *transfer) endRead(waited time.Duration, n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.o.MinBodyRate > 0 {
		earned := time.Duration(float64(n) / float64(t.o.MinBodyRate) * float64(time.Second))
		t.credit = min(t.o.BodyGrace, t.credit-waited+earned)
	}
	switch {
	case errors.Is(err, io.EOF):
		t.unread = false
	case t.broke == nil && !t.released:
		t.broke = err
	}
	if t.waiting--; t.waiting == 0 && !t.released && (t.o.ClientTimeout > 0 || t.o.MinBodyRate > 0) {
		_ = t.ResponseController.SetReadDeadline(time.Time{})
	}
}

// SetReadDeadline sets a deadline that replaces those of the timeout.
func (t *transfer) SetReadDeadline(deadline time.Time) error {
	t.release()
	return t.ResponseController.SetReadDeadline(deadline)
}

func (t *transfer) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
}

// end is called when the handler returns. The server then reads and writes what is left,
// under the deadlines that end sets. A transport may still read the body after that. Such a
// read sets no deadlines: the connection may serve the next request, and over HTTP/2 the
// stream is gone.
func (t *transfer) end() {
	t.beginWrite()
	t.beginRead(false)
	t.release()
}

// writeFactor is how many times longer a client may take nothing than send nothing. The
// kernels' buffers in between empty in steps of a megabyte or more, so a slow client seems
// to take nothing for minutes. The server may also first wait for an unread body.
const writeFactor = 10

func (t *transfer) beginWrite() {
	if t.o.ClientTimeout > 0 {
		_ = t.SetWriteDeadline(time.Now().Add(writeFactor * t.o.ClientTimeout))
	}
}

func (t *transfer) endWrite() {
	if t.o.ClientTimeout > 0 {
		_ = t.SetWriteDeadline(time.Time{})
	}
}

// trackedBody is the body of a request.
type trackedBody struct {
	io.ReadCloser
	t *transfer
}

// Read implements io.Reader.
func (b *trackedBody) Read(p []byte) (n int, err error) {
	b.t.beginRead(false)
	began := time.Now()
	n, err = b.ReadCloser.Read(p)
	b.t.endRead(time.Since(began), n, err)
	return n, err
}

// Write implements io.Writer.
func (t *transfer) Write(p []byte) (n int, err error) {
	t.send(func() { n, err = t.ResponseWriter.Write(p) })
	return n, err
}

// WriteHeader implements http.ResponseWriter. It sends interim responses at once.
//
// If the client cancels a request over HTTP/2, net/http can read the header of an interim response when it has
// returned. If the header changes meanwhile, the process ends (golang.org/issue/67940). With a Content-Length, which no
// interim response has, net/http reads a copy.
func (t *transfer) WriteHeader(status int) {
	const length = "Content-Length"
	if header := t.Header(); status < 200 {
		if t.http10 { // the client would take it for the response (RFC 9110, section 15.2)
			return
		}
		removeConnectionFields(header)
		if header[length] == nil {
			header[length] = []string{"0"}
			defer delete(header, length)
		}
	}
	t.beginWrite()
	t.ResponseWriter.WriteHeader(status)
	t.endWrite()
}

// removeConnectionFields removes the fields of one connection. ReverseProxy leaves them in interim responses (golang.org/issue/81319),
// and clients refuse them over HTTP/2 (RFC 9113, section 8.2.2).
func removeConnectionFields(h http.Header) {
	for name := range connectionFields(h) {
		delete(h, name)
	}
	for _, name := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		delete(h, name)
	}
}

// connectionFields yields the names of the fields that Connection lists.
func connectionFields(h http.Header) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range h["Connection"] {
			for name := range strings.SplitSeq(list, ",") {
				if !yield(http.CanonicalHeaderKey(strings.TrimSpace(name))) {
					return
				}
			}
		}
	}
}

// FlushError is for http.ResponseController.
func (t *transfer) FlushError() (err error) {
	t.send(func() { err = t.Flush() })
	return err
}

// Hijack is for http.ResponseController. ReverseProxy reads only the connection, so that first gives what the server has
// read after the request (golang.org/issue/80875).
func (t *transfer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := t.ResponseController.Hijack()
	t.hijacked = err == nil
	if err != nil || buffer.Reader.Buffered() == 0 {
		return conn, buffer, err
	}
	return &hijackedConn{conn.(halfCloser), buffer.Reader}, buffer, nil
}

// hijackedConn is a connection of which the server has read a part.
type hijackedConn struct {
	halfCloser // ReverseProxy passes on that the upstream has closed its half
	buffer     *bufio.Reader
}

// Read implements io.Reader.
func (c *hijackedConn) Read(p []byte) (int, error) {
	if c.buffer.Buffered() > 0 {
		return c.buffer.Read(p)
	}
	return c.halfCloser.Read(p)
}

// send sets both deadlines, because the server may read the rest of the body before it
// writes.
func (t *transfer) send(write func()) {
	t.beginRead(true)
	t.beginWrite()
	write()
	t.endWrite()
	t.endRead(0, 0, nil)
}

// transferOf returns the transfer of a request with a body, or for an upgrade. For other requests it returns an empty one.
func transferOf(r *http.Request) *transfer {
	if t, ok := r.Context().Value(transferKey{}).(*transfer); ok {
		return t
	}
	return new(transfer)
}

// bodyState reports whether there may be more of the request's body, and the error with which the
// body ended early. Errors of a reader of the body are not reliable, because the server cancels the
// request too.
func bodyState(r *http.Request) (unread bool, broke error) {
	t := transferOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unread, t.broke
}

// sendTimeout is a RoundTripper that ends a request if the upstream takes none of its body for d
// and has not begun its response. The ResponseHeaderTimeout of http.Transport does not do that: it
// begins when the whole body has been sent. The time in which the client sends nothing does not
// count.
//
// The kernels' buffers in between empty in steps of a megabyte or more, so an upstream that reads
// slowly seems to take nothing for the time in which it reads such a step.
type sendTimeout struct {
	http.RoundTripper
	d time.Duration
}

var errNotTaken = fmt.Errorf("the upstream does not read the request body: %w", os.ErrDeadlineExceeded)

// RoundTrip implements http.RoundTripper.
func (t sendTimeout) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || t.d == 0 {
		return t.RoundTripper.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(t.d, func() { cancel(errNotTaken) })
	timer.Stop() // until the first read: the transport may wait for 100 Continue before that
	body := &sentBody{ReadCloser: r.Body, d: t.d, timer: timer}
	r = r.WithContext(ctx)
	r.Body = body
	response, err := t.RoundTripper.RoundTrip(r)
	body.answered.Store(true)
	timer.Stop()
	if !errors.Is(context.Cause(ctx), errNotTaken) {
		return response, err
	}
	if err == nil {
		_ = response.Body.Close()
	}
	return nil, errNotTaken
}

// sentBody is the body of a request to the upstream. Its timer runs while the upstream takes what
// was read.
type sentBody struct {
	io.ReadCloser
	d        time.Duration
	timer    *time.Timer
	answered atomic.Bool // the timer must not run any more
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.timer.Stop()
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.d)
	if b.answered.Load() {
		b.timer.Stop()
	}
	return n, err
}
