package logs

import (
	"bytes"
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
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

// A Source is one FILE of the command line.
type Source struct {
	accesslog.Input       // its Name is escaped, for reports and errors
	size            int64 // in bytes; -1: not known
	Trace           bool
	Info            os.FileInfo // nil: no file, such as the sample
}

// longInput is the number of bytes from which a replay shows a progress bar.
const longInput = 16 << 20

// Open opens the files of a command line, or the sample if there are none.
func Open(args []string, stdin io.Reader) (sources []Source, err error) {
	if len(args) == 0 {
		return []Source{{Input: accesslog.FromReader(sample.Name, sample.Open())}}, nil
	}
	for i, arg := range args {
		if arg == "-" && slices.Contains(args[:i], "-") {
			return nil, cli.Usagef("standard input (-) can be read only once")
		}
		s, err := openSource(arg, stdin, sources)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// openSource opens one FILE. It returns an error if it is one of the files before.
func openSource(arg string, stdin io.Reader, before []Source) (Source, error) {
	info, err := stat(arg, stdin)
	if err != nil {
		return Source{}, err
	}
	for _, s := range before {
		if os.SameFile(s.Info, info) {
			return Source{}, cli.Usagef("%s and %s are the same file, so its requests would count twice; name it once", s.Name, arg)
		}
	}
	if arg == "-" {
		return openOnce("standard input", stdin, info), nil
	}
	return openFile(arg, info)
}

// stat returns nil if arg is standard input and that is no file.
func stat(arg string, stdin io.Reader) (os.FileInfo, error) {
	if arg != "-" {
		return cli.StatFile(arg, "log files or traces, - for standard input, or nothing for the sample", "the files in it, for instance "+filepath.Join(arg, "*"))
	}
	if f, ok := stdin.(*os.File); ok {
		return f.Stat()
	}
	return nil, nil
}

func openFile(path string, info os.FileInfo) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return Source{}, cli.Usagef("%w", err)
	}
	if !info.Mode().IsRegular() { // such as a pipe
		return openOnce(readable.Graphic(path), f, info), nil
	}
	defer f.Close()
	first, _ := accesslog.Peek(f, peekSize)
	trace := isTrace(first) || filepath.Ext(path) == ".trace"
	input := accesslog.FromFile(path)
	input.Name = readable.Graphic(path)
	return Source{input, info.Size(), trace, info}, nil
}

// openOnce returns the source for input that can be read only once. It stays open until the
// process ends.
func openOnce(name string, r io.Reader, info os.FileInfo) Source {
	first, whole := accesslog.Peek(r, peekSize)
	return Source{accesslog.FromReader(name, whole), -1, isTrace(first), info}
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

// NoteSample says that the sample is read, if no log is named although standard input has data.
func NoteSample(logs []string, s cli.Streams) {
	if len(logs) == 0 && stdinHasData(s.In) {
		fmt.Fprintln(s.Err, "sluice: reading the bundled sample log; to read standard input, pass -")
	}
}

// newProgress returns a progress bar for the bytes of the sources.
func newProgress(w io.Writer, sources []Source) *progressbar.ProgressBar {
	var size int64
	for _, s := range sources {
		size += s.size
	}
	if slices.ContainsFunc(sources, func(s Source) bool { return s.size < 0 }) {
		size = -1
	}
	return NewBar(w, size, "reading", progressbar.OptionShowBytes(true))
}

// NewBar returns a progress bar. It is invisible unless w is a wide terminal and the size is large or not known (-1).
func NewBar(w io.Writer, size int64, description string, count progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size, count,
		progressbar.OptionSetVisibility(isWide(w) && (size < 0 || size >= longInput)),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(description),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// isWide reports whether w is a terminal with at least 80 columns, or with an unknown number of them: a bar that is wider than
// the terminal would fill it with lines.
func isWide(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	return err != nil || columns == 0 || columns >= 80
}

// peekSize is how many bytes of a file are read to detect a trace.
const peekSize = 64 << 10

// isTrace reports whether the first line that is not empty or a comment belongs to a trace. A line of a log
// can begin with the same word, but then a [time] or JSON follows.
func isTrace(first []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(first, []byte("\uFEFF"))) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			continue
		}
		return (string(words[0]) == "policy" || string(words[0]) == "show" || words[0][0] == '@') && !bytes.ContainsAny(line, "[{")
	}
	return false
}
