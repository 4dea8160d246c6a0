package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// KeyByPathValue returns a rule's Key: the part of the path that a wildcard of the ServeMux's
// pattern matched. The key is empty for all requests if the limiter is in front of the mux,
// so put the limiter behind it.
func KeyByPathValue(wildcard string) func(*http.Request) string {
	return func(r *http.Request) string { return r.PathValue(wildcard) }
}

// KeyByPattern is a rule's Key: the ServeMux's pattern that the request matched. The key is
// empty for all requests if the limiter is in front of the mux, so put the limiter behind
// it.
func KeyByPattern(r *http.Request) string { return r.Pattern }

// KeyByHost is a rule's Key: the host of the request in lower case, without a final dot, so
// that each server has one key. The key has the port unless it is the default port of the
// scheme. On a server, the client chooses the host.
func KeyByHost(r *http.Request) string {
	host, scheme := r.Host, "" // on a server
	if r.URL != nil && r.URL.Host != "" {
		host, scheme = r.URL.Host, strings.ToLower(r.URL.Scheme)
	}
	name, port := strings.ToLower(host), ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, ']') {
		name, port = name[:colon], name[colon:]
	}
	name = strings.TrimSuffix(name, ".")
	if port == ":" || scheme == "http" && port == ":80" || scheme == "https" && port == ":443" {
		return name
	}
	return name + port
}

// JoinKeys returns a rule's Key that consists of several keys. Each key is quoted before they are
// joined, so two different lists of keys never give the same result. It panics if one of the
// functions is nil.
func JoinKeys(keys ...func(*http.Request) string) func(*http.Request) string {
	for i, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("httplimit: key %d of JoinKeys must not be nil", i))
		}
	}
	return func(r *http.Request) string {
		var text []byte
		for i, key := range keys {
			if i > 0 {
				text = append(text, ' ')
			}
			text = strconv.AppendQuote(text, key(r))
		}
		return string(text)
	}
}

// CostByContentLength returns a rule's Cost: the length of the request's content in bytes.
// A request without content costs 0, so the rule does not apply to it.
//
// unknown is the cost if the request does not say the length. On a server, use the most
// bytes that the handler reads, and enforce it by http.MaxBytesReader. On a client, use the
// most bytes that are sent. CostByContentLength panics if unknown is negative.
func CostByContentLength(unknown int64) func(*http.Request) int64 {
	if unknown < 0 {
		panic(fmt.Sprintf("httplimit: a cost must not be negative, got %d", unknown))
	}
	return func(r *http.Request) int64 {
		// If the length is not known, it is -1 on a server, and 0 on a client.
		onClient := r.RequestURI == ""
		if r.ContentLength < 0 || onClient && r.ContentLength == 0 && hasBody(r) {
			return unknown
		}
		return r.ContentLength
	}
}
