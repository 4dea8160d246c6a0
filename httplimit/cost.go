package httplimit

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
)

// CostByContentLength returns a rule's Cost: the length of the request's content in bytes.
// A request without content costs 0, so the rule does not apply to it.
//
// unknown is the cost if the request does not say the length. On a server, use the most
// bytes that the handler reads, and enforce it by http.MaxBytesReader. On a client, use the
// most bytes that are sent. CostByContentLength panics if unknown is negative.
func CostByContentLength(unknown int64) func(*http.Request) int64 {
	requireCost(unknown)
	return func(r *http.Request) int64 {
		if r.ContentLength < 0 || hasUnknownLength(r) {
			return unknown
		}
		return r.ContentLength
	}
}

// hasUnknownLength reports whether a client's request has a body of unknown length. On a
// client, ContentLength is 0 then; on a server it is -1.
func hasUnknownLength(r *http.Request) bool {
	onServer := r.RequestURI != ""
	return !onServer && r.ContentLength == 0 && hasBody(r)
}

// CostByMethod returns a rule's Cost that depends on the request's method. Methods are
// case-sensitive, as in "POST". other is the cost of all methods that are not in costs. Make
// it high, because clients can invent methods. A cost of 0 means that the rule does not apply. On a client, a
// request without a method is a GET. CostByMethod panics if a cost is negative.
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
