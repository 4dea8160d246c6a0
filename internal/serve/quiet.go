package serve

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// unquiet cuts off clients that hold a connection, here and at the upstream, and for
// so long send nothing of what they said they would, or slowly times as long take
// nothing of the response.
// How long all of it takes is their own affair: uploads and downloads may go on for
// hours. Connections that were upgraded are not cut, because both ends agreed to them.
// A quiet of 0 cuts nobody off.
func unquiet(quiet time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &conversation{ResponseController: http.NewResponseController(w), quiet: quiet}
		if r.Body != nil && r.Body != http.NoBody {
			c.unread = true
			r = r.WithContext(r.Context()) // the server goes by the type of its own Body
			r.Body = &heard{r.Body, c}
		}
		defer c.leave() // a proxy panics if a response breaks off
		next.ServeHTTP(&spoken{w, c}, r)
	})
}

// conversation sets deadlines while something is read or written, and takes them back
// in between: then it may be the upstream that is quiet. Over HTTP/1 the server itself
// reads when the content is over, and over HTTP/2 a deadline ends a response at which
// nobody writes.
type conversation struct {
	*http.ResponseController
	quiet time.Duration

	mu      sync.Mutex // content is read, and the response written, at the same time
	unread  bool       // there may be more of the content
	hearing int
	broke   error // why there is no more of the content: nothing came, or nothing that is HTTP
	over    bool  // the connection is the server's again
}

func (c *conversation) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hearing++; c.unread && !c.over && c.quiet > 0 {
		_ = c.SetReadDeadline(time.Now().Add(c.quiet))
	}
}

// leave is when the handler returns. The server reads and writes what is left, and
// sets deadlines anew for the next request, whose connection may be the same: so who
// still reads the content of this one, as a transport may, sets none any more. Over
// HTTP/2 there would not even be anything left to set them on.
func (c *conversation) leave() {
	c.speak()
	c.hear()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func (c *conversation) heard(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		c.unread = false
	case c.broke == nil && !c.over:
		c.broke = err
	}
	if c.hearing--; c.hearing == 0 && !c.over && c.quiet > 0 {
		_ = c.SetReadDeadline(time.Time{})
	}
}

// slowly is how many times longer a client may take nothing than send nothing. The
// buffers of the kernels between empty in steps of a megabyte or more: so who takes
// little, but steadily, seems to take nothing for minutes. And the server may first
// wait for content that nobody has read.
const slowly = 10

func (c *conversation) speak() {
	if c.quiet > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(slowly * c.quiet))
	}
}

func (c *conversation) spoken() {
	if c.quiet > 0 {
		_ = c.SetWriteDeadline(time.Time{})
	}
}

// heard is the content of a request.
type heard struct {
	io.ReadCloser
	c *conversation
}

// Read implements io.Reader.
func (h *heard) Read(p []byte) (n int, err error) {
	h.c.hear()
	n, err = h.ReadCloser.Read(p)
	h.c.heard(err)
	return n, err
}

// spoken is a response.
type spoken struct {
	http.ResponseWriter
	c *conversation
}

// Unwrap is for http.ResponseController.
func (s *spoken) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write implements io.Writer.
func (s *spoken) Write(p []byte) (n int, err error) {
	s.send(func() { n, err = s.ResponseWriter.Write(p) })
	return n, err
}

// FlushError is what http.ResponseController flushes by.
func (s *spoken) FlushError() (err error) {
	s.send(func() { err = s.c.Flush() })
	return err
}

func (s *spoken) send(what func()) {
	s.c.hear()
	s.c.speak()
	what()
	s.c.spoken()
	s.c.heard(nil)
}

// brokenContent is why the content of the request that w answers came to no end;
// nil if it did, or may still. What the reader of the content makes of that, no error
// says for certain: the server cancels the request.
func brokenContent(w http.ResponseWriter) error {
	for {
		switch v := w.(type) {
		case *spoken:
			v.c.mu.Lock()
			defer v.c.mu.Unlock()
			return v.c.broke
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}
