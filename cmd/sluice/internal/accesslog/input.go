package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"sync/atomic"
)

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

// FromReader returns the Input for r, such as standard input. It does not close r. If a Read of
// r blocks while the [Reader] is closed, that Read is not interrupted.
func FromReader(name string, r io.Reader) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }, Once: true}
}

// Peek returns the first n bytes of r, or fewer at its end, and a reader of all of r, those
// bytes included. For gzip, first has the decompressed text of the first n bytes, and whole is
// not decompressed. whole returns the error of r.
func Peek(r io.Reader, n int) (first []byte, whole io.Reader) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)))
	switch {
	case err != nil:
		r = failing{err}
	case len(raw) < n: // a terminal would ask for its end a second time
		r = failing{io.EOF}
	}
	whole = io.MultiReader(bytes.NewReader(raw), r)
	first, _ = io.ReadAll(io.LimitReader(Unzip(bytes.NewReader(raw)), int64(n))) // what there is before it is cut off
	return first, whole
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

// stoppable counts the bytes read, stores the first error, and ends with ctx.
type stoppable struct {
	ctx   context.Context
	r     io.Reader
	count *atomic.Int64
	err   error // io.EOF or worse
}

func (s *stoppable) Read(b []byte) (n int, err error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil { // a terminal would ask for its end a second time
		return 0, s.err
	}
	n, s.err = s.r.Read(b)
	s.count.Add(int64(n))
	return n, s.err
}
