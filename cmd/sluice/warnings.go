package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// checkLog returns an error if the log is probably the wrong one or unsorted.
func (p *plan) checkLog(r *logSummary) error {
	switch {
	case r.Entries == 0: // if all lines were invalid, the reader has returned an error
		return fmt.Errorf("%s: the log is empty, so there is nothing to replay; name another log", r.name)
	case r.JSON == 0 && (p.timeField != "" || p.keyField != ""):
		return fmt.Errorf("%s has no lines of JSON; leave %s out", r.name, p.memberFlags())
	case r.missing[accesslog.Key] == r.Entries:
		return fmt.Errorf("%s: no line has the member %q; --key-field wants a member's name, with dots if it is nested, such as request.tenant", r.name, p.keyField)
	case r.most > r.Entries-r.most: // all of them would be replayed at one time
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s because of the time of %s:%d, %s; remove that line, sort the log by time, or set a longer --reorder",
			r.name, r.most, plural(r.Entries, "line"), p.reorder.String(), r.ahead.file, r.ahead.line, r.ahead.at.UTC().Format(stamp))
	case r.Late > r.Entries-r.Late:
		return fmt.Errorf("%s: %d of %s are late by more than --reorder %s; sort the log by time, or set a longer --reorder",
			r.name, r.Late, plural(r.Entries, "line"), p.reorder.String())
	}
	return nil
}

// memberFlags names the flags for members of JSON lines that were given.
func (p *plan) memberFlags() string {
	switch {
	case p.keyField == "":
		return "--time-field"
	case p.timeField == "":
		return "--key-field"
	}
	return "--time-field and --key-field"
}

// withRemedy adds a remedy to the error of a log that could not be read.
func (p *plan) withRemedy(err error) error {
	var bad *accesslog.UnreadableError
	if !errors.As(err, &bad) {
		return err
	}
	first := bad.First
	if first.Line == 1 {
		for _, z := range zips {
			if bytes.HasPrefix(first.Text, []byte(z.magic)) {
				return fmt.Errorf("%s is compressed with %s; decompress it: %s FILE | sluice replay -", first.File, z.name, z.cat)
			}
		}
	}
	switch filepath.Ext(first.File) {
	case ".yaml", ".yml":
		return fmt.Errorf("%w; if %s is a rule file, use --config %[2]s", err, first.File)
	}
	if first.Reason == accesslog.NoRequest {
		return fmt.Errorf("%w; keep only the lines that are requests, or name the member to limit by with --key-field", err)
	}
	switch {
	case !bytes.HasPrefix(first.Text, []byte("{")):
	case p.timeField != "":
		return fmt.Errorf("%w; --time-field wants the name of the member that holds the time, with dots if it is nested, such as request.at", err)
	default:
		return fmt.Errorf("%w; name the member of JSON lines that holds the time with --time-field", err)
	}
	return err
}

// zips has compression formats, other than gzip, of rotated logs.
var zips = [...]struct{ name, magic, cat string }{
	{"zstd", "\x28\xb5\x2f\xfd", "zstdcat"},
	{"bzip2", "BZh", "bzcat"},
	{"xz", "\xfd7zXZ\x00", "xzcat"},
	{"zip", "PK\x03\x04", "unzip -p"},
}
