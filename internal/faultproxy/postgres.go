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

// postgres is the protocol of Postgres, version 3.
type postgres struct {
	started    bool        // the client has introduced itself
	encrypting atomic.Bool // the client has asked for encryption; the answer is one byte
}

// What a connection may begin with in place of a protocol version.
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
		kind, err := typed(r, &read)
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
	if err := sized(r, &read); err != nil {
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
			return nil, false, errors.New("faultproxy: the server wants to encrypt; use sslmode=disable")
		}
		return []byte{first}, false, nil
	}
	if err := r.UnreadByte(); err != nil {
		return nil, false, err
	}
	var read bytes.Buffer
	kind, err := typed(r, &read)
	return read.Bytes(), kind == 'Z', err // ReadyForQuery
}

// typed reads a message that begins with its type.
func typed(r *bufio.Reader, read *bytes.Buffer) (kind byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, err
	}
	read.WriteByte(kind)
	return kind, sized(r, read)
}

// sized reads a length and as many bytes as it says, itself included.
func sized(r *bufio.Reader, read *bytes.Buffer) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	read.Write(length[:])
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size < 4 || size > 1<<30 { // the server's own limit
		return errLength
	}
	_, err := io.CopyN(read, r, size-4)
	return err
}
