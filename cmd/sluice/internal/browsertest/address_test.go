package browsertest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressHasAllSettings(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+30/m&p=fixedwindow+30/m&p=movingwindow+30/m&p=gcra+1/s")
	b.changes(func() { b.choose("#kind", "poisson") })
	for range 2 {
		before := b.table()
		b.changes(func() { b.click("#new-seed") })
		require.NotEqual(t, before, b.table())
	}
	b.changes(func() { b.enter("#requests", "500") })
	b.changes(func() { b.enter("#length", "900") })
	b.changes(func() { b.enter("#clients", "5") })
	b.changes(func() { b.enter("#seed", "9") })
	b.changes(func() { b.choose("#reaction", "wait") })
	b.changes(func() { b.click("#shared") })
	b.changes(func() { b.enter("#processes", "3") })
	b.changes(func() { b.enter("#skews label:nth-child(2) input", "7.5") })
	b.changes(func() { b.choose("#clock", "own") })
	b.changes(func() { b.enter("#prepay-calls", "20") })
	b.changes(func() { b.enter("#prepay-for", "0.5") })
	b.changes(func() { b.button(4, "Remove") })
	b.changes(func() { b.enter("#spec-1", "all(gcra 10/s; gcra 100/m burst=20)") })
	b.changes(func() { b.choose("#client", "client-3") })
	b.changes(func() { b.click("#zoom-in") })
	b.waitView("to > from")
	b.requireTable(b.compare(query{
		Specs:    []string{"all(gcra 10/s; gcra 100/m burst=20)", "fixedwindow 30/m", "movingwindow 30/m"},
		Stream:   stream{Kind: "poisson", Requests: 500, Length: 900, Clients: 5, Seed: 9},
		Reaction: "wait", Shared: true, Skews: []float64{0, 7.5, 0}, OwnClocks: true,
		Prepay: prepay{20, 0.5},
	}))

	address := eval[string](b, "location.href")
	require.Contains(t, address, "#p=all(gcra+10/s;+gcra+100/m+burst=20)&", "not easy to read")
	parameters, err := url.ParseQuery(strings.ReplaceAll(address[strings.Index(address, "#")+1:], ";", "%3B"))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"kind": "poisson", "requests": "500", "length": "900", "clients": "5", "seed": "9", "after-denial": "wait",
		"shared": "yes", "clocks-ahead": "0,7.5,0", "clock": "own", "bought-ahead": "20", "bought-for": "0.5", "level": "client-3",
	} {
		require.Equal(t, value, parameters.Get(name), name)
	}

	other := blank(t)
	other.visit(address)
	require.Equal(t, address, eval[string](other, "location.href"))
	require.Equal(t, b.table(), other.table())
	require.Equal(t, b.specs(), other.specs())
	require.Equal(t, b.settingsShown(), other.settingsShown())
	require.Empty(t, other.messages())
}

// settingsShown returns the state of each control, in their order.
func (b *tab) settingsShown() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll('input:not([type=file]), select')].map((e) => [e.id, e.ariaLabel, e.value, e.checked, e.disabled].join(' '))`)
}

func TestInvalidParametersAreReported(t *testing.T) {
	t.Parallel()
	b := blank(t)
	for settings, messages := range map[string][]string{
		"requests=many&length=-1&kind=<b>x</b>&clocks-ahead=1,x&after-denial=__proto__": {
			"requests=many", "length=-1", "kind=<b>x</b>", "clocks-ahead=1,x", "after-denial=__proto__",
		},
		"requests=1e9&from=9&to=3&target=13&kind=worst": {"requests=1e9", "to that is not above from", "target=13"},
		"nonsense=1&__proto__=1&constructor=x":          {"nonsense", "__proto__"},
		"%E0%A4%A":                                      {"unknown setting"},
		strings.Repeat("p=gcra&", 13):                   {"13 policies"},
	} {
		b.visit(pageAddress(t) + "#" + settings)
		for _, message := range messages {
			require.Contains(t, b.messages(), message)
		}
		require.NotEmpty(t, b.table())
		require.Zero(t, eval[int](b, "document.querySelectorAll('#messages b').length"))
		b.changes(func() { b.enter("#spec-1", "gcra 7/m") })
		require.Empty(t, b.messages(), "the message about %s remains", settings)
		require.Contains(t, b.table()[0]["Policy"], "gcra 7/m")
	}
}
