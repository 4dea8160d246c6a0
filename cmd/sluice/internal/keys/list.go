package keys

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed keys_help.txt
var keysHelp string

const keysExamples = `  sluice keys --store redis://localhost:6379 --config limits.yaml --rule client
  sluice keys --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login
  sluice keys --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login --max 0 --json`

// Command implements [cli.NewCommand] for sluice keys.
func Command(s cli.Streams) *cobra.Command {
	var l list
	c := &cobra.Command{
		Use:     "keys",
		Short:   "List the keys of a rule on a store, with what they have used",
		Long:    keysHelp,
		Example: keysExamples,
		Args:    cobra.ArbitraryArgs,
		RunE:    func(c *cobra.Command, args []string) error { return l.run(c.Context(), args, s.Out) },
	}
	c.Flags().SortFlags = false
	l.define(c.Flags())
	c.Flags().IntVar(&l.max, "max", 100, "print about `N` keys, and then how to continue; 0 prints all keys")
	c.Flags().StringVar(&l.after, "after", "", "continue after the keys of an earlier run, which has printed this `CURSOR`")
	c.Flags().BoolVar(&l.json, "json", false, "print JSON instead of text: an object for each page")
	cli.CheckValues(c.Flags())
	return c
}

// list is the command line of sluice keys.
type list struct {
	rule
	max   int
	after string
	json  bool

	begun bool // the head is printed
}

// largestPage is the most keys that are read at once.
const largestPage = 1000

func (l *list) run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return cli.Usagef("keys takes no argument %s; it lists all keys of a rule", errtext.Quote(args[0]))
	}
	at, err := parseCursor(l.after)
	if err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	defer l.opened.Close()
	for printed := 0; ; {
		size := largestPage
		if l.max > 0 {
			size = min(size, l.max-printed)
		}
		p, err := l.page(ctx, &at, size)
		if err != nil {
			return l.failure(err)
		}
		printed += len(p.Keys)
		if l.max > 0 && printed >= l.max {
			p.Next = at.String()
		}
		if len(p.Keys) > 0 || at.ended && printed == 0 {
			if err := l.print(out, p); err != nil {
				return err
			}
		}
		if at.ended || p.Next != "" {
			return nil
		}
	}
}

// cursor is a place in a listing: the keys without a group come first.
type cursor struct {
	grouped, ended bool
	store          string // the cursor of the store
}

// String returns the text of a cursor, or "" at the end.
func (c *cursor) String() string {
	kind := "k"
	switch {
	case c.ended:
		return ""
	case c.grouped:
		kind = "g"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + c.store))
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(plain) == 0 || plain[0] != 'k' && plain[0] != 'g' {
		return c, cli.Usagef("--after %s: want the cursor that an earlier run of sluice keys has printed", text)
	}
	return cursor{grouped: plain[0] == 'g', store: string(plain[1:])}, nil
}

// page is a part of a listing.
type page struct {
	Store  string   `json:"store"`
	Rule   string   `json:"rule"`
	Policy string   `json:"policy"`
	Keys   []keyRow `json:"keys"`
	Next   string   `json:"next,omitempty"`
}

// keyRow is what a key has used.
type keyRow struct {
	Key        string `json:"key"`
	Used       int64  `json:"used"`
	Limit      int64  `json:"limit"`
	RetryAfter string `json:"retry_after"`
	ResetAfter string `json:"reset_after"`
	Error      string `json:"error,omitempty"`

	result algo.Result
}

// page reads the next keys, up to about so many, and moves the cursor.
func (l *list) page(ctx context.Context, at *cursor, size int) (p *page, err error) {
	lister, ok := l.opened.Store.(storage.Lister)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	p = &page{Store: l.opened.Address, Rule: l.name, Policy: l.policy.String(), Keys: []keyRow{}}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	begin := l.prefix
	if at.grouped {
		begin = "{"
	}
	texts, next, err := lister.List(ctx, begin, at.store, size)
	if err != nil {
		return nil, err
	}
	*at = cursor{grouped: at.grouped || next == "", ended: at.grouped && next == "", store: next}
	var own []string
	seen := map[string]bool{}
	for _, text := range texts {
		if driver.IsOf(text, l.prefix) && !seen[text] {
			seen[text] = true
			own = append(own, text)
		}
	}
	records, now, err := l.opened.Load(ctx, own...)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		if r.Version != 0 { // otherwise it has just expired
			p.Keys = append(p.Keys, l.row(own[i], r.State, now))
		}
	}
	return p, nil
}

func (l *list) row(text string, state []byte, now time.Time) keyRow {
	row := keyRow{Key: strings.Replace(text, l.prefix, "", 1)}
	r, err := l.policy.Peek(state, now, l.cost)
	if err != nil {
		row.Error = err.Error()
		return row
	}
	row.result = r
	row.Used, row.Limit = r.Limit-r.Remaining, r.Limit
	row.RetryAfter, row.ResetAfter = duration(r.RetryAfter, algo.FormatDuration), duration(r.ResetAfter, algo.FormatDuration)
	return row
}

// duration formats a duration by a function, unless it never ends.
func duration(d time.Duration, format func(time.Duration) string) string {
	if d == algo.Never {
		return "never"
	}
	return format(d)
}

// line is a line of the text. A page does not know the lengths of later keys.
const line = "%-40s %12v %12v %12s %12s\n"

// print prints a page. As text, the first page with keys gets a head.
func (l *list) print(out io.Writer, p *page) error {
	if l.json {
		return report.JSON(out, p)
	}
	text := new(strings.Builder)
	if len(p.Keys) == 0 {
		fmt.Fprintf(text, "rule %s: no key has a record on %s\n", l.name, p.Store)
	} else if !l.begun {
		l.begun = true
		fmt.Fprintf(text, "rule %s: %s, on %s\n\n", l.name, l.policy, p.Store)
		fmt.Fprintf(text, line, "key", "used", "limit", "retry after", "reset after")
	}
	for _, k := range p.Keys {
		key := cmp.Or(readable.Graphic(k.Key), `""`)
		if k.Error != "" {
			fmt.Fprintf(text, "%-40s unreadable: %s\n", key, k.Error)
			continue
		}
		wait := "-"
		if !k.result.Allowed {
			wait = duration(k.result.RetryAfter, readable.Rounded)
		}
		fmt.Fprintf(text, line, key, k.Used, k.Limit, wait, duration(k.result.ResetAfter, readable.Rounded))
	}
	if p.Next != "" {
		fmt.Fprintf(text, "\nThere can be more keys. Continue with --after %s\n", p.Next)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
