package browsertest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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
