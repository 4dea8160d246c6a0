package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/sluice-go/sluice/internal/errtext"
)

// MaxLine is the largest length of a line in bytes. Longer lines are skipped, and never held
// in memory as a whole.
const MaxLine = 1 << 20

// source is an input with its next entry.
type source struct {
	Input
	index  int       // of the input
	head   Entry     // the time is zero, and so before all others, if the input must be opened to know it
	file   io.Closer // nil: not yet open
	raw    *stoppable
	text   *bufio.Reader // decompressed
	rest   bool          // text is in the middle of a line that is longer than its buffer
	err    error         // the end of text, io.EOF or worse
	prefix unwrapper
	parser parser
	stats  *Stats
}

func (s *source) compare(t *source) int {
	return cmp.Or(s.head.Time.Compare(t.head.Time), cmp.Compare(s.index, t.index))
}

// open opens the input. It counts lines in stats.
func (s *source) open(ctx context.Context, o Options, stats *Stats) error {
	f, err := s.Open()
	if err != nil {
		return fmt.Errorf("accesslog: %w", err)
	}
	s.file, s.raw, s.stats, s.parser = f, &stoppable{ctx: ctx, r: f, progress: o.Progress}, stats, newParser(o)
	s.text = bufio.NewReaderSize(Unzip(s.raw), MaxLine+len("\r\n"))
	if mark, _ := s.text.Peek(3); string(mark) == "\uFEFF" {
		_, _ = s.text.Discard(3) // they are in the buffer
	}
	return nil
}

// next moves head to the next entry. It returns false at the end of the input, and on an error other
// than damaged gzip.
func (s *source) next() (bool, error) {
	for line := s.line(); s.err == nil; line = s.line() {
		s.head.Line++
		content, whole := line, true
		if len(line) <= MaxLine {
			content, whole = s.prefix.unwrap(line)
		}
		if !whole {
			continue
		}
		s.stats.Lines++
		reason := "longer than 1 MiB"
		if len(content) <= MaxLine {
			reason = s.parser.parse(content, &s.head)
		}
		if reason != "" {
			s.skip(line, reason)
			continue
		}
		s.stats.Entries++
		if content[0] == '{' {
			s.stats.JSON++
		}
		if ip := s.head.IP; len(ip) > 0 && !isIP(ip) {
			s.stats.NoAddress++
			s.badLine(&s.stats.FirstNoAddress, line, "the client "+errtext.Quote(string(ip))+" is no address")
		}
		return true, nil
	}
	for _, part := range s.prefix.parts {
		if len(part) > 0 {
			s.stats.Lines++
			s.skip(part, "the end of the line is missing")
		}
	}
	return false, s.end()
}

// line returns the next line without its end, \n and each \r before it. The result is valid until the next call. If a line is too
// long, line returns its beginning, and the next call skips the rest. The last line needs no end.
func (s *source) line() (line []byte) {
	for s.rest && s.err == nil {
		_, s.rest, s.err = s.text.ReadLine()
	}
	if s.err == nil {
		line, s.rest, s.err = s.text.ReadLine()
	}
	return bytes.TrimRight(line, "\r")
}

func (s *source) skip(line []byte, reason string) {
	s.stats.Skipped++
	s.badLine(&s.stats.FirstSkipped, line, reason)
}

// badLine sets first to the line unless there is an earlier one.
func (s *source) badLine(first **BadLine, line []byte, reason string) {
	if *first == nil {
		text := bytes.Clone(line[:min(len(line), 100)])
		*first = &BadLine{File: s.Name, Line: s.head.Line, Reason: reason, Text: text, Cut: len(line) > len(text)}
	}
}

// end closes the file and returns the read error.
func (s *source) end() error {
	s.file.Close() // it was only read
	if s.raw.err != nil && s.raw.err != io.EOF {
		return fmt.Errorf("accesslog: %s: %w", s.Name, s.raw.err)
	}
	if s.err != io.EOF {
		s.stats.Damaged = append(s.stats.Damaged, DamagedFile{s.Name, s.err.Error()})
	}
	return nil
}

// Input is one log, plain or gzip.
type Input struct {
	Name string // for entries and errors
	Open func() (io.ReadCloser, error)
	Once bool // Open can be called only once, as for a pipe
}

// FromFile returns the Input for a regular file.
func FromFile(path string) Input {
	return Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// FromReader returns the Input for r, such as standard input. It does not close r.
func FromReader(name string, r io.Reader) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }, Once: true}
}

// Peek returns the first n bytes of r, or fewer at its end, and a reader of all of r, those
// bytes included. For gzip, first has the decompressed text of the first n bytes, and whole is
// not decompressed. whole returns the error of r.
func Peek(r io.Reader, n int) (first []byte, whole io.Reader) {
	b := bufio.NewReaderSize(&stoppable{ctx: context.Background(), r: r}, n)
	raw, _ := b.Peek(n)                                                          // b returns the error too
	first, _ = io.ReadAll(io.LimitReader(Unzip(bytes.NewReader(raw)), int64(n))) // what there is before it is cut off
	return first, b
}

// Unzip returns a reader that decompresses r if r is gzip, and else reads r.
func Unzip(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); string(magic) != "\x1f\x8b" {
		return b
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return failing{err}
	}
	return z
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// stoppable reports the bytes read, stores the first error, and ends with ctx.
type stoppable struct {
	ctx      context.Context
	r        io.Reader
	progress func(n int)
	err      error // io.EOF or worse
}

func (s *stoppable) Read(b []byte) (n int, err error) {
	s.err = cmp.Or(s.err, s.ctx.Err())
	if s.err != nil { // a terminal would ask for its end a second time
		return 0, s.err
	}
	n, s.err = s.r.Read(b)
	if s.progress != nil {
		s.progress(n)
	}
	return n, s.err
}
