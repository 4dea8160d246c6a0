package serve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// requestFault returns what is wrong with a request that net/http has accepted although http.Transport would
// refuse to send it or would change it. It returns "" if the request is valid. Over HTTP/1.1, net/http
// itself refuses most such requests.
func requestFault(r *http.Request) string {
	switch {
	case !config.IsToken(r.Method):
		return "want a method that is one word, such as GET"
	case strings.Contains(r.RequestURI, " "): // would become a part of the request line to the upstream
		return "want a path and a query without spaces, such as /a%20b"
	case r.URL.Opaque != "", // x:login, which would reach the upstream as login
		r.URL.Path != "" && r.URL.Path[0] != '/',                  // *, which would reach the upstream as /*
		r.ProtoMajor > 1 && !strings.HasPrefix(r.RequestURI, "/"): // http://..., which only HTTP/1.1 allows
		return "want a path, such as /login"
	case !config.HasOnly(r.Host, "!$%&'()*+,-.:;=[]_~"):
		return "want a host name without other characters, such as shop.example:8080"
	case slices.ContainsFunc(r.Header["Host"], func(host string) bool { return !strings.EqualFold(host, r.Host) }): // over HTTP/1.1, net/http has removed it
		return "want one host name, but the field Host names another than :authority"
	case !hasRightLength(r):
		return "want a Content-Length that is the length of the body"
	}
	return ""
}

// hasRightLength reports whether Content-Length is absent or a single number, and whether there is a body
// if it is not 0. Over HTTP/2, net/http accepts other values, and takes them as 0.
func hasRightLength(r *http.Request) bool {
	values := r.Header["Content-Length"]
	if len(values) == 0 {
		return true
	}
	length, err := strconv.ParseUint(values[0], 10, 63)
	return err == nil && len(values) == 1 && int64(length) == r.ContentLength
}
