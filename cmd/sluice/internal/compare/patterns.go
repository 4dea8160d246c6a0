package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

// request is one request of one client.
type request struct {
	at  time.Time
	key string
}

// pattern is a sequence of requests.
type pattern struct {
	name     string
	requests []request
}

func patterns() ([]pattern, error) {
	log, err := sampleLog()
	return []pattern{
		{"Uniform", uniform()},
		{"Poisson", poisson()},
		{"Bursty", bursty()},
		{"Edge of the window", edges()},
		{"Access log", log},
	}, err
}

const (
	length = 2 * time.Hour // of the generated patterns
	seed   = 20260101
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// calls collects the requests of one client, at times since midnight.
type calls []request

func (c *calls) add(at time.Duration) { *c = append(*c, request{midnight.Add(at), "client"}) }

// pace is the mean time between requests. uniform, poisson and bursty have the same load, 1.5
// times the limit. pace divides no period, so no limiter is favored.
const pace = 1300 * time.Millisecond

func uniform() []request {
	return sequence(func() time.Duration { return pace })
}

// poisson returns independent random requests.
func poisson() []request {
	random := rand.New(rand.NewPCG(seed, 1))
	return sequence(func() time.Duration { return rest(random, pace) })
}

// sequence returns requests with a gap before each.
func sequence(gap func() time.Duration) []request {
	var c calls
	for at := gap(); at < length; at += gap() {
		c.add(at)
	}
	return c
}

// bursty returns bursts of 1 to 59 requests, with random pauses between them.
func bursty() []request {
	const gap = 20 * time.Millisecond
	const pause = 30 * (pace - gap)
	random := rand.New(rand.NewPCG(seed, 2))
	var c calls
	for at := rest(random, pause); at < length; at += rest(random, pause) {
		for range 1 + random.IntN(59) {
			c.add(at)
			at += gap
		}
	}
	return c
}

// rest returns a random time with an exponential distribution, in whole milliseconds so that
// every machine gets the same times.
func rest(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(random.ExpFloat64() * float64(mean)).Truncate(time.Millisecond)
}

// edges returns the requests of a client that spends the limit in the last three seconds of a
// minute and again in the first three of the next, and continues until that minute ends. In every
// second round it also sends a request a minute earlier, which opens the window of a limiter whose
// windows begin with the first request.
func edges() []request {
	const every, burst, gap = 5 * time.Minute, 3 * time.Second, 100 * time.Millisecond
	var c calls
	for i, at := 0, time.Duration(0); at < length; i, at = i+1, at+every {
		edge := at + time.Minute
		if i%2 == 1 {
			c.add(at)
		}
		for early := edge - burst; early < edge+burst; early += gap {
			c.add(early)
		}
		for late := edge + burst; late < edge+time.Minute; late += 5 * gap {
			c.add(late)
		}
	}
	return c
}

// sampleLog returns the requests of the bundled access log, by address.
func sampleLog() ([]request, error) {
	log := accesslog.NewReader(context.Background(), []accesslog.Input{accesslog.FromReader(sample.Name, sample.Open())},
		accesslog.Options{Reorder: accesslog.DefaultReorder, Fields: accesslog.IP})
	defer log.Close()
	var requests []request
	for log.Next() {
		e := log.Entry()
		requests = append(requests, request{e.Time, string(e.IP)})
	}
	return requests, log.Err()
}
