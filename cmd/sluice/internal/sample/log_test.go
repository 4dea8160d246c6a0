package sample

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The log covers length from start.
var start = time.Date(2025, time.March, 4, 13, 0, 0, 0, time.UTC)

const length = 50 * time.Minute

// request is one line of the log.
type request struct {
	at     time.Duration // since start
	took   time.Duration // a server logs a request after the response, with the time of the request
	client *client
	method string
	path   string
	status int
	bytes  int
	from   string // the path of the page with the link
}

// client sends requests.
type client struct {
	ip    string
	user  string
	agent string
}

// day collects the requests of all clients.
type day struct {
	*rand.Rand
	requests []request
}

// sampleLog returns the whole log.
func sampleLog() []byte {
	d := &day{Rand: rand.New(rand.NewPCG(2025, 3))}
	d.people()
	d.office()
	d.crawler()
	d.script()
	d.scanner()
	d.monitor()
	return d.log()
}

// log writes the requests in the order of their responses.
func (d *day) log() []byte {
	slices.SortStableFunc(d.requests, func(x, y request) int { return cmp.Compare(x.at+x.took, y.at+y.took) })
	var b bytes.Buffer
	for _, r := range d.requests {
		if r.at < length {
			r.writeTo(&b)
		}
	}
	return b.Bytes()
}

func (r *request) writeTo(b *bytes.Buffer) {
	user, from := cmp.Or(r.client.user, "-"), "-"
	if r.from != "" {
		from = "https://shop.example" + r.from
	}
	stamp := start.Add(r.at).Format("02/Jan/2006:15:04:05 -0700")
	fmt.Fprintf(b, "%s - %s [%s] \"%s %s HTTP/1.1\" %d %d \"%s\" \"%s\"\n",
		r.client.ip, user, stamp, r.method, r.path, r.status, r.bytes, from, r.client.agent)
}

func (d *day) add(r request) {
	if r.status == 0 {
		r.status = 200
	}
	if r.bytes == 0 {
		r.bytes = 400 + d.IntN(30_000)
	}
	r.took += d.millis(5, 400)
	d.requests = append(d.requests, r)
}

// millis returns a random time from low to high milliseconds.
func (d *day) millis(low, high int) time.Duration {
	return time.Duration(low+d.IntN(high-low+1)) * time.Millisecond
}

// oneOf picks one of the words.
func (d *day) oneOf(words ...string) string { return words[d.IntN(len(words))] }
