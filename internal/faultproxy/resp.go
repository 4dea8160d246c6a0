package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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
		if strings.IndexByte("$=!*~>%|", line[0]) < 0 {
			continue // the line is the value
		}
		size, err := parseLength(line)
		if err != nil {
			return nil, err
		}
		switch {
		case size < 0: // null
		case line[0] == '*', line[0] == '~', line[0] == '>': // array, set, push
			remaining += size
		case line[0] == '%': // map
			remaining += 2 * size
		case line[0] == '|': // attributes, followed by their value
			remaining += 2*size + 1
		default: // string, verbatim string, long error
			if _, err := io.CopyN(&read, r, int64(size)+int64(len("\r\n"))); err != nil {
				return nil, err
			}
		}
	}
	return read.Bytes(), nil
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
