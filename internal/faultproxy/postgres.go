package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
)

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
