package accesslog

import (
	"bufio"
	"bytes"
)

// MaxLine is the largest length of a line in bytes. Longer lines are skipped, and never held
// in memory as a whole.
const MaxLine = 1 << 20

// lines reads the lines of a file.
type lines struct {
	r     *bufio.Reader
	spill []byte // a line that did not fit r's buffer
	err   error  // why there are no more, io.EOF or worse
}

// next returns a line without its end, \n or \r\n. It holds until the next call;
// of a long line it is the beginning only. The last line needs no end.
func (l *lines) next() (line []byte, long, ok bool) {
	if l.err != nil {
		return nil, false, false
	}
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, long, err = l.gather(line)
	}
	if err != nil {
		l.err = err
		if len(line) == 0 {
			return nil, false, false
		}
	}
	return chomp(line), long, true
}

// gather reads the rest of a line that is longer than the buffer.
func (l *lines) gather(part []byte) (line []byte, long bool, err error) {
	l.spill = l.spill[:0]
	for {
		room := MaxLine + 2 - len(l.spill) // with \r\n
		long = long || len(part) > room
		l.spill = append(l.spill, part[:min(len(part), room)]...)
		if err != bufio.ErrBufferFull && err != nil || bytes.HasSuffix(part, newline) {
			return l.spill, long || len(chomp(l.spill)) > MaxLine, err
		}
		part, err = l.r.ReadSlice('\n')
	}
}

var newline = []byte{'\n'}

func chomp(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
		if n > 1 && line[n-2] == '\r' {
			line = line[:n-2]
		}
	}
	return line
}
