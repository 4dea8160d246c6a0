package httplimit

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
)

// CostByContentLength is a cost: the bytes of the request's content. Without content a
// request is free under the rule. Where the client does not tell the length, the
// cost is unknown: take the most that the handler would read, and hold it to that
// with http.MaxBytesReader; or, on a client, the most that is sent. It panics if that is
// negative.
func CostByContentLength(unknown int64) func(*http.Request) int64 {
	requireCost(unknown)
	return func(r *http.Request) int64 {
		if r.ContentLength < 0 || streams(r) {
			return unknown
		}
		return r.ContentLength
	}
}

// streams reports whether a client's request has a body whose length it does not
// know, which is 0 there. A server's has a body in any case, and says -1.
func streams(r *http.Request) bool {
	onServer := r.RequestURI != ""
	return !onServer && r.ContentLength == 0 && r.Body != nil && r.Body != http.NoBody
}

// CostByMethod is a cost by the request's method, in its exact spelling, such as "POST";
// other is that of methods which are not listed. A cost of 0 is free. A method that
// nobody knows may cost much, or a client could call what it wants something else.
// A client's request without a method is a GET. It panics if a cost is negative.
func CostByMethod(costs map[string]int64, other int64) func(*http.Request) int64 {
	requireCost(other)
	for _, cost := range costs {
		requireCost(cost)
	}
	costs = maps.Clone(costs)
	return func(r *http.Request) int64 {
		if cost, ok := costs[cmp.Or(r.Method, http.MethodGet)]; ok {
			return cost
		}
		return other
	}
}

func requireCost(cost int64) {
	if cost < 0 {
		panic(fmt.Sprintf("httplimit: a cost must not be negative, got %d", cost))
	}
}
