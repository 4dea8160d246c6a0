//go:build !js

package compare

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/localhost"
)

// files has the static files of the page.
//
//go:embed page
var files embed.FS

const (
	maxRequest = 1 << 20   // bytes of JSON
	maxLog     = 256 << 20 // bytes of a log
)

var errTooLarge = errors.New("the log is larger than 256 MB; use a part of it, or sluice replay, which has no limit")

// policy of the page: it loads nothing from elsewhere. Chart libraries set sizes in style attributes
// through the DOM, which needs no permission.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page and the service's methods at /api/METHOD. It refuses requests whose Host is
// no loopback address, and requests from pages of other sites: otherwise a web site could read the
// logs through the visitor's browser.
func Handler(s *Service) http.Handler {
	page, _ := fs.Sub(files, "page") // the directory is embedded
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("POST /api/{method}", s.serveCall)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		if !localhost.IsHost(r.Host) || localhost.FromPage(r, true) {
			http.Error(w, "sluice compare answers its own page on this machine only", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serveCall responds with lines of JSON: {"progress":SHARE} while a long request runs, then
// {"result":...} or {"error":TEXT}.
func (s *Service) serveCall(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("method")
	largest := int64(maxRequest)
	if method == "log" {
		largest = maxLog
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := &lines{w: w, control: http.NewResponseController(w), begin: time.Now()}
	result, err := s.Call(r.Context(), method, http.MaxBytesReader(w, r.Body, largest), out.progress)
	if method == "log" && errors.As(err, new(*http.MaxBytesError)) {
		err = errTooLarge
	}
	out.write(Response(result, err))
}

// lines writes lines of JSON.
type lines struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	begin   time.Time
}

// progressDelay is how long a request runs before the response reports its progress.
const progressDelay = 300 * time.Millisecond

func (l *lines) progress(share float64) {
	if time.Since(l.begin) > progressDelay {
		l.write(fmt.Appendf(nil, `{"progress":%v}`, share))
	}
}

func (l *lines) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(line, '\n')) // fails only if the page has closed the connection
	_ = l.control.Flush()
}
