package serve

import (
	"maps"
	"net/http"
	"strings"
)

// onlyWebSockets makes requests that would upgrade to anything else plain ones, before
// the proxy reads them. Many servers would switch to h2c, and the client could then
// send them requests that no limit sees; what is no word for a protocol would count as
// a failure of the upstream.
func onlyWebSockets(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, settings := r.Header[settingsOfHTTP2]
		if other := offersOther(r.Header["Upgrade"]); other || settings {
			r = r.WithContext(r.Context()) // the server goes on with its own
			r.Header = maps.Clone(r.Header)
			delete(r.Header, settingsOfHTTP2)
			if other {
				delete(r.Header, "Upgrade") // without it the proxy sends no Connection either
			}
		}
		next.ServeHTTP(w, r)
	})
}

const settingsOfHTTP2 = "Http2-Settings"

// offersOther reports whether there is anything but a WebSocket to upgrade to. From a
// list a server may choose.
func offersOther(offered []string) bool {
	return len(offered) > 0 && (len(offered) > 1 || !strings.EqualFold(offered[0], "websocket"))
}
