package keys

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/clockstep"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed keys_help.txt
var keysHelp string

const keysExamples = `  sluice keys --store redis://localhost:6379 --config limits.yaml --rule client
  sluice keys --store redis://localhost:6379 --config limits.yaml --rule client 203.0.113.7
  sluice keys --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login
  sluice keys --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login --max 0 --json`

// Command implements [cli.NewCommand] for sluice keys.
func Command(s cli.Streams) *cobra.Command {
	var l list
	c := &cobra.Command{
		Use:     "keys [KEY...]",
		Short:   "List the keys of a rule on a store, with what they have used",
		Long:    keysHelp,
		Example: keysExamples,
		RunE:    func(c *cobra.Command, args []string) error { return l.run(c.Context(), args, s.Out) },
	}
	l.define(c.Flags())
	c.Flags().IntVar(&l.max, "max", 100, "stop after about `N` keys and print a cursor for --after; 0 prints all keys")
	c.Flags().StringVar(&l.after, "after", "", "continue at the `CURSOR` that an earlier run has printed")
	c.Flags().BoolVar(&l.json, "json", false, "print JSON instead of text: an object for each page")
	return c
}

// list is the command line of sluice keys.
type list struct {
	rule
	max   int
	after string
	json  bool

	cursor  string // of driver.ListRule
	printed int    // keys
}

// largestPage is the most keys that are read at once.
const largestPage = 1000

func (l *list) run(ctx context.Context, keys []string, out io.Writer) error {
	if given := cli.Given(l.flags, "max", "after"); len(keys) > 0 && len(given) > 0 {
		return cli.Usagef("--%s is for all keys; leave out --%[1]s or the keys", given[0])
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	defer l.store.Close()
	if len(keys) > 0 {
		return l.named(ctx, keys, out)
	}
	if err := l.parseCursor(); err != nil {
		return err
	}
	if l.max == 0 {
		l.max = math.MaxInt
	}
	for size := min(l.max, largestPage); ; {
		p, err := l.page(ctx, size)
		if err != nil {
			return l.failure(ctx, err)
		}
		isEmpty := len(p.Keys) == 0
		isLast := l.cursor == ""
		isFull := l.printed+len(p.Keys) >= l.max
		if isFull && !isLast {
			p.Next = l.cursorText()
		}
		if !isEmpty || isLast && l.printed == 0 {
			if err := l.print(out, p); err != nil {
				return err
			}
		}
		if l.printed += len(p.Keys); isLast || isFull {
			return nil
		}
		if isEmpty { // on Redis, few names belong to the rule
			size = min(2*size, largestPage)
		} else {
			size = min(l.max-l.printed, largestPage)
		}
	}
}

// named lists the keys that are named.
func (l *list) named(ctx context.Context, keys []string, out io.Writer) error {
	texts, err := l.storedKeys(keys)
	if err != nil {
		return err
	}
	p, err := l.read(ctx, texts)
	if err != nil {
		return l.failure(ctx, err)
	}
	if len(p.Keys) > 0 || l.json {
		err = l.print(out, p)
	}
	var missing []string
	for _, text := range texts {
		if key := l.formatKey(text); !slices.ContainsFunc(p.Keys, func(k keyRow) bool { return k.Key == key }) {
			missing = append(missing, key)
		}
	}
	return errors.Join(err, l.noRecord(missing))
}

// cursorBegin is the beginning of each cursor. It identifies the rule and the store, because a cursor of another listing would skip
// keys.
func (l *list) cursorBegin() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", l.store.Address, l.table, l.prefix))
	return string(sum[:6])
}

func (l *list) cursorText() string {
	return base64.RawURLEncoding.EncodeToString([]byte(l.cursorBegin() + l.cursor))
}

func (l *list) parseCursor() error {
	if l.after == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(l.after)
	cursor, ok := strings.CutPrefix(string(text), l.cursorBegin())
	if err != nil || !ok || cursor == "" {
		return cli.Usagef("--after %s: want the cursor that sluice keys has printed for the same rule and store", errtext.Quote(l.after))
	}
	l.cursor = cursor
	return nil
}

// page is a part of a listing.
type page struct {
	Store  string   `json:"store"`
	Rule   string   `json:"rule"`
	Policy string   `json:"policy"`
	Keys   []keyRow `json:"keys"`
	Next   string   `json:"next,omitempty"`
}

