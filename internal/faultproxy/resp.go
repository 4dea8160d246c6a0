package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// resp is the protocol of Redis, versions 2 and 3.
type resp struct{}

func (resp) request(r *bufio.Reader) ([]byte, bool, error) {
	message, err := readValue(r)
	return message, true, err
}

// reply does not count a push as a reply.
func (resp) reply(r *bufio.Reader) ([]byte, bool, error) {
	message, err := readValue(r)
	return message, len(message) > 0 && message[0] != '>', err
}

// readValue reads a value with all its elements, or an inline command.
func readValue(r *bufio.Reader) ([]byte, error) {
	var read bytes.Buffer
	for remaining := 1; remaining > 0; remaining-- {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		read.Write(line)
		more, err := readContents(r, line, &read)
		if err != nil {
			return nil, err
		}
		remaining += more
	}
	return read.Bytes(), nil
}

// readContents reads the text of a string. For a collection it returns the number of elements to read.
func readContents(r *bufio.Reader, line []byte, read *bytes.Buffer) (elements int, err error) {
	switch line[0] {
	case '$', '=', '!': // string, verbatim string, long error
		size, err := parseLength(line)
		if err == nil && size >= 0 {
			_, err = io.CopyN(read, r, int64(size)+int64(len("\r\n")))
		}
		return 0, err
	case '*', '~', '>': // array, set, push
		size, err := parseLength(line)
		return max(0, size), err
	case '%': // map
		size, err := parseLength(line)
		return 2 * max(0, size), err
	case '|': // attributes, followed by their value
		size, err := parseLength(line)
		return 2*max(0, size) + 1, err
	}
	return 0, nil
}

var errLength = errors.New("faultproxy: the length of a message is out of range")

func parseLength(line []byte) (int, error) {
	size, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil {
		return 0, fmt.Errorf("faultproxy: %q: %w", line, err)
	}
	if size < -1 || size > 512<<20 { // the limit of the server
		return 0, errLength
	}
	return size, nil
}
