package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// Response describes the response to a request after the handler has ended.
type Response struct {
	// Status is the status that the handler sent: 200 if it sent none, 101 if it hijacked the connection, and 500 if it panicked
	// first.
	Status  int
	Header  http.Header // of the ResponseWriter; do not change it
	Written int64       // bytes of content, without those to a hijacked connection
}

type responseKey struct{}

// ResponseTo returns the response to a request. found is true only while a request is settled.
func ResponseTo(r *http.Request) (response Response, found bool) {
	response, found = r.Context().Value(responseKey{}).(Response)
	return response, found
}

// WithResponse returns a copy of the request for which [ResponseTo] returns the response. Use it to test the Cost of a rule.
func WithResponse(r *http.Request, response Response) *http.Request {
	return r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), responseKey{}, response))
}

// responseRecorder notes what a handler sends.
type responseRecorder struct {
	http.ResponseWriter
	status   int // 0 until the handler has sent one
	hijacked bool
	written  int64
}

// response returns what was sent. completed reports whether the handler has returned.
func (w *responseRecorder) response(completed bool) Response {
	response := Response{Status: w.status, Header: w.Header(), Written: w.written}
	switch {
	case w.status != 0:
	case w.hijacked:
		response.Status = http.StatusSwitchingProtocols
	case completed:
		response.Status = http.StatusOK
	default:
		response.Status = http.StatusInternalServerError
	}
	return response
}

// note notes a status. Statuses below 200 are interim, except for 101. After a hijack, net/http sends none.
func (w *responseRecorder) note(status int) {
	if w.status == 0 && !w.hijacked && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
}

func (w *responseRecorder) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status) // panics if the status is invalid
	w.note(status)
}

func (w *responseRecorder) Write(p []byte) (int, error) {
	w.note(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that net/http can still send a file without a copy.
func (w *responseRecorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	if w.written += n; n > 0 { // otherwise the handler can still send another status
		w.note(http.StatusOK)
	}
	return n, err
}

// FlushError implements what http.ResponseController calls.
func (w *responseRecorder) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) { // it has sent the header, even if the client is gone
		w.note(http.StatusOK)
	}
	return err
}

func (w *responseRecorder) Flush() { _ = w.FlushError() }

// CloseNotify implements http.CloseNotifier, which some frameworks still call. If the original ResponseWriter does not implement it,
// the channel gets no value.
func (w *responseRecorder) CloseNotify() <-chan bool {
	if notifier, ok := w.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return notifier.CloseNotify()
	}
	return nil
}

func (w *responseRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
	}
	return conn, rw, err
}

// Unwrap returns the original ResponseWriter to http.ResponseController.
func (w *responseRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
