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
	host, scheme := r.Host, ""
	if r.URL != nil && r.URL.Host != "" {
		host, scheme = r.URL.Host, r.URL.Scheme
	}
	host = strings.ToLower(host)
	name, port := host, ""
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		name, port = host[:colon], host[colon:]
	}
	name = strings.TrimSuffix(name, ".")
	if port == ":" || port == defaultPort(scheme) {
		return name
	}
	return name + port
}

// defaultPort returns the port of http and https. On a server the scheme is empty.
func defaultPort(scheme string) string {
	switch {
	case strings.EqualFold(scheme, "http"):
		return ":80"
	case strings.EqualFold(scheme, "https"):
		return ":443"
	}
	return ""
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
