package servetest

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

// TestFiftyThousandRequests sends the requests over 64 connections. Meanwhile requests with new keys
// fill the store, so that it must evict keys.
func TestFiftyThousandRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out slow tests")
	}
	const requests, maxKeys, spec = 64 * 800, 300, "gcra 30000/m burst=2000"
	u := newUpstream(t)
	p := serve(t, "--limit", spec, "--by", "header:X-Client", "--upstream", u.url, "--max-keys", fmt.Sprint(maxKeys))
	memory, others := p.watchMemory(), p.sendNewKeys(2)
	began := time.Now()
	r := hey(t, "-n", fmt.Sprint(requests), "-c", "64", "-H", "X-Client: hey", p.proxy+"/").report()
	took := time.Since(began)
	sizes, keys := memory.stop(), others.stop()
	t.Logf("%v: %v, and %d new keys; memory %v KiB", took.Round(time.Millisecond), r.statuses, keys, sizes)

	require.Empty(t, r.failures)
	r.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
	require.EqualValues(t, requests, r.statuses[http.StatusOK]+r.statuses[http.StatusTooManyRequests])
	require.Equal(t, u.admitted(), r.statuses[http.StatusOK])
	policy := policyOf(t, spec)
	require.LessOrEqual(t, u.admitted(), policy.Bound(took))
	// hey sends requests all the time, so it uses every refill, unless it pauses for the 4 s in which the
	// whole burst refills.
	require.Greater(t, u.admitted(), policy.Bound(u.span())*3/4)
	require.Greater(t, keys, int64(2*maxKeys))
	p.requireFull(maxKeys, keys)
	requireFlat(t, sizes)
}

// requireFull requires that the store holds maxKeys keys, and has evicted the other keys that were created.
func (p *program) requireFull(maxKeys, created int64) {
	p.t.Helper()
	const store = "sluice_memory_store_"
	require.EqualValues(p.t, maxKeys, p.metric(store+"keys"))
	require.GreaterOrEqual(p.t, p.metric(store+"evictions_total")+p.metric(store+"expirations_total"), float64(created-maxKeys))
}

// metric returns the sum of a metric over all its labels. A missing metric fails the test.
func (p *program) metric(name string) (sum float64) {
	p.t.Helper()
	response, err := http.Get(p.api + "/metrics")
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
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

// margin is how much the memory may differ from one garbage collection to the next.
const margin = 4 << 10 // KiB

// requireFlat requires that the largest size in the second half of a run is at most margin above that in
// the first half.
func requireFlat(t *testing.T, sizes []int64) {
	t.Helper()
	require.Greater(t, len(sizes), 4)
	require.NotContains(t, sizes, int64(0), "the size of the program is unknown; this test reads VmRSS in /proc/PID/status, as on Linux")
	half := len(sizes) / 2
	require.LessOrEqual(t, slices.Max(sizes[half:]), slices.Max(sizes[:half])+margin, "KiB: %v", sizes)
}

// memoryWatch records the size of a program.
type memoryWatch struct {
	done  chan struct{}
	sizes chan []int64
}

// watchMemory records the size of the program four times a second.
func (p *program) watchMemory() *memoryWatch {
	w := &memoryWatch{make(chan struct{}), make(chan []int64, 1)}
	go func() {
		ticks := time.NewTicker(250 * time.Millisecond)
		defer ticks.Stop()
		var sizes []int64
		for {
			select {
			case <-w.done:
				w.sizes <- sizes
				return
			case <-ticks.C:
				sizes = append(sizes, p.size())
			}
		}
	}()
	return w
}

func (w *memoryWatch) stop() []int64 {
	close(w.done)
	return <-w.sizes
}

// size returns the program's resident memory in KiB, or 0 if it is unknown.
func (p *program) size() (size int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); m != nil {
		size = number(p.t, string(m[1]))
	}
	return size
}

// newKeys sends requests to the decision service, each with a new key.
type newKeys struct {
	t       *testing.T
	done    chan struct{}
	callers sync.WaitGroup
	sent    []int64 // by caller
}

func (p *program) sendNewKeys(callers int) *newKeys {
	c := &newKeys{t: p.t, done: make(chan struct{}), sent: make([]int64, callers)}
	for i := range callers {
		c.callers.Go(func() {
			client := &http.Client{Timeout: testTimeout, Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for c.send(client, p.api, fmt.Sprintf("%d of %d", c.sent[i], i)) {
				c.sent[i]++
			}
		})
	}
	return c
}

// send sends one request. It returns false after stop, or after a wrong response.
func (c *newKeys) send(client *http.Client, api, key string) bool {
	select {
	case <-c.done:
		return false
	default:
	}
	response, err := client.Post(api+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		c.t.Error(err)
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Contains(text, []byte(`"allowed":true`)) {
		c.t.Errorf("%s: %s %v", response.Status, text, err)
		return false
	}
	return true
}

func (c *newKeys) stop() (sent int64) {
	close(c.done)
	c.callers.Wait()
	for _, n := range c.sent {
		sent += n
	}
	return sent
}
