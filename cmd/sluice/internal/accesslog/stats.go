package accesslog

import (
	"fmt"
	"strconv"
)

// Stats counts what was read. Lines = Entries + Skipped.
type Stats struct {
	Lines     int64 // of all files, empty ones too
	Entries   int64 // lines that were read
	JSON      int64 // of these, lines of JSON
	Skipped   int64 // lines that are no log lines
	Reordered int64 // entries that stood behind a later one, by Options.Reorder at most, and were put right
	Late      int64 // entries that stood further behind and are delivered at the latest stamp seen

	FirstSkipped *BadLine // nil if no line was skipped; of several files, the first one met
	Files        []File   // one for each Input, in the order given; filled in when Next has returned false
}

// verdict is the error that the counts themselves amount to.
func (s *Stats) verdict() error {
	if s.Skipped > s.Lines-s.Skipped {
		return &UnreadableError{Lines: s.Lines, Skipped: s.Skipped, First: s.FirstSkipped}
	}
	for _, f := range s.Files {
		if f.Damage != nil && s.Lines == 0 {
			return fmt.Errorf("accesslog: %s: gzip that is cut short or damaged before its first line: %w", f.Name, f.Damage)
		}
	}
	return nil
}

// File tells what one Input was found to be.
type File struct {
	Name    string
	Format  string // common, combined, vhost or JSON, after its first entry; empty if it had none
	Gzip    bool
	Lines   int64
	Skipped int64
	Damage  error // why the gzip data ended before its end; nil if it is whole
}

// BadLine is a line that is no log line.
type BadLine struct {
	File   string
	Line   int64  // from 1
	Reason string // in a few words
	Text   []byte // the beginning of the line, 100 bytes at most
	Cut    bool   // whether the line goes on behind Text
}

// String is the line's place, reason and quoted text, all printable.
func (b *BadLine) String() string {
	more := ""
	if b.Cut {
		more = "..."
	}
	return fmt.Sprintf("%s:%d: %s: %s%s", b.File, b.Line, b.Reason, strconv.QuoteToGraphic(string(b.Text)), more)
}

// UnreadableError says that more than half of all lines are no log lines.
type UnreadableError struct {
	Lines, Skipped int64
	First          *BadLine // never nil
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("accesslog: %d of %d lines are no log lines (tried the common and combined formats, also behind a virtual host, and JSON lines); the first is %v",
		e.Skipped, e.Lines, e.First)
}