// keyRow is a key with what it has used, or an error.
type keyRow struct {
	Key string `json:"key"`
	*Usage
	Error string `json:"error,omitempty"`
}

// Usage is what a key has used.
type Usage struct {
	Used       int64  `json:"used"`
	Limit      int64  `json:"limit"`
	RetryAfter string `json:"retry_after"`
	ResetAfter string `json:"reset_after"`

	result algo.Result
}

// page reads about size keys and advances the cursor.
func (l *list) page(ctx context.Context, size int) (p *page, err error) {
	lister := l.store.Store.(storage.Lister) // all stores that open accepts are
	listing, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var texts []string
	if texts, l.cursor, err = driver.ListRule(listing, lister, l.prefix, l.cursor, size); err != nil {
		return nil, err
	}
	slices.Sort(texts)
	return l.read(ctx, slices.Compact(texts))
}

// read reads the records with these keys.
func (l *list) read(ctx context.Context, texts []string) (p *page, err error) {
	p = &page{Store: l.store.Address, Rule: l.name, Policy: l.policy.String()}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if p.Keys, err = l.rows(ctx, texts); err == nil || ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable) {
		return p, err
	}
	for _, text := range texts { // the database cannot read one of them
		row, err := l.rows(ctx, []string{text})
		if err != nil {
			row = []keyRow{{Key: l.formatKey(text), Error: errorText(err)}}
		}
		p.Keys = append(p.Keys, row...)
	}
	return p, nil
}

// rows returns the rows of the records with these keys.
func (l *list) rows(ctx context.Context, texts []string) ([]keyRow, error) {
	rows := []keyRow{}
	records, now, err := l.store.Load(ctx, texts...)
	for i, r := range records {
		if r.Version != 0 { // otherwise it has just expired
			rows = append(rows, l.row(texts[i], r.State, now))
		}
	}
	return rows, err
}

func (l *list) row(text string, state []byte, now time.Time) keyRow {
	row := keyRow{Key: l.formatKey(text)}
	var r algo.Result
	state, err := clockstep.Move(l.policy, state, now) // as a limiter does
	if err == nil {
		r, err = l.policy.Peek(state, now, l.cost)
	}
	if err != nil {
		row.Error = err.Error()
		return row
	}
	policy, own := l.part(state, r.Part)
	part, _ := policy.Peek(own, now, l.cost)
	row.Usage = &Usage{part.Limit - part.Remaining, part.Limit, algo.FormatDuration(r.RetryAfter), algo.FormatDuration(r.ResetAfter), r}
	return row
}

// part returns the part of the policy with this index, and its own state. A policy without parts is the only part, and so is
// the inner policy of a penalty.
func (l *list) part(state []byte, index int32) (algo.Policy, []byte) {
	policy := l.policy
	if penalty, ok := policy.(*compose.Penalty); ok {
		policy = penalty.Inner()
		_, state, _ = penalty.Split(state) // Peek has read it
	}
	if stack, ok := policy.(*compose.Stack); ok {
		for part, own := range stack.Split(state) {
			if part == stack.Parts()[index] {
				return part, own
			}
		}
	}
	return policy, state
}

// print prints a page. As text, the first page with keys gets a head.
func (l *list) print(out io.Writer, p *page) error {
	if l.json {
		return report.JSON(out, p)
	}
	const line = "%-30s %12v %12v  %11s  %11s\n" // a page does not know the lengths of later keys
	text := new(strings.Builder)
	switch {
	case len(p.Keys) == 0 && l.after != "":
		fmt.Fprintln(text, "no more keys")
	case len(p.Keys) == 0:
		fmt.Fprintln(text, l.noKeys())
	case l.printed == 0:
		fmt.Fprintf(text, "rule %s: %s, on %s\n\n", printable(l.name), l.policy, p.Store)
		fmt.Fprintf(text, line, "key", "used", "limit", "retry after", "reset after")
	}
	for _, k := range p.Keys {
		if k.Usage == nil {
			fmt.Fprintf(text, "%-30s unreadable: %s\n", k.Key, k.Error)
			continue
		}
		wait := "-"
		if !k.result.Allowed {
			wait = readable.Rounded(k.result.RetryAfter)
		}
		fmt.Fprintf(text, line, k.Key, k.Used, k.Limit, wait, readable.Rounded(k.result.ResetAfter))
	}
	if p.Next != "" {
		fmt.Fprintf(text, "\nThere can be more keys. Continue with --after %s\n", p.Next)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
