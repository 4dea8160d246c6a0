package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
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
		size, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
		switch {
		case err != nil:
			return nil, err
		case size < 0: // null
		case line[0] == '*', line[0] == '~', line[0] == '>': // array, set, push
			remaining += size
		case line[0] == '%': // map
			remaining += 2 * size
		case line[0] == '|': // attributes, followed by their value
			remaining += 2*size + 1
		default: // string, verbatim string, long error
			if _, err := io.CopyN(&read, r, int64(size+len("\r\n"))); err != nil {
				return nil, err
			}
		}
	}
	return read.Bytes(), nil
}

// postgres is the protocol of PostgreSQL, version 3. started is whether the client has sent its startup message.
type postgres struct{ started bool }

// cancelRequest is in place of a protocol version.
const cancelRequest = 80877102

func (p *postgres) request(r *bufio.Reader) (read []byte, counts bool, err error) {
	if !p.started {
		message, err := readMessage(r, 0)
		p.started = err == nil && binary.BigEndian.Uint32(message[4:]) != cancelRequest
		return message, p.started, err
	}
	for {
		message, err := readMessage(r, 1)
		if err != nil {
			return nil, false, err
		}
		read = append(read, message...)
		switch message[0] {
		case 'Q', 'S': // Query, Sync
			return read, true, nil
		case 'X': // Terminate
			return read, false, nil
		}
	}
}

func (p *postgres) reply(r *bufio.Reader) ([]byte, bool, error) {
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
	read := make([]byte, typeSize+int(binary.BigEndian.Uint32(header[typeSize:])))
	_, err = io.ReadFull(r, read)
	return read, err
}
