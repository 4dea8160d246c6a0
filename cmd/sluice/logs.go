package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/errtext"
)

// logFlags are the flags that say how to read access logs.
type logFlags struct {
	by, timeField, keyField string
	reorder                 time.Duration
	flags                   *pflag.FlagSet
}

// define defines the flags. by describes --by.
func (l *logFlags) define(flags *pflag.FlagSet, by string) {
	flags.StringVar(&l.by, "by", "ip", by+", `FIELDS`: ip, user, method, path, host, status, key, or several joined by +; everything: all requests have the same key")
	flags.DurationVar(&l.reorder, "reorder", time.Minute, "sort lines that are out of order by up to this duration")
	flags.StringVar(&l.timeField, "time-field", "", "the `MEMBER` of JSON lines that holds the time, such as request.at")
	flags.StringVar(&l.keyField, "key-field", "", "the `MEMBER` of JSON lines that holds the key (sets --by key), or with --config the header or cookie of the rules")
	l.flags = flags
}

// parseKeyer parses --by. --key-field alone means --by key.
func (l *logFlags) parseKeyer() (*accesslog.Keyer, error) {
	if l.keyField != "" && !l.flags.Changed("by") {
		l.by = "key"
	}
	k, err := l.parseBy()
	if err == nil && l.keyField != "" && k.Named()&accesslog.Key == 0 {
		err = usagef("--key-field has no effect with --by %s; leave one out, or add key to --by, such as ip+key", l.by)
	}
	return k, err
}

// parseBy parses --by.
func (l *logFlags) parseBy() (*accesslog.Keyer, error) {
	for word := range strings.SplitSeq(l.by, "+") {
		if kind, _, named := strings.Cut(strings.TrimSpace(word), ":"); named && (kind == "header" || kind == "cookie") {
			return nil, usagef("--by %s: access logs have no field for a %s; name the member of JSON lines that holds it with --key-field, and write key in --by", errtext.Quote(l.by), kind)
		}
	}
	k, err := accesslog.ParseKeyer(l.by)
	if err != nil {
		return nil, usagef("--by: %s", withoutPackage(err))
	}
	if k.Named()&accesslog.Key != 0 && l.keyField == "" {
		return nil, usagef("--by %s needs --key-field, the member of JSON lines that holds the key", l.by)
	}
	return k, nil
}

// keyed makes the key of an entry.
type keyed struct {
	keyer *accesslog.Keyer
	key   []byte
}

// fields returns the fields of an entry that the key needs, and those that it names.
func (k *keyed) fields() (read, named accesslog.Fields) { return k.keyer.Fields(), k.keyer.Named() }

// keyOf returns the key of an entry. It is valid until the next call.
func (k *keyed) keyOf(e *accesslog.Entry) []byte {
	k.key = k.keyer.AppendKey(k.key[:0], e)
	return k.key
}

// open opens the logs for a command that reads no traces.
func (l *logFlags) open(ctx context.Context, command string, logs []string, s streams) ([]source, error) {
	sources, err := await(ctx, func() ([]source, error) { return openSources(logs, s.in) })
	for _, log := range sources {
		if log.trace {
			return nil, usagef("%s is a trace, and %s reads access logs; name an access log, or run the trace with sluice replay", log.name, command)
		}
	}
	return sources, err
}

