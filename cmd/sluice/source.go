package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

// A source is one FILE of the command line.
type source struct {
	name  string // escaped, for reports and errors
	input accesslog.Input
	size  int64 // in bytes; -1: not known
	trace bool
	info  os.FileInfo // nil: standard input, or the sample
}

const (
	sampleName = "the bundled sample log"
	longInput  = 16 << 20 // bytes from which a replay shows a progress bar
)

func openSources(args []string, stdin io.Reader) (sources []source, err error) {
	if len(args) == 0 {
		return []source{{name: sampleName, input: accesslog.FromReader(sampleName, sample.Open())}}, nil
	}
	for _, arg := range args {
		s, err := openSource(arg, stdin, sources)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// openSource opens one FILE. It returns an error if it is one of the files before.
func openSource(arg string, stdin io.Reader, before []source) (source, error) {
	if arg == "-" {
		if slices.ContainsFunc(before, func(s source) bool { return s.info == nil }) {
			return source{}, usagef("standard input (-) can be read only once")
		}
		return openOnce("standard input", stdin), nil
	}
	info, err := statFile(arg, "log files or traces, - for standard input, or nothing for the sample", "the files in it, for instance "+filepath.Join(arg, "*"))
	if err != nil {
		return source{}, err
	}
	for _, s := range before {
		if os.SameFile(s.info, info) {
			return source{}, usagef("%s and %s are the same file, so its requests would count twice; name it once", s.name, arg)
		}
	}
	return openFile(arg, info)
}

// statFile returns the FileInfo of path. want and inside complete the errors for a missing file
// and for a directory.
func statFile(path, want, inside string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usagef("no file %q; name %s", path, want)
	case err != nil:
		return nil, usagef("%w", err)
	case info.IsDir():
		return nil, usagef("%s is a directory; name %s", path, inside)
	}
	return info, nil
}

func openFile(path string, info os.FileInfo) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return source{}, usagef("%w", err)
	}
	name := graphic(path)
	if !info.Mode().IsRegular() { // such as a pipe
		s := openOnce(name, f)
		s.info = info
		return s, nil
	}
	defer f.Close()
	first, _ := accesslog.Peek(f, peekSize)
	trace := isTrace(first) || filepath.Ext(path) == ".trace"
	input := accesslog.FromFile(path)
	input.Name = name
	return source{name, input, info.Size(), trace, info}, nil
}

// openOnce returns the source for input that can be read only once. It stays open until the
// process ends.
func openOnce(name string, r io.Reader) source {
	first, whole := accesslog.Peek(r, peekSize)
	return source{name, accesslog.FromReader(name, whole), -1, isTrace(first), nil}
}

// stdinHasData reports whether standard input is a pipe or a file with data.
func stdinHasData(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&fs.ModeNamedPipe != 0 || info.Mode().IsRegular() && info.Size() > 0)
}

// noteSample says that the sample is read, if no log is named although standard input has data.
func noteSample(logs []string, s streams) {
	if len(logs) == 0 && stdinHasData(s.in) {
		fmt.Fprintln(s.err, "sluice: reading the bundled sample log; to read standard input, pass -")
	}
}

// newProgress returns a progress bar. It is invisible unless w is a terminal with 80 columns and the
// input is long: a bar that is wider than the terminal would fill it with lines.
func newProgress(w io.Writer, sources []source) *progressbar.ProgressBar {
	var size int64
	for _, s := range sources {
		size += s.size
	}
	if slices.ContainsFunc(sources, func(s source) bool { return s.size < 0 }) {
		size = -1
	}
	return newBar(w, size, !isNarrow(w) && (size < 0 || size >= longInput), "reading", progressbar.OptionShowBytes(true))
}

// newBar returns a progress bar, which needs a terminal.
func newBar(w io.Writer, size int64, visible bool, description string, count progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size, count,
		progressbar.OptionSetVisibility(visible && isTerminal(w)),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(description),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isNarrow reports whether a terminal has fewer than 80 columns. It returns false if the number is not
// known.
func isNarrow(w io.Writer) bool {
	if !isTerminal(w) {
		return false
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	return err == nil && columns > 0 && columns < 80
}

// await returns the result of f, or the error of ctx if that ends first: f may wait for a
// terminal or for the writer of a pipe. The goroutine of f is then abandoned.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var value, none T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
