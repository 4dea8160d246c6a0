package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/worstcase"
)

// Arrival is a request of a client.
type Arrival struct {
	At     int64 // microseconds since the Unix epoch
	Client int32 // the index in Stream.Clients
	Times  int64 // how many requests come as one call, which costs that many times the cost of the policy; 0: 1
}

// Stream is the requests of all clients, in the order of time.
type Stream struct {
	Clients  []string
	Arrivals []Arrival
}

// Shape has the parameters of a generated stream.
type Shape struct {
	Requests int           // 1 to MaxArrivals; without effect on Edge
	Length   time.Duration // of the stream, at least 1ms
	Clients  int           // at least 1
	Limit    algo.Limit    // that the clients of Edge and Crowd know
	Seed     uint64        // of the random numbers
}

// Epoch is the time at which generated streams begin: the offset 0 of a trace.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// MaxArrivals is the largest number of requests of a generated stream.
const MaxArrivals = 200_000

// generator collects the requests of a stream.
type generator struct {
	Shape
	Stream
	random *rand.Rand
}

func (s Shape) generator(random uint64) *generator {
	g := &generator{Shape: s, random: rand.New(rand.NewPCG(s.Seed, random))}
	for i := range max(1, s.Clients) {
		g.Stream.Clients = append(g.Stream.Clients, fmt.Sprintf("client-%d", i+1))
	}
	return g
}

func (g *generator) add(at time.Duration, client int) {
	g.Arrivals = append(g.Arrivals, Arrival{At: Epoch.UnixMicro() + at.Microseconds(), Client: int32(client)})
}

// anyTime returns a random time before the end.
func (g *generator) anyTime(end time.Duration) time.Duration {
	return time.Duration(g.random.Int64N(int64(max(1, end))))
}

func (g *generator) anyClient() int { return g.random.IntN(len(g.Stream.Clients)) }

// sorted returns the stream with the requests in the order of time.
func (g *generator) sorted() Stream {
	slices.SortStableFunc(g.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return g.Stream
}

// Steady returns requests at equal distances, the last one at the end. The clients take turns.
func Steady(s Shape) Stream {
	g := s.generator(0)
	pace, rest := s.Length/time.Duration(s.Requests), s.Length%time.Duration(s.Requests)
	for i := range s.Requests {
		n := time.Duration(i + 1)
		g.add(n*pace+n*rest/time.Duration(s.Requests), i%len(g.Stream.Clients))
	}
	return g.Stream
}

// Poisson returns independent random requests: the requests of a Poisson process that makes this number of them.
func Poisson(s Shape) Stream {
	g := s.generator(1)
	for range s.Requests {
		g.add(g.anyTime(s.Length), g.anyClient())
	}
	return g.sorted()
}

// Bursts returns bursts of 1 to 59 requests of one client each, at random times.
func Bursts(s Shape) Stream {
	g := s.generator(2)
	gap := min(20*time.Millisecond, s.Length/time.Duration(s.Requests)/2)
	for len(g.Arrivals) < s.Requests {
		size := min(1+g.random.IntN(59), s.Requests-len(g.Arrivals))
		begin, client := g.anyTime(s.Length-time.Duration(size)*gap), g.anyClient()
		for i := range size {
			g.add(begin+time.Duration(i)*gap, client)
		}
	}
	return g.sorted()
}

// Edge returns the requests of clients that know the limit and the edges of its windows. In every
// fifth period a client spends the limit in the last twentieth of the period, and again in the first
// twentieth of the next period. A fixed window admits both. At the beginning of the first of these
// periods the client sends one request, which opens the window of a limiter whose windows begin with
// the first request. The edges are also those of windows by the clock. The limit makes the number of requests.
func Edge(s Shape) Stream {
	g := s.generator(3)
	period := min(g.Limit.Period, g.Length/2) // a longer period has no edge in the stream
	burst := period / 20
	gap := max(1, burst/time.Duration(g.Limit.Count))
	first := time.Duration((int64(period) - Epoch.UnixNano()%int64(period)) % int64(period))
	for at := first; !g.full(at); at += 5 * period {
		g.addAll(at)
		edge := at + period
		for at := edge - burst; at < edge+burst && !g.full(at); at += gap {
			g.addAll(at)
		}
	}
	return g.Stream
}

// addAll adds a request of each client, as far as the stream has room.
func (g *generator) addAll(at time.Duration) {
	for client := range min(len(g.Stream.Clients), MaxArrivals-len(g.Arrivals)) {
		g.add(at, client)
	}
}

// full reports whether the stream has ended.
func (g *generator) full(at time.Duration) bool {
	return at >= g.Length || len(g.Arrivals) >= MaxArrivals
}

// Greedy returns random requests. The first client sends half of all requests, and the others share
// the other half.
func Greedy(s Shape) Stream {
	s.Clients = max(2, s.Clients)
	g := s.generator(4)
	g.Stream.Clients[0] = "greedy"
	for range s.Requests {
		client := 0
		if g.random.IntN(2) == 1 {
			client = 1 + g.random.IntN(len(g.Stream.Clients)-1)
		}
		g.add(g.anyTime(s.Length), client)
	}
	return g.sorted()
}

// WorstCase returns the calls of one client that get the most units from the policy in any period of
// its limit, as far as worstcase.Search finds them.
func WorstCase(p costed.Policy) Stream {
	const most = 10_000 // if there are more requests, those of the same instant come as one call
	s := Stream{Clients: []string{"client-1"}}
	// The instants of these calls differ by less than a period. Search would also use those that differ by a whole period,
	// because their times can be closer.
	calls := worstcase.Search(p.Policy, p.Cost, p.Limit().Period-(time.Microsecond-1), Epoch)
	var requests int64
	for _, c := range calls {
		requests += min(c.Cost/p.Cost, most+1)
	}
	for _, c := range calls {
		n := c.Cost / p.Cost
		if requests > most {
			s.Arrivals = append(s.Arrivals, Arrival{At: c.At, Times: n})
			continue
		}
		for range n {
			s.Arrivals = append(s.Arrivals, Arrival{At: c.At})
		}
	}
	return s
}

// Crowd returns the requests of clients that all come at once, four times: within a hundredth of the
// period of the limit, as after an outage.
func Crowd(s Shape) Stream {
	g := s.generator(5)
	const waves = 4
	within := min(s.Limit.Period/100, s.Length/waves)
	for i := range s.Requests {
		begin := time.Duration(i%waves) * (s.Length / waves)
		g.add(begin+g.anyTime(within), i/waves%len(g.Stream.Clients))
	}
	return g.sorted()
}
