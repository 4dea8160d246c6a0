// Package logs reads the access logs of a command line, and describes them in reports.
package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/errtext"
)

// Input has the flags that say how to read access logs.
type Input struct {
	by, timeField, KeyField string
	reorder                 time.Duration
	Flags                   *pflag.FlagSet
}

// Define defines the flags. by describes --by.
func (l *Input) Define(flags *pflag.FlagSet, by string) {
	flags.StringVar(&l.by, "by", "ip", by+", `FIELDS`: ip, user, method, path, host, status, key, or several joined by +; everything: all requests have the same key")
	flags.DurationVar(&l.reorder, "reorder", accesslog.DefaultReorder, "sort lines that are out of order by up to this duration")
	flags.StringVar(&l.timeField, "time-field", "", "the `MEMBER` of JSON lines that holds the time, such as request.at")
	flags.StringVar(&l.KeyField, "key-field", "", "the `MEMBER` of JSON lines that holds the key (sets --by key), or with --config the header or cookie of the rules")
	l.Flags = flags
}

// Open opens the logs for a command that reads no traces.
func (l *Input) Open(ctx context.Context, command string, logs []string, s cli.Streams) ([]Source, error) {
	sources, err := cli.Await(ctx, func() ([]Source, error) { return Open(logs, s.In) })
	for _, log := range sources {
		if log.Trace {
			return nil, cli.Usagef("%s is a trace, and %s reads access logs; name an access log, or run the trace with sluice replay", log.Name, command)
		}
	}
	return sources, err
}

// Read reads the logs to their end. It calls add for each entry, in the order of time. read has the
// fields that add needs, and named those that keys and rules name.
func (l *Input) Read(ctx context.Context, sources []Source, read, named accesslog.Fields, terminal io.Writer, add func(*accesslog.Entry) error) (*Summary, error) {
	name := sources[0].Name
	if more := len(sources) - 1; more > 0 {
		name = fmt.Sprintf("%s and %d more", name, more)
	}
	var inputs []accesslog.Input
	for _, s := range sources {
		inputs = append(inputs, s.Input)
	}
	bar := newProgress(terminal, sources)
	defer func() { _ = bar.Finish() }()
	summary := &Summary{Name: name, keyField: l.KeyField, readsIP: read&accesslog.IP != 0, named: named, missing: make(map[accesslog.Fields]int64)}
	o := accesslog.Options{
		Reorder:   l.reorder,
		TimeField: l.timeField,
		KeyField:  l.KeyField,
		Fields:    read,
		Progress:  func(n int) { _ = bar.Add(n) },
	}
	var err error
	summary.Stats, err = cli.Await(ctx, func() (accesslog.Stats, error) {
		return accesslog.Read(ctx, inputs, o, func(e *accesslog.Entry) error {
			summary.note(e)
			return add(e)
		})
	})
	if err != nil {
		return nil, l.withRemedy(err, summary.Damaged)
	}
	return summary, l.validate(summary)
}

// validate returns an error if the log is probably the wrong one or unsorted.
func (l *Input) validate(s *Summary) error {
	switch {
	case s.Entries == 0: // if all lines were invalid, the reader has returned an error
		return fmt.Errorf("%s: the log is empty; name another log", s.Name)
	case s.named&accesslog.IP != 0 && s.CheckAddresses() != nil:
		if s.JSON > 0 && l.KeyField == "" {
			return fmt.Errorf("%w; to limit by another member of JSON lines, name it with --key-field", s.CheckAddresses())
		}
		return s.CheckAddresses()
	case s.JSON == 0 && (l.timeField != "" || l.KeyField != ""):
		return fmt.Errorf("%s has no lines of JSON; leave %s out", s.Name, "--"+strings.Join(cli.Given(l.Flags, "time-field", "key-field"), " and --"))
	case s.missing[accesslog.Key] == s.Entries:
		return fmt.Errorf("%s: no line has the member %q; --key-field wants a member's name, with dots if it is nested, such as request.tenant", s.Name, l.KeyField)
	case s.most > s.Entries-s.most: // all of them would be replayed at one time
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s because of the time of %s:%d, %s; remove that line, sort the log by time, or set a longer --reorder",
			s.Name, s.most, readable.Plural(s.Entries, "line"), readable.Exact(l.reorder), s.ahead.File, s.ahead.Line, s.ahead.Time.UTC().Format(Stamp))
	case s.Late > s.Entries-s.Late:
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s; sort the log by time, or set a longer --reorder",
			s.Name, s.Late, readable.Plural(s.Entries, "line"), readable.Exact(l.reorder))
	}
	return nil
}

