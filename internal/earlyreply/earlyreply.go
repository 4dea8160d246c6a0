// Package earlyreply answers a request before its body has arrived.
//
// Over HTTP/1, net/http reads up to 256 KB of an unread body before it sends the
// response, so that the connection can be kept. It reads at the client's pace, and a
// client that sends one byte each half second gets no answer for hours. Over HTTP/2 a
// response waits for nothing, and the stream ends with it.
package earlyreply

import (
	"net/http"
	"time"
)

// linger is for how long the server reads on after the response. A connection that is
// closed while the client still sends is reset, and a reset can overtake the response.
const linger = 500 * time.Millisecond

// Prepare must be called before the response is written, by a handler that does not
// read the body. The response is then sent as soon as the handler returns, and the
// connection closes after it: when the rest of the body has arrived, after 256 KB of it, or
// after half a second. It does nothing if the request has no body.
func Prepare(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody {
		return
	}
	w.Header().Set("Connection", "close")
	// A writer that hides the connection leaves its server's own timeouts in force.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(linger))
}
