package frontdoor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
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

// TestTwoHundredThousandRequests come over 64 connections, and meanwhile strangers
// whom it never saw before ask the decision service, so that it has something to
// forget.
func TestTwoHundredThousandRequests(t *testing.T) {
	const requests, spec = 200_000, "gcra 30000/m burst=2000"
	u := newUpstream(t)
	p := serve(t, "--limit", spec, "--by", "header:X-Client", "--upstream", u.url, "--max-keys", "1000")
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
	// hey asks for more at any time, so nothing that is regained stays unused, but
	// where it is held up for as long as it takes to regain the whole burst, 4 s.
	require.Greater(t, u.admitted(), policy.Bound(u.span())*3/4)
	require.Greater(t, asked, int64(2000), "more than it may remember")
	requireFlat(t, sizes)
}

// margin is what memory may move by from one collection of garbage to the next.
const margin = 8 << 10 // KiB

// requireFlat compares the second half of a run with the first.
func requireFlat(t *testing.T, sizes []int64) {
	t.Helper()
	require.Greater(t, len(sizes), 4)
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

// size is the program's resident memory in KiB; 0 if nobody knows.
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
			client := &http.Client{Timeout: patience, Transport: new(http.Transport)}
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