// withRemedy adds a remedy to the error of a log that could not be read. It returns any other error as it is.
func (l *Input) withRemedy(err error, damaged []accesslog.DamagedFile) error {
	var bad *accesslog.UnreadableError
	if !errors.As(err, &bad) {
		return err
	}
	first := bad.First
	for _, f := range damaged {
		if f.Name == first.File {
			return fmt.Errorf("%w; %s is a damaged gzip file (%s), so copy it again", err, f.Name, f.Problem)
		}
	}
	switch ext := filepath.Ext(first.File); {
	case ext == ".yaml" || ext == ".yml":
		remedy := "name a log in its place"
		if l.Flags.Lookup("config") != nil {
			remedy = "use --config " + first.File
		}
		return fmt.Errorf("%w; if %s is a rule file, %s", err, first.File, remedy)
	case first.Reason == accesslog.NoRequest:
		return fmt.Errorf("%w; keep only the lines that are requests, or name the member to limit by with --key-field", err)
	case beginsArray(first.Text):
		return fmt.Errorf("%w; a JSON log has one object on each line: convert it with jq -c '.[]', and pass - to read the result from standard input", err)
	case first.Reason == accesslog.NoStamp && readable.Graphic(string(first.Text)) == string(first.Text): // text, not compressed data
		return fmt.Errorf("%w; convert another format, such as that of IIS, to lines of JSON such as "+`{"time":"2026-01-02T15:04:05Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200}`, err)
	case first.Reason == accesslog.InvalidJSON:
		return fmt.Errorf("%w; a JSON log has one object on each line: if this log has objects of several lines, convert it with jq -c ., and pass - to read the result from standard input", err)
	case !bytes.HasPrefix(first.Text, []byte("{")):
		return err
	case l.timeField != "":
		return fmt.Errorf("%w; --time-field wants the name of the member that holds the time, with dots if it is nested, such as request.at", err)
	}
	return fmt.Errorf("%w; name the member of JSON lines that holds the time with --time-field", err)
}

// beginsArray reports whether a line begins an array of JSON objects.
func beginsArray(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("["))
	rest = bytes.TrimSpace(rest)
	return found && (len(rest) == 0 || rest[0] == '{')
}

// ParseKeyer parses --by. --key-field alone means --by key.
func (l *Input) ParseKeyer() (*accesslog.Keyer, error) {
	if l.KeyField != "" && !l.Flags.Changed("by") {
		l.by = "key"
	}
	k, err := l.ParseBy()
	if err == nil && l.KeyField != "" && k.Named()&accesslog.Key == 0 {
		err = cli.Usagef("--key-field has no effect with --by %s; leave one out, or add key to --by, such as ip+key", l.by)
	}
	return k, err
}

// ParseBy parses --by.
func (l *Input) ParseBy() (*accesslog.Keyer, error) {
	for word := range strings.SplitSeq(l.by, "+") {
		if kind, _, named := strings.Cut(strings.TrimSpace(word), ":"); named && (kind == "header" || kind == "cookie") {
			return nil, cli.Usagef("--by %s: access logs have no field for a %s; name the member of JSON lines that holds it with --key-field, and write key in --by", errtext.Quote(l.by), kind)
		}
	}
	k, err := accesslog.ParseKeyer(l.by)
	if err != nil {
		return nil, cli.Usagef("--by: %s", cli.WithoutPackage(err))
	}
	if k.Named()&accesslog.Key != 0 && l.KeyField == "" {
		return nil, cli.Usagef("--by %s needs --key-field, the member of JSON lines that holds the key", l.by)
	}
	return k, nil
}

// MissingInKey describes what a key has in place of a missing field.
func MissingInKey(f accesslog.Fields) string {
	if f&(accesslog.User|accesslog.Key) != 0 {
		return "their key has ip:ADDRESS instead, or - if they have no address"
	}
	return "their key has - instead"
}
