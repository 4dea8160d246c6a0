package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// recorder collects what a page requests, and its faults: exceptions, warnings and errors on the
// console, failed requests, and blocked content.
type recorder struct {
	mu     sync.Mutex
	faults []string
	sent   map[network.RequestID]string // the URL of each request
	urls   []string                     // of all requests, in their order
}

// listen takes an event of a tab.
func (r *recorder) listen(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		r.fault("exception: %v", &chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails})
	case *runtime.EventConsoleAPICalled:
		if e.Type == "warning" || e.Type == "error" || e.Type == "assert" {
			r.fault("console.%s: %s", e.Type, arguments(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "warning" || e.Entry.Level == "error" {
			r.fault("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if r.sent == nil {
			r.sent = make(map[network.RequestID]string)
		}
		r.sent[e.RequestID] = e.Request.URL
		r.urls = append(r.urls, e.Request.URL)
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			r.fault("%s answered %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled { // the page cancels requests that a newer one replaces
			r.fault("%s failed: %s %s", r.sent[e.RequestID], e.ErrorText, e.BlockedReason)
		}
	}
}

func (r *recorder) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// take returns the faults since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := r.faults
	r.faults = nil
	return faults
}

// requested returns the URLs of the requests since the last call.
func (r *recorder) requested() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	urls := r.urls
	r.urls = nil
	return urls
}

func arguments(list []*runtime.RemoteObject) string {
	var texts []string
	for _, o := range list {
		texts = append(texts, strings.TrimSpace(string(o.Value)+" "+o.Description))
	}
	return strings.Join(texts, " ")
}

// The other tests rely on the recorder to find each of these faults.
func TestRecorderFindsFaults(t *testing.T) {
	t.Parallel()
	b := blank(t)
	for name, c := range map[string]struct{ body, fault string }{
		"an exception":                   {`<script src="x.js"></script>`, "exception: "},
		"a rejected promise":             {`<script src="reject.js"></script>`, "exception: "},
		"an error on the console":        {`<script src="error.js"></script>`, "console.error: "},
		"a warning on the console":       {`<script src="warning.js"></script>`, "console.warning: "},
		"a missing file":                 {`<img src="missing.png">`, "missing.png answered 404"},
		"a blocked script":               {`<script>1</script>`, "Content Security Policy"},
		"a blocked style attribute":      {`<p style="color:red">x</p>`, "Content Security Policy"},
		"a blocked file of another host": {`<img src="http://192.0.2.1/x.png">`, "Content Security Policy"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(faulty(c.body))
			defer server.Close()
			b.do(chromedp.Navigate(server.URL))
			var faults []string
			require.Eventually(t, func() bool {
				faults = append(faults, b.take()...)
				return slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.fault) })
			}, testTimeout, time.Millisecond, "%q", faults)
			b.do(chromedp.Navigate("about:blank")) // after the last event of the page
			b.take()
		})
	}
}

// faulty serves a page with that body.
func faulty(body string) http.Handler {
	scripts := map[string]string{
		"/x.js":       "null.x",
		"/reject.js":  "Promise.reject(new Error('rejected'))",
		"/error.js":   "console.error('wrong')",
		"/warning.js": "console.warn('doubtful')",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		switch script, ok := scripts[r.URL.Path]; {
		case ok:
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, script)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<!doctype html><title>faulty</title><link rel=icon href='data:,'>%s", body)
		default:
			http.NotFound(w, r)
		}
	})
}
