package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

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
