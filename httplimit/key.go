package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// KeyByPathValue is a key: what a wildcard of the ServeMux's pattern matched. It is
// empty unless the limiter stands behind the mux.
func KeyByPathValue(wildcard string) func(*http.Request) string {
	return func(r *http.Request) string { return r.PathValue(wildcard) }
}

// KeyByPattern is a key: the ServeMux's pattern that the request matched. It is empty
// unless the limiter stands behind the mux.
func KeyByPattern(r *http.Request) string { return r.Pattern }

// KeyByHost is a key: the host that the request is for, with its port if one is named
// that is not its scheme's. It is in small letters, without a dot that ends it, so
// that one server has one key. On a server it is what the client says.
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

// defaultPort is that of the schemes which net/http speaks. The scheme is empty in
// the requests that servers get.
func defaultPort(scheme string) string {
	switch {
	case strings.EqualFold(scheme, "http"):
		return ":80"
	case strings.EqualFold(scheme, "https"):
		return ":443"
	}
	return ""
}

// JoinKeys is a key made of several. Each is quoted, so that no value of one can pass
// for a value of another.
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
