// Package earlyreply sends a response before the body of the request has arrived.
//
// For HTTP/1, net/http reads up to 256 KB of an unread body before it sends the response, so that
// it can reuse the connection. It reads as slowly as the client sends. A client that sends one byte
// each half second would wait for hours. For HTTP/2, net/http sends the response at once.
package earlyreply

import (
	"net/http"
	"time"
)

// drainTime is how long the server reads the rest of the body after the response. If it closes the
// connection while the client sends, TCP resets it, and the reset can overtake the response.
const drainTime = 500 * time.Millisecond

// Prepare makes the server send the response as soon as the handler returns. A handler that does
// not read the body calls it before it writes the response. The connection closes after the
// response: when the rest of the body or 256 KB of it have arrived, or after half a second. Prepare
// does nothing if the request has no body.
func Prepare(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 { // Body can be a middleware's, also without content
		return
	}
	w.Header().Set("Connection", "close")
	// If w does not support deadlines, the timeouts of the server apply.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
}
