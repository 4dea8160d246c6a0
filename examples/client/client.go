// Client fetches URLs within limits. It sends at most 5 requests a second to each host, and
// fewer if the host announces a lower limit. It retries once after a response 429 or 503, when
// the wait that the host asks for is over.
//
//	go run ./examples/client http://localhost:8080/ http://localhost:8080/about
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

func main() {
	client, err := newClient(http.DefaultTransport)
	if err == nil {
		err = fetchAll(context.Background(), client, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// newClient returns a client with a limit for each host. It also obeys the limits that hosts
// announce in their responses. A request waits for up to a minute.
func newClient(base http.RoundTripper) (*http.Client, error) {
	limiter, err := sluice.For(nil, sluice.By("host", httplimit.KeyByHost, "gcra 5/s burst=2"))
	if err != nil {
		return nil, err
	}
	transport := &httplimit.Transport{Base: base, Limiter: limiter}
	return &http.Client{Transport: transport, Timeout: time.Minute}, nil
}

func fetchAll(ctx context.Context, client *http.Client, urls []string) error {
	for _, url := range urls {
		status, err := fetch(ctx, client, url)
		if err != nil {
			return err
		}
		fmt.Println(status, url)
	}
	return nil
}

// fetch gets a URL. It retries once, because a GET can be sent twice.
func fetch(ctx context.Context, client *http.Client, url string) (status int, err error) {
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		response, err := client.Do(request) // waits until the request may be sent
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err != nil {
			return 0, err
		}
		if status = response.StatusCode; status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
			break
		}
	}
	return status, nil
}
