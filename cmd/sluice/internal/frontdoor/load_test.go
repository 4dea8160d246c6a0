package frontdoor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

func policyOf(t *testing.T, spec string) algo.Policy {
	t.Helper()
	p, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	return p
}

// TestHundredThousandRequests sends the requests over 64 connections. Meanwhile
// strangers, each with a new key, fill the store, so that it must evict.
func TestHundredThousandRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what takes long")
	}
	const requests, maxKeys, spec = 64 * 1600, 300, "gcra 30000/m burst=2000"
	u := newUpstream(t)
	p := serve(t, "--limit", spec, "--by", "header:X-Client", "--upstream", u.url, "--max-keys", fmt.Sprint(maxKeys))
	memory, strangers := p.watch(), p.strangers(2)
	began := time.Now()
	r := hey(t, "-n", fmt.Sprint(requests), "-c", "64", "-H", "X-Client: hey", p.proxy+"/").report()
	took := time.Since(began)
	sizes, asked := memory.stop(), strangers.stop()
	t.Logf("%v: %v, and %d strangers; memory %v KiB", took.Round(time.Millisecond), r.statuses, asked, sizes)

	require.Empty(t, r.failures)
	r.only(t, http.StatusOK, http.StatusTooManyRequests)
	require.EqualValues(t, requests, r.statuses[http.StatusOK]+r.statuses[http.StatusTooManyRequests])
	require.Equal(t, u.admitted(), r.statuses[http.StatusOK])
	policy := policyOf(t, spec)
	require.LessOrEqual(t, u.admitted(), policy.Bound(took))
	// hey sends requests all the time, so it uses all that is refilled, unless it is held
	// up for the 4 s that it takes to refill the whole burst.
	require.Greater(t, u.admitted(), policy.Bound(u.span())*3/4)
	require.Greater(t, asked, int64(2*maxKeys))
	p.requireFull(maxKeys, asked)
	requireFlat(t, sizes)
}

// requireFull requires that the store holds as many keys as it may, and has dropped the
// others of those that were created.
func (p *program) requireFull(maxKeys, created int64) {
	p.t.Helper()
	const store = "sluice_memory_store_"
	require.EqualValues(p.t, maxKeys, p.metric(store+"keys"))
	require.GreaterOrEqual(p.t, p.metric(store+"evictions_total")+p.metric(store+"expirations_total"), float64(created-maxKeys))
}

// metric is the sum of a metric over all of its labels. Its absence is a failure.
func (p *program) metric(name string) (sum float64) {
	p.t.Helper()
	answer, err := http.Get(p.api + "/metrics")
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	found := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllSubmatch(text, -1)
	require.NotEmpty(p.t, found, "%s has no %s:\n%s", p.api, name, text)
	for _, m := range found {
		value, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(p.t, err)
		sum += value
	}
	return sum
}

// margin is by how much the memory may differ from one garbage collection to the next.
const margin = 8 << 10 // KiB

// requireFlat requires that a program grew no larger in the second half of a run than in
// the first, but for the margin.
func requireFlat(t *testing.T, sizes []int64) {
	t.Helper()
	require.Greater(t, len(sizes), 4)
	require.NotContains(t, sizes, int64(0), "the size of the program is unknown; this test reads VmRSS in /proc/PID/status, as on Linux")
	half := len(sizes) / 2
	require.LessOrEqual(t, slices.Max(sizes[half:]), slices.Max(sizes[:half])+margin, "KiB: %v", sizes)
}

// A watch notes the size of a process.
type watch struct {
	over  chan struct{}
	sizes chan []int64
}

// watch begins to note the size of the program four times a second.
func (p *program) watch() *watch {
	w := &watch{make(chan struct{}), make(chan []int64, 1)}
	go func() {
		ticks := time.NewTicker(250 * time.Millisecond)
		defer ticks.Stop()
		var sizes []int64
		for {
			select {
			case <-w.over:
				w.sizes <- sizes
				return
			case <-ticks.C:
				sizes = append(sizes, p.size())
			}
		}
	}()
	return w
}

func (w *watch) stop() []int64 {
	close(w.over)
	return <-w.sizes
}

// size is the program's resident memory in KiB, or 0 if it is unknown.
func (p *program) size() (size int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); m != nil {
		size = number(p.t, string(m[1]))
	}
	return size
}

// A crowd asks the decision service, each time under a new name.
type crowd struct {
	t       *testing.T
	over    chan struct{}
	callers sync.WaitGroup
	asked   []int64
}

func (p *program) strangers(callers int) *crowd {
	c := &crowd{t: p.t, over: make(chan struct{}), asked: make([]int64, callers)}
	for i := range callers {
		c.callers.Go(func() {
			client := &http.Client{Timeout: testTimeout, Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for c.ask(client, p.api, fmt.Sprintf("%d of %d", c.asked[i], i)) {
				c.asked[i]++
			}
		})
	}
	return c
}

// ask reports whether the answer was as it should be, and there is to be another.
func (c *crowd) ask(client *http.Client, api, name string) bool {
	select {
	case <-c.over:
		return false
	default:
	}
	answer, err := client.Post(api+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, name)))
	if err != nil {
		c.t.Error(err)
		return false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Contains(text, []byte(`"allowed":true`)) {
		c.t.Errorf("%s: %s %v", answer.Status, text, err)
		return false
	}
	return true
}

func (c *crowd) stop() (asked int64) {
	close(c.over)
	c.callers.Wait()
	for _, n := range c.asked {
		asked += n
	}
	return asked
}
