package localhost_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/cmd/sluice/internal/localhost"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// The tests of this package promise:
//
//   - Only localhost and loopback addresses are hosts of this machine, with or without a port.
//   - A request with an Origin, or from any site, is from a page. The own page can be excepted.

func TestIsHost(t *testing.T) {
	tracetest.Answers(t, "testdata/hosts.txt", func(host string) string { return fmt.Sprint(localhost.IsHost(host)) })
}

func TestFromPage(t *testing.T) {
	tracetest.Answers(t, "testdata/pages.txt", func(fields string) string {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:80/", nil)
		for field := range strings.SplitSeq(fields, " | ") {
			if name, value, found := strings.Cut(field, ": "); found {
				r.Header.Add(name, value)
			}
		}
		own, other := localhost.FromPage(r, true), localhost.FromPage(r, false)
		return map[[2]bool]string{{false, false}: "no page", {false, true}: "the page itself", {true, true}: "another page"}[[2]bool{own, other}]
	})
}
