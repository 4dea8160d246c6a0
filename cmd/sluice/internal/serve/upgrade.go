package serve

import (
	"maps"
	"net/http"
	"strings"
)

// onlyWebSockets removes upgrades to other protocols from requests. Many servers would switch to
// h2c, and the client could then send them requests without limits. An invalid protocol name
// would count as a failure of the upstream.
func onlyWebSockets(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, settings := r.Header[settingsOfHTTP2]
		if other := offersOther(r.Header["Upgrade"]); other || settings {
			r = r.WithContext(r.Context()) // do not change the server's own request
			r.Header = maps.Clone(r.Header)
			delete(r.Header, settingsOfHTTP2)
			if other {
				delete(r.Header, "Upgrade") // the proxy then sends no Connection either
			}
		}
		next.ServeHTTP(w, r)
	})
}

const settingsOfHTTP2 = "Http2-Settings"

// offersOther reports whether the request offers any protocol but WebSocket. A server may choose
// any protocol of a list.
func offersOther(offered []string) bool {
	return len(offered) > 0 && (len(offered) > 1 || !strings.EqualFold(offered[0], "websocket"))
}
