package serve

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// idleTimeout closes the connection of a client that sends none of its request's body for
// d, or sends it more slowly than rate, or takes none of the response for writeFactor
// times d. Connections that were upgraded are left alone. If d is 0 there is no timeout.
//
// Over HTTP/2 the rate does not hold any more when the response has begun: client and
// upstream may then be talking in both directions, as gRPC streams do, with pauses.
func idleTimeout(d time.Duration, rate bodyRate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &transfer{ResponseController: http.NewResponseController(w), idle: d, credit: rate.credit(), duplex: r.ProtoMajor > 1}
		if r.Body != nil && r.Body != http.NoBody {
			t.unread = true
			r = r.WithContext(r.Context()) // the server goes by the type of its own Body
			r.Body = &trackedBody{r.Body, t}
		}
		defer t.end() // a reverse proxy panics if a response breaks off
		next.ServeHTTP(&trackedWriter{w, t}, r)
	})
}

// transfer sets deadlines while a body is read and a response is written, and clears them
// in between: then it may be the upstream that is idle. Over HTTP/1 the server itself
// reads when the body is over, and over HTTP/2 a deadline ends a response that nobody
// writes at the moment.
type transfer struct {
	*http.ResponseController
	idle   time.Duration
	duplex bool // the body can be read after the response has begun

	mu      sync.Mutex // the body is read and the response written at the same time
	credit  bodyCredit
	unread  bool  // there may be more of the body
	begun   bool  // the response has
	waiting int   // calls that wait for the client to send
	broke   error // why the rest of the body cannot be read
	fixed   bool  // the handler has set a read deadline of its own
	over    bool  // the connection is the server's again
}

// beginRead sets the read deadline.
func (t *transfer) beginRead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	if wait, bounded := t.longestWait(); bounded && t.unread && !t.fixed && !t.over {
		_ = t.ResponseController.SetReadDeadline(time.Now().Add(wait))
	}
}

// longestWait is for how long the client may now send nothing.
func (t *transfer) longestWait() (wait time.Duration, bounded bool) {
	rated := t.credit.bytes > 0 && !(t.begun && t.duplex)
	switch {
	case rated && t.idle > 0:
		return min(t.credit.left, t.idle), true
	case rated:
		return t.credit.left, true
	}
	return t.idle, t.idle > 0
}

// endRead clears the read deadline.
func (t *transfer) endRead(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		t.unread = false
	case t.broke == nil && !t.over:
		t.broke = err
	}
	if t.waiting--; t.waiting == 0 && !t.fixed && !t.over && (t.idle > 0 || t.credit.bytes > 0) {
		_ = t.ResponseController.SetReadDeadline(time.Time{})
	}
}

// received updates the credit after n bytes of the body came after a wait.
func (t *transfer) received(waited time.Duration, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.credit.note(waited, n)
}

// SetReadDeadline sets a deadline that replaces those of the timeout.
func (t *transfer) SetReadDeadline(deadline time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fixed = true
	return t.ResponseController.SetReadDeadline(deadline)
}

// end is called when the handler returns. The server then reads and writes what is left,
// under the deadlines that end sets. Whoever still reads the body after that, as a
// transport may, must set no deadlines: the connection may serve the next request, and over
// HTTP/2 the stream is gone.
func (t *transfer) end() {
	t.beginWrite()
	t.beginRead()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// writeFactor is how many times longer a client may take nothing than send nothing. The
// kernels' buffers in between empty in steps of a megabyte or more, so a slow client seems
// to take nothing for minutes. The server may also first wait for an unread body.
const writeFactor = 10

func (t *transfer) beginWrite() {
	if t.idle > 0 {
		_ = t.SetWriteDeadline(time.Now().Add(writeFactor * t.idle))
	}
}

func (t *transfer) endWrite() {
	if t.idle > 0 {
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
	b.t.beginRead()
	began := time.Now()
	n, err = b.ReadCloser.Read(p)
	b.t.received(time.Since(began), n)
	b.t.endRead(err)
	return n, err
}

// trackedWriter writes a response.
type trackedWriter struct {
	http.ResponseWriter
	t *transfer
}

// Unwrap is for http.ResponseController.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReadDeadline is for http.ResponseController.
func (w *trackedWriter) SetReadDeadline(deadline time.Time) error {
	return w.t.SetReadDeadline(deadline)
}

// Write implements io.Writer.
func (w *trackedWriter) Write(p []byte) (n int, err error) {
	w.send(func() { n, err = w.ResponseWriter.Write(p) })
	return n, err
}

// FlushError is for http.ResponseController.
func (w *trackedWriter) FlushError() (err error) {
	w.send(func() { err = w.t.Flush() })
	return err
}

// send sets both deadlines, because the server may read the rest of the body before it
// writes.
func (w *trackedWriter) send(write func()) {
	w.t.begin()
	w.t.beginRead()
	w.t.beginWrite()
	write()
	w.t.endWrite()
	w.t.endRead(nil)
}

// begin notes that the response begins.
func (t *transfer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
}

// transferOf finds the transfer that a response belongs to, or nil.
func transferOf(w http.ResponseWriter) *transfer {
	for {
		switch v := w.(type) {
		case *trackedWriter:
			return v.t
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// bodyState reports whether there may be more of the request's body, and the error with which the
// body ended early. Errors of a reader of the body are not reliable, because the server cancels the
// request too.
func bodyState(w http.ResponseWriter) (unread bool, broke error) {
	t := transferOf(w)
	if t == nil {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unread, t.broke
}