// read reads the logs to their end. It calls add for each entry, in the order of time. read has the
// fields that add needs, and named those that keys and rules name.
func (l *logFlags) read(ctx context.Context, sources []source, read, named accesslog.Fields, terminal io.Writer, add func(*accesslog.Entry) error) (*logSummary, error) {
	name := sources[0].name
	if more := len(sources) - 1; more > 0 {
		name = fmt.Sprintf("%s and %d more", name, more)
	}
	var inputs []accesslog.Input
	for _, s := range sources {
		inputs = append(inputs, s.input)
	}
	log := accesslog.NewReader(ctx, inputs, accesslog.Options{
		Reorder:   l.reorder,
		TimeField: l.timeField,
		KeyField:  l.keyField,
		Fields:    cmp.Or(read, accesslog.Status), // for the reader, no fields means all fields
	})
	defer log.Close()
	bar := newProgress(terminal, sources)
	defer func() { _ = bar.Finish() }()
	summary := &logSummary{name: name, keyField: l.keyField, readsIP: read&accesslog.IP != 0, named: named, missing: make(map[accesslog.Fields]int64)}
	for n := 1; log.Next(); n++ {
		e := log.Entry()
		summary.add(e)
		if err := add(e); err != nil {
			return nil, err
		}
		if n%4096 == 0 {
			_ = bar.Set64(log.BytesRead())
		}
	}
	if err := log.Err(); err != nil {
		return nil, l.withRemedy(err, log.Stats().Damaged)
	}
	summary.Stats = log.Stats()
	return summary, l.validate(summary)
}

// validate returns an error if the log is probably the wrong one or unsorted.
func (l *logFlags) validate(s *logSummary) error {
	switch {
	case s.Entries == 0: // if all lines were invalid, the reader has returned an error
		return fmt.Errorf("%s: the log is empty; name another log", s.name)
	case s.named&accesslog.IP != 0 && s.CheckAddresses() != nil:
		if s.JSON > 0 && l.keyField == "" {
			return fmt.Errorf("%w; to limit by another member of JSON lines, name it with --key-field", s.CheckAddresses())
		}
		return s.CheckAddresses()
	case s.JSON == 0 && (l.timeField != "" || l.keyField != ""):
		return fmt.Errorf("%s has no lines of JSON; leave %s out", s.name, "--"+strings.Join(given(l.flags, "time-field", "key-field"), " and --"))
	case s.missing[accesslog.Key] == s.Entries:
		return fmt.Errorf("%s: no line has the member %q; --key-field wants a member's name, with dots if it is nested, such as request.tenant", s.name, l.keyField)
	case s.most > s.Entries-s.most: // all of them would be replayed at one time
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s because of the time of %s:%d, %s; remove that line, sort the log by time, or set a longer --reorder",
			s.name, s.most, plural(s.Entries, "line"), readable.Exact(l.reorder), s.ahead.file, s.ahead.line, s.ahead.at.UTC().Format(stamp))
	case s.Late > s.Entries-s.Late:
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s; sort the log by time, or set a longer --reorder",
			s.name, s.Late, plural(s.Entries, "line"), readable.Exact(l.reorder))
	}
	return nil
}

// withRemedy adds a remedy to the error of a log that could not be read.
func (l *logFlags) withRemedy(err error, damaged []accesslog.DamagedFile) error {
	var bad *accesslog.UnreadableError
	if !errors.As(err, &bad) {
		return err
	}
	first := bad.First
	if encoding, remedy := bad.Encoding(); encoding != "" {
		return fmt.Errorf("%s is %s; %s, and pass - to read the result from standard input", first.File, encoding, remedy)
	}
	for _, f := range damaged {
		if f.Name == first.File {
			return fmt.Errorf("%w; %s is a damaged gzip file (%w), so copy it again", err, f.Name, f.Err)
		}
	}
	switch ext := filepath.Ext(first.File); {
	case ext == ".yaml" || ext == ".yml":
		return fmt.Errorf("%w; if %s is a rule file, %s", err, first.File, l.ruleFileRemedy(first.File))
	case first.Reason == accesslog.NoRequest:
		return fmt.Errorf("%w; keep only the lines that are requests, or name the member to limit by with --key-field", err)
	case beginsArray(first.Text):
		return fmt.Errorf("%w; a JSON log has one object on each line: convert it with jq -c '.[]', and pass - to read the result from standard input", err)
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

// ruleFileRemedy says what to do with a rule file that was named as a log.
func (l *logFlags) ruleFileRemedy(name string) string {
	if l.flags.Lookup("config") != nil {
		return "use --config " + name
	}
	return "name a log in its place"
}
