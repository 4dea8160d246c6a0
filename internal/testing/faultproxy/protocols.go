package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
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
		size, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
		if err != nil || size < -1 || size > 512<<20 { // the limit of the server
			return nil, fmt.Errorf("faultproxy: %q is no length, or one that is out of range", line)
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

// postgres is the protocol of PostgreSQL, version 3.
type postgres struct {
	started    bool        // the client has sent its startup message
	encrypting atomic.Bool // the client has requested encryption; the reply is one byte
}

// These codes can be in place of a protocol version.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

func (p *postgres) request(r *bufio.Reader) ([]byte, bool, error) {
	if !p.started {
		return p.startup(r)
	}
	var read []byte
	for {
		message, err := readMessage(r, 1)
		if err != nil {
			return nil, false, err
		}
		read = append(read, message...)
		switch message[0] {
		case 'Q', 'S', 'F': // Query, Sync, FunctionCall
			return read, true, nil
		case 'H', 'X', 'p', 'd', 'c', 'f': // Flush, Terminate, password, CopyData, CopyDone, CopyFail
			return read, false, nil
		}
	}
}

func (p *postgres) startup(r *bufio.Reader) ([]byte, bool, error) {
	message, err := readMessage(r, 0)
	if err != nil {
		return nil, false, err
	}
	if len(message) < 8 {
		return nil, false, errLength
	}
	switch binary.BigEndian.Uint32(message[4:]) {
	case cancelRequest:
		return message, false, nil
	case sslRequest, gssRequest:
		p.encrypting.Store(true)
		return message, false, nil
	}
	p.started = true
	return message, true, nil
}

func (p *postgres) reply(r *bufio.Reader) ([]byte, bool, error) {
	if _, err := r.Peek(1); err != nil { // wait until the request for encryption has been read
		return nil, false, err
	}
	if p.encrypting.CompareAndSwap(true, false) {
		answer, err := r.ReadByte()
		if answer != 'N' {
			return nil, false, errors.New("faultproxy: the server requires encryption; use sslmode=disable")
		}
		return []byte{answer}, false, err
	}
	message, err := readMessage(r, 1)
	return message, err == nil && message[0] == 'Z', err // ReadyForQuery
}

var errLength = errors.New("faultproxy: the length of a message is out of range")

// readMessage reads a message. It begins with its type, which has typeSize bytes, and its length,
// which includes itself.
func readMessage(r *bufio.Reader, typeSize int) ([]byte, error) {
	header, err := r.Peek(typeSize + 4)
	if err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[typeSize:]))
	if size < 4 || size > 1<<30 { // the limit of the server
		return nil, errLength
	}
	var read bytes.Buffer
	_, err = io.CopyN(&read, r, int64(typeSize)+size)
	return read.Bytes(), err
}
