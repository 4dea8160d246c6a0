package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// source is an open input with its next entry.
type source struct {
	head   Entry
	file   io.Closer
	raw    *stoppable
	lines  lines
	parser parser
	info   *File
	stats  *Stats
}

const bufferSize = 64 << 10

// open opens the input. It counts in info and stats.
func (in Input) open(ctx context.Context, o Options, count *atomic.Int64, info *File, stats *Stats) (*source, error) {
	f, err := in.Open()
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	s := &source{file: f, info: info, stats: stats, raw: &stoppable{ctx: ctx, r: f, count: count}}
	s.parser.json = newJSONParser(o)
	s.head.File = in.Name
	s.lines.r = bufio.NewReaderSize(s.raw, bufferSize)
	if isGzip(s.lines.r) {
		info.Gzip = true
		s.unzip()
	}
	if mark, _ := s.lines.r.Peek(3); string(mark) == "\uFEFF" {
		_, _ = s.lines.r.Discard(3) // they are in the buffer
	}
	return s, nil
}

func (s *source) unzip() {
	z, err := gzip.NewReader(s.lines.r)
	if err != nil {
		s.lines.err = err
		return
	}
	s.lines.r = bufio.NewReaderSize(z, bufferSize)
}

// next moves head to the next entry. It returns false at the end of the input, and on an error other
// than damaged gzip.
func (s *source) next() (bool, error) {
	for {
		entry, more := s.step()
		if entry {
			return true, nil
		}
		if !more {
			return false, s.end()
		}
	}
}

// step reads one line into head, and reports whether it is an entry.
func (s *source) step() (entry, more bool) {
	line, long, ok := s.lines.next()
	if !ok {
		return false, false
	}
	s.head.Line++
	s.info.Lines++
	s.stats.Lines++
	reason := reasonLong
	if !long {
		reason = s.parser.parse(line, &s.head)
	}
	if reason != "" {
		s.skip(line, reason)
		return false, true
	}
	s.stats.Entries++
	if line[0] == '{' {
		s.stats.JSON++
	}
	if s.info.Format == "" {
		s.info.Format = formatOf(line, &s.head)
	}
	return true, true
}

func (s *source) skip(line []byte, reason string) {
	s.info.Skipped++
	s.stats.Skipped++
	if s.stats.FirstSkipped == nil {
		text := bytes.Clone(line[:min(len(line), 100)])
		s.stats.FirstSkipped = &BadLine{File: s.head.File, Line: s.head.Line, Reason: reason, Text: text, Cut: len(line) > len(text)}
	}
}

// end closes the file and returns the read error.
func (s *source) end() error {
	s.file.Close() // it was only read
	if s.raw.err != nil {
		return fmt.Errorf("accesslog: %s: %w", s.head.File, s.raw.err)
	}
	if s.lines.err != io.EOF {
		s.info.Damage = s.lines.err
	}
	return nil
}
