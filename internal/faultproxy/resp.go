package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// resp is the protocol of Redis, in its versions 2 and 3.
type resp struct{}

func (resp) request(r *bufio.Reader) ([]byte, bool, error) {
	message, err := value(r)
	return message, true, err
}

// A push comes between replies, in version 3.
func (resp) reply(r *bufio.Reader) ([]byte, bool, error) {
	message, err := value(r)
	return message, len(message) > 0 && message[0] != '>', err
}

// value reads one value with all its elements, or an inline command.
func value(r *bufio.Reader) ([]byte, error) {
	var read bytes.Buffer
	for left := 1; left > 0; left-- {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		read.Write(line)
		more, err := contents(r, line, &read)
		if err != nil {
			return nil, err
		}
		left += more
	}
	return read.Bytes(), nil
}

// contents reads what a value's first line announces: the text of a string here,
// and elsewhere the elements, whose number it returns.
func contents(r *bufio.Reader, line []byte, read *bytes.Buffer) (elements int, err error) {
	switch line[0] {
	case '$', '=', '!': // string, verbatim string, long error
		size, err := length(line)
		if err == nil && size >= 0 {
			_, err = io.CopyN(read, r, int64(size)+int64(len("\r\n")))
		}
		return 0, err
	case '*', '~', '>': // array, set, push
		size, err := length(line)
		return max(0, size), err
	case '%': // map
		size, err := length(line)
		return 2 * max(0, size), err
	case '|': // attributes, and then what they belong to
		size, err := length(line)
		return 2*max(0, size) + 1, err
	}
	return 0, nil
}

var errLength = errors.New("faultproxy: length out of range")

func length(line []byte) (int, error) {
	size, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil {
		return 0, fmt.Errorf("faultproxy: %q: %w", line, err)
	}
	if size < -1 || size > 512<<20 { // the server's own limit
		return 0, errLength
	}
	return size, nil
}
