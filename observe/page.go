package observe

import (
	"net/http"
)

// ServeHTTP answers GET with the list.
func (d *Denied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusNotImplemented)
}
