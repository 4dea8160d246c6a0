package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// MaxLine is the largest length of a line in bytes. Longer lines are skipped, and never held
// in memory as a whole.
const MaxLine = 1 << 20

// bufferSize has room for a line of MaxLine and its end.
const bufferSize = MaxLine + len("\r\n")

// source is an open input with its next entry.
type source struct {
	head   Entry
	file   io.Closer
	raw    *stoppable
	r      *bufio.Reader // decompressed
	rest   bool          // r is in the middle of a line that is longer than its buffer
	err    error         // the end of r, io.EOF or worse
	parser parser
	stats  *Stats
}

// open opens the input. It counts bytes in count, and lines in stats.
func (in Input) open(ctx context.Context, o Options, count *atomic.Int64, stats *Stats) (*source, error) {
	f, err := in.Open()
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	raw := &stoppable{ctx: ctx, r: f, count: count}
	s := &source{file: f, raw: raw, stats: stats, parser: newParser(o), r: bufio.NewReaderSize(Unzip(raw), bufferSize)}
	s.head.File = in.Name
	if mark, _ := s.r.Peek(3); string(mark) == "\uFEFF" {
		_, _ = s.r.Discard(3) // they are in the buffer
	}
	return s, nil
}

// next moves head to the next entry. It returns false at the end of the input, and on an error other
// than damaged gzip.
func (s *source) next() (bool, error) {
	for line := s.line(); s.err == nil; line = s.line() {
		s.head.Line++
		s.stats.Lines++
		reason := reasonLong
		if !s.rest && len(line) <= MaxLine {
			reason = s.parser.parse(line, &s.head)
		}
		if reason == "" {
			s.stats.Entries++
			if line[0] == '{' {
				s.stats.JSON++
			}
			return true, nil
		}
		s.skip(line, reason)
	}
	return false, s.end()
}

// line returns the next line without its end, \n or \r\n. The result is valid until the next call.
// If a line is too long, line returns its beginning, and the next call skips the rest. The last line
// needs no end.
func (s *source) line() (line []byte) {
	for s.rest && s.err == nil {
		_, s.rest, s.err = s.r.ReadLine()
	}
	if s.err == nil {
		line, s.rest, s.err = s.r.ReadLine()
	}
	return line
}

func (s *source) skip(line []byte, reason string) {
	s.stats.Skipped++
	if s.stats.FirstSkipped == nil {
		text := bytes.Clone(line[:min(len(line), 100)])
		s.stats.FirstSkipped = &BadLine{File: s.head.File, Line: s.head.Line, Reason: reason, Text: text, Cut: len(line) > len(text)}
	}
}

// end closes the file and returns the read error.
func (s *source) end() error {
	s.file.Close() // it was only read
	if s.raw.err != nil && s.raw.err != io.EOF {
		return fmt.Errorf("accesslog: %s: %w", s.head.File, s.raw.err)
	}
	if s.err != io.EOF {
		s.stats.Damaged = append(s.stats.Damaged, DamagedFile{s.head.File, s.err})
	}
	return nil
}
