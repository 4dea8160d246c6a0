package faultproxy

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedisMessagesAreSplit(t *testing.T) {
	tests := []struct {
		wire string
		ends bool
	}{
		{"+OK\r\n", true},
		{"-ERR no\r\n", true},
		{":1\r\n", true},
		{"_\r\n", true},
		{",1.5\r\n", true},
		{"#t\r\n", true},
		{"$0\r\n\r\n", true},
		{"$-1\r\n", true},
		{"$4\r\na\r\nb\r\n", true},
		{"=5\r\ntxt:x\r\n", true},
		{"!5\r\nERR x\r\n", true},
		{"*0\r\n", true},
		{"*-1\r\n", true},
		{"*2\r\n*1\r\n:1\r\n$1\r\n*\r\n", true},
		{"~1\r\n:1\r\n", true},
		{"%1\r\n+a\r\n%1\r\n+b\r\n:1\r\n", true},
		{"|1\r\n+a\r\n+b\r\n:1\r\n", true},
		{">2\r\n+message\r\n+text\r\n", false},
		{"PING\r\n", true},
	}
	for _, test := range tests {
		t.Run(test.wire, func(t *testing.T) {
			message, ends, err := resp{}.reply(reader(test.wire + "+next\r\n"))
			require.NoError(t, err)
			require.Equal(t, test.wire, string(message))
			require.Equal(t, test.ends, ends)

			_, _, err = resp{}.reply(reader(test.wire[:len(test.wire)-1]))
			require.Error(t, err)
		})
	}
}

func TestMalformedRedisMessagesAreErrors(t *testing.T) {
	for _, wire := range []string{"", "$x\r\n", "$-2\r\n", "$999999999999\r\n", "*99999999999999999999\r\n"} {
		_, _, err := resp{}.reply(reader(wire))
		require.Error(t, err, wire)
	}
}

func TestPostgresRequestsAreSplit(t *testing.T) {
	const (
		hello = "\x00\x00\x00\x08\x00\x03\x00\x00"
		tls   = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
		kill  = "\x00\x00\x00\x10\x04\xd2\x16\x2e12345678"
		query = "Q\x00\x00\x00\x05\x00"
		parse = "P\x00\x00\x00\x04"
		sync  = "S\x00\x00\x00\x04"
		flush = "H\x00\x00\x00\x04"
		leave = "X\x00\x00\x00\x04"
	)
	tests := []struct {
		name   string
		rounds []string
		counts []bool
	}{
		{"simple", []string{hello, query, query, leave}, []bool{true, true, true, false}},
		{"extended", []string{hello, parse + parse + sync, parse + sync}, []bool{true, true, true}},
		{"flush", []string{hello, parse + flush, sync}, []bool{true, false, true}},
		{"no encryption", []string{tls, hello, query}, []bool{false, true, true}},
		{"cancel", []string{kill}, []bool{false}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, r := &postgres{}, reader(strings.Join(test.rounds, ""))
			for i, want := range test.rounds {
				message, counts, err := p.request(r)
				require.NoError(t, err)
				require.Equal(t, want, string(message))
				require.Equal(t, test.counts[i], counts)
			}
			_, _, err := p.request(r)
			require.Error(t, err)
		})
	}
}

func TestPostgresRepliesAreSplit(t *testing.T) {
	p, r := &postgres{}, reader("NN\x00\x00\x00\x04Z\x00\x00\x00\x05IS")
	p.encrypting.Store(true)
	for _, want := range []struct {
		message string
		ends    bool
	}{{"N", false}, {"N\x00\x00\x00\x04", false}, {"Z\x00\x00\x00\x05I", true}} {
		message, ends, err := p.reply(r)
		require.NoError(t, err)
		require.Equal(t, want.message, string(message))
		require.Equal(t, want.ends, ends)
	}
	p.encrypting.Store(true)
	_, _, err := p.reply(r)
	require.ErrorContains(t, err, "sslmode=disable")
}

func TestMalformedPostgresMessagesAreErrors(t *testing.T) {
	for _, wire := range []string{"", "\x00", "\x00\x00\x00\x03", "\x00\x00\x00\x04", "\xff\xff\xff\xff", "\x00\x00\x00\x09\x00\x03\x00\x00"} {
		_, _, err := (&postgres{}).request(reader(wire))
		require.Error(t, err, "%q", wire)
	}
}

// FuzzMessages checks that the messages are the input, byte by byte, up to the first malformed one.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n+OK\r\n"))
	f.Add([]byte("\x00\x00\x00\x08\x00\x03\x00\x00Q\x00\x00\x00\x05\x00"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, framing := range []framing{resp{}, &postgres{}} {
			for _, next := range []func(*bufio.Reader) ([]byte, bool, error){framing.request, framing.reply} {
				var read []byte
				r := bufio.NewReader(bytes.NewReader(wire))
				for {
					message, _, err := next(r)
					if err != nil {
						break
					}
					read = append(read, message...)
				}
				require.True(t, bytes.HasPrefix(wire, read))
			}
		}
	})
}

func reader(wire string) *bufio.Reader { return bufio.NewReader(strings.NewReader(wire)) }
