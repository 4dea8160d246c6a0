// Package browsertest has tests of the page of "sluice compare" in headless Chromium. They build the
// program, start it, and use the page as people do: by mouse, by touch and by keyboard. They read
// what the page shows.
//
// A test fails if the page reports an error, if a request fails, or if the Content-Security-Policy
// blocks something. See tab.
//
// Without Chromium the tests are skipped. If SLUICE_REQUIRE_SERVERS is set, they fail instead.
//
// The screenshots of the documentation come from here:
//
//	go test -run TestScreenshots -update
//
// The package is a module of its own, because only its tests need chromedp.
package browsertest
