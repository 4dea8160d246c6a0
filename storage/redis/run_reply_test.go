package redis

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func twoKeys() *driver.Batch {
	return &driver.Batch{Keys: []string{"a", "b"}, Requests: make([]driver.Request, 2)}
}

const (
	someTime = "\x00\x07\x00\x00\x00\x00\x00\x01"
	applied  = "\x00\x00\x00\x01\x00\x00\x00\x01"
)

func TestReplyIsRead(t *testing.T) {
	s := new(Store)
	b := twoKeys()
	record := "\x00\x00\x00\x00\x00\x00\x00\x07state"
	require.NoError(t, s.readReply(b, []string{record, "", someTime + "\x00\x00\x00\x01\x00\x01\x00\x00"}))
	require.Equal(t, []storage.Record{{Version: 7, State: []byte("state")}, {}}, b.Found)
	require.Equal(t, 1, b.Requests[0].Applied)
	require.Equal(t, 1<<16, b.Requests[1].Applied)
	require.Equal(t, int64(0x0007000000000001), b.At.UnixMicro())
	require.Nil(t, b.KeyErr)

	require.NoError(t, s.readReply(b, []string{"", "", someTime + "\xff\xff\xff\xff\xff\xff\xff\xfe", "\x00\x00\x00\x02WRONGTYPE it is a list"}))
	require.Equal(t, driver.Damaged, b.Requests[0].Applied)
	require.Equal(t, driver.Declined, b.Requests[1].Applied)
	require.NoError(t, b.KeyErr[0])
	require.ErrorIs(t, b.KeyErr[1], storage.ErrNotApplied)

	require.NoError(t, s.readReply(b, []string{"", "", someTime + applied, "\x00\x00\x00\x01NORECORD", "\x00\x00\x00\x02NORECORD"}))
	require.Error(t, b.KeyErr[0])
	require.Error(t, b.KeyErr[1])

	for elements := range 3 {
		require.Error(t, s.readReply(twoKeys(), make([]string, elements)), "there is no time")
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
