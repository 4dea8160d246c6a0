package httplimit

import "net/http"

// ContentLength is a cost: the bytes of the request's content. Without content a
// request is free under the rule. Where the client does not tell the length, the
// cost is unknown: take the most that the handler would read, and hold it to that
// with http.MaxBytesReader.
func ContentLength(unknown int64) func(*http.Request) int64 {
	return func(r *http.Request) int64 {
		if r.ContentLength < 0 {
			return unknown
		}
		return r.ContentLength
	}
}
