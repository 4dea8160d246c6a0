package redis

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
)

func twoKeys() *driver.Batch {
	return &driver.Batch{Keys: []string{"a", "b"}, Requests: make([]driver.Request, 2)}
}

const (
	someTime = "\x00\x07\x00\x00\x00\x00\x00\x01"
	applied  = "\x00\x00\x00\x01\x00\x00\x00\x01"
)

func TestShortReplyIsRefused(t *testing.T) {
	for elements := range 3 {
		require.Error(t, new(Store).readReply(twoKeys(), make([]string, elements)), "there is no time")
	}
}

// FuzzReply checks that each reply is refused, or that encoding the result gives the reply again.
func FuzzReply(f *testing.F) {
	f.Add("\x00\x00\x00\x00\x00\x00\x00\x07state", someTime+applied, "\x00\x00\x00\x01WRITE OOM")
	f.Add("", someTime+"\xff\xff\xff\xff\xff\xff\xff\xfe", "")
	f.Add("short", someTime+"\x00\x01\x00\x00\x7f\xff\xff\xff", "\x00\x00\x00\x02NORECORD")
	for _, head := range []string{"", "\x17\x00", someTime + applied[:4], someTime + applied[:7], someTime + applied + applied[:4]} {
		f.Add("", head, "")
	}
	for _, failed := range []string{"\x00", "\x00\x00\x00\x00x", "\x00\x00\x00\x03x", "\x00\x00\x00\x01NORECORD"} {
		f.Add("", someTime+applied, failed)
	}
	s := new(Store)
	f.Fuzz(func(t *testing.T, value, head, failed string) {
		b, reply := twoKeys(), []string{value, "", head}
		if failed != "" {
			reply = append(reply, failed)
		}
		if s.readReply(b, reply) != nil {
			return
		}
		require.Len(t, b.Found, len(b.Keys))
		var again strings.Builder
		for _, r := range b.Requests {
			_ = binary.Write(&again, binary.BigEndian, int32(r.Applied))
		}
		require.Equal(t, head[8:], again.String())
		require.Equal(t, failed != "", b.KeyErr != nil)
		if value != "" && (b.KeyErr == nil || b.KeyErr[0] == nil) {
			require.Equal(t, value[8:], string(b.Found[0].State))
		}
	})
}
