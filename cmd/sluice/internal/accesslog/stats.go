package accesslog

import (
	"bytes"
	"fmt"
	"strconv"
)

// Stats has the counts of Read. Lines = Entries + Skipped.
type Stats struct {
	Counts
	Entries int64 // lines that became entries
	JSON    int64 // entries from JSON lines

	FirstSkipped   *BadLine // nil if no line was skipped
	FirstNoAddress *BadLine // nil if NoAddress is 0
	Damaged        []DamagedFile
}

// Counts has the form that commands print as JSON.
type Counts struct {
	Lines     int64 `json:"lines"`      // of all files, empty lines included; the parts of a line are one
	Skipped   int64 `json:"skipped"`    // lines that are not log lines
	Reordered int64 `json:"reordered"`  // entries that came after a later one, by Options.Reorder at most, and were sorted
	Late      int64 `json:"late"`       // entries that came later than that, and were delivered at the latest time so far
	NoAddress int64 `json:"no_address"` // entries whose IP is neither an IP address nor empty
}

// checkReadable returns an error if too many lines were skipped, or a damaged file had no lines.
func (s *Stats) checkReadable() error {
	if s.Skipped > s.Lines-s.Skipped {
		return &UnreadableError{Lines: s.Lines, Skipped: s.Skipped, First: s.FirstSkipped}
	}
	if len(s.Damaged) > 0 && s.Lines == 0 {
		f := s.Damaged[0]
		return fmt.Errorf("accesslog: %s: the gzip file is cut short or damaged before its first line: %s", f.Name, f.Problem)
	}
	return nil
}

// CheckAddresses returns an error if more than half of all entries have an IP that is no
// address. Then the log is not read as its server meant it, or the server logs the names of hosts.
func (s *Stats) CheckAddresses() error {
	if s.NoAddress <= s.Entries-s.NoAddress {
		return nil
	}
	return fmt.Errorf("accesslog: %d of %d requests have a client that is no address; the first is %v; if the lines have a prefix, remove it; if the server logs host names, configure it to log addresses (Apache: HostnameLookups Off, or %%a in place of %%h)",
		s.NoAddress, s.Entries, s.FirstNoAddress)
}

// DamagedFile is a gzip file that is cut short or corrupt. It has the form that commands print as JSON.
type DamagedFile struct {
	Name    string `json:"file"`
	Problem string `json:"problem"` // the error of the gzip data
}

// BadLine is a line that is not a log line, or whose client is no address.
type BadLine struct {
	File   string
	Line   int64  // from 1
	Reason string // in a few words
	Text   []byte // the beginning of the line, 100 bytes at most
	Cut    bool   // the line is longer than Text
}

// String returns the line's position, reason and quoted text. All of it is printable.
func (b *BadLine) String() string {
	more := ""
	if b.Cut {
		more = "..."
	}
	return fmt.Sprintf("%s:%d: %s: %s%s", b.File, b.Line, b.Reason, strconv.QuoteToGraphic(string(b.Text)), more)
}

// UnreadableError means that more than half of all lines are not log lines.
type UnreadableError struct {
	Lines, Skipped int64
	First          *BadLine // never nil
}

// Error implements error. If the file of First has an encoding that the reader knows but cannot read, it names that.
func (e *UnreadableError) Error() string {
	for _, f := range encodings {
		if e.First.Line == 1 && bytes.HasPrefix(e.First.Text, []byte(f.magic)) {
			return fmt.Sprintf("accesslog: %s is %s; %s first", e.First.File, f.encoding, f.remedy)
		}
	}
	return fmt.Sprintf("accesslog: %d of %d lines are not log lines (tried the common and combined formats, also with a virtual host in front, and JSON lines, each also behind a prefix of syslog, journald, docker or Kubernetes); the first is %v",
		e.Skipped, e.Lines, e.First)
}

// encodings has compression formats of rotated logs, other than gzip, and UTF-16, which PowerShell writes.
var encodings = [...]struct{ magic, encoding, remedy string }{
	{"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it with zstdcat"},
	{"BZh", "compressed with bzip2", "decompress it with bzcat"},
	{"\xfd7zXZ\x00", "compressed with xz", "decompress it with xzcat"},
	{"PK\x03\x04", "compressed with zip", "decompress it with unzip -p"},
	{"\xff\xfe", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
}
