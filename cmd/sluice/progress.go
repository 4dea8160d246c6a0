package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// longInput is the size from which a replay shows a progress bar, in bytes.
const longInput = 16 << 20

// progress is a progress bar on a terminal. A nil progress shows nothing.
type progress struct {
	bar   *progressbar.ProgressBar
	lines int
}

func newProgress(w io.Writer, sources []source) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var size int64
	for _, s := range sources {
		if s.size < 0 && s.name != sampleName {
			size = -1
			break
		}
		size += s.size
	}
	if size >= 0 && size < longInput {
		return nil
	}
	return &progress{bar: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription("replaying"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p *progress) at(log *accesslog.Reader) {
	if p == nil {
		return
	}
	if p.lines++; p.lines%4096 == 0 {
		_ = p.bar.Set64(log.BytesRead())
	}
}

func (p *progress) done() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
