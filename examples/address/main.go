// Address answers each request with the key of its client. Each key has 3 requests an hour.
// Use curl to try which headers change the key:
//
//	go run ./examples/address
//	go run ./examples/address -trust 127.0.0.1/32
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "where to listen")
	trust := flag.String("trust", "", "the addresses of a trusted proxy, such as 127.0.0.1/32")
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("address: ")
	handler, err := newHandler(*trust)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%v/\n", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func newHandler(trust string) (http.Handler, error) {
	var clients httplimit.ClientIP
	if trust != "" {
		prefix, err := netip.ParsePrefix(trust)
		if err != nil {
			return nil, fmt.Errorf("-trust: want a prefix such as 127.0.0.1/32: %w", err)
		}
		clients.Trusted = []netip.Prefix{prefix}
	}
	key, err := clients.Key()
	if err != nil {
		return nil, err
	}
	limiter := sluice.MustFor(nil, sluice.By("client", key, "fixedwindow 3/h"))
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "you are", key(r)) })
	onDenied := func(w http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) {
		http.Error(w, "not now", refusal.Status)
	}
	return httplimit.Handler(limiter, answer, httplimit.Options{OnDenied: onDenied}), nil
}
