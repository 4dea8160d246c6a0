// Client fetches URLs within limits. It sends each host up to 2 requests at once and 5 a second in
// the long run, or fewer if the host announces a lower limit. After a response 429 or 503 it waits as long
// as the host asks for, and sends the request once more. If that wait exceeds a minute, it prints
// the status at once.
//
//	go run ./examples/client http://localhost:8080/ http://localhost:8080/about
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

func main() {
	client := newClient(http.DefaultTransport)
	for _, url := range os.Args[1:] {
		status, err := fetch(context.Background(), client, url)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(status, url)
	}
}

// newClient returns a client with a limit for each host. It also obeys the limits that hosts
// announce in their responses, and sends a request once more after a 429 or 503. No request waits
// for more than a minute.
func newClient(base http.RoundTripper) *http.Client {
	limiter := sluice.MustFor(nil, sluice.By("host", httplimit.KeyByHost, "gcra 5/s burst=2"))
	transport := &httplimit.Transport{Base: base, Limiter: limiter, MaxRetries: 1}
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func fetch(ctx context.Context, client *http.Client, url string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request) // waits until the request may be sent
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}
