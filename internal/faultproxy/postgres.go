package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
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
	var read bytes.Buffer
	for {
		kind, err := readTyped(r, &read)
		switch {
		case err != nil:
			return nil, false, err
		case strings.IndexByte("QSF", kind) >= 0: // Query, Sync, FunctionCall
			return read.Bytes(), true, nil
		case strings.IndexByte("HXpdcf", kind) >= 0: // Flush, Terminate, password, CopyData, CopyDone, CopyFail
			return read.Bytes(), false, nil
		}
	}
}

func (p *postgres) startup(r *bufio.Reader) ([]byte, bool, error) {
	var read bytes.Buffer
	if err := readSized(r, &read); err != nil {
		return nil, false, err
	}
	if read.Len() < 8 {
		return nil, false, errLength
	}
	switch binary.BigEndian.Uint32(read.Bytes()[4:]) {
	case cancelRequest:
		return read.Bytes(), false, nil
	case sslRequest, gssRequest:
		p.encrypting.Store(true)
		return read.Bytes(), false, nil
	}
	p.started = true
	return read.Bytes(), true, nil
}

func (p *postgres) reply(r *bufio.Reader) ([]byte, bool, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, false, err
	}
	if p.encrypting.CompareAndSwap(true, false) {
		if first != 'N' {
			return nil, false, errors.New("faultproxy: the server requires encryption; use sslmode=disable")
		}
		return []byte{first}, false, nil
	}
	if err := r.UnreadByte(); err != nil {
		return nil, false, err
	}
	var read bytes.Buffer
	kind, err := readTyped(r, &read)
	return read.Bytes(), kind == 'Z', err // ReadyForQuery
}

// readTyped reads a message that begins with its type.
func readTyped(r *bufio.Reader, read *bytes.Buffer) (kind byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, err
	}
	read.WriteByte(kind)
	return kind, readSized(r, read)
}

// readSized reads a length and the rest of the message. The length includes itself.
func readSized(r *bufio.Reader, read *bytes.Buffer) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	read.Write(length[:])
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size < 4 || size > 1<<30 { // the limit of the server
		return errLength
	}
	_, err := io.CopyN(read, r, size-4)
	return err
}
