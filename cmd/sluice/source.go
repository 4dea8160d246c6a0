package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-go/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/internal/sample"
)

// A source is one FILE of the command line.
type source struct {
	name  string
	input accesslog.Input
	size  int64 // in bytes; -1: not known
	trace bool
	info  os.FileInfo // nil for what is no file
}

const sampleName = "the bundled sample log"

func openSources(args []string, stdin io.Reader) ([]source, error) {
	if len(args) == 0 {
		return []source{{name: sampleName, input: accesslog.FromReader(sampleName, sample.Open()), size: -1}}, nil
	}
	var sources []source
	stdins := 0
	for _, arg := range args {
		if arg == "-" {
			if stdins++; stdins > 1 {
				return nil, usagef("standard input (-) can be read only once")
			}
			sources = append(sources, openReader("standard input", stdin))
			continue
		}
		s, err := openFile(arg)
		if err != nil {
			return nil, err
		}
		for _, other := range sources {
			if other.info != nil && os.SameFile(s.info, other.info) {
				return nil, usagef("%s and %s are the same file, whose requests would count twice; name it once", other.name, arg)
			}
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// openReader is for what can be read only once.
func openReader(name string, r io.Reader) source {
	first, whole := accesslog.Peek(r, peekSize)
	return source{name: name, input: accesslog.FromReader(name, whole), size: -1, trace: looksLikeTrace(first)}
}

func openFile(path string) (source, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return source{}, usagef("there is no file %q; name log files or traces, - for standard input, or nothing for the sample", path)
	case err != nil:
		return source{}, usagef("%w", err)
	case info.IsDir():
		return source{}, usagef("%s is a directory; name the files in it, for instance %s", path, filepath.Join(path, "*.log"))
	}
	f, err := os.Open(path)
	if err != nil {
		return source{}, usagef("%w", err)
	}
	if !info.Mode().IsRegular() { // a pipe: what is read of it is gone
		s := openReader(path, f)
		s.info = info
		return s, nil
	}
	defer f.Close()
	first, _ := accesslog.Peek(f, peekSize)
	return source{path, accesslog.FromFile(path), info.Size(), looksLikeTrace(first) || filepath.Ext(path) == ".trace", info}, nil
}

func inputs(sources []source) []accesslog.Input {
	var in []accesslog.Input
	for _, s := range sources {
		in = append(in, s.input)
	}
	return in
}

func describe(sources []source) string {
	if len(sources) == 1 {
		return sources[0].name
	}
	return fmt.Sprintf("%s and %d more", sources[0].name, len(sources)-1)
}

// offered tells whether somebody has put something into standard input.
func offered(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&fs.ModeNamedPipe != 0 || info.Mode().IsRegular() && info.Size() > 0)
}

// await ends with f, or with ctx while f still waits for somebody to type or to
// open the other end of a pipe. Then f is left behind.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
