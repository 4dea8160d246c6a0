package accesslog

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeekLosesNothing(t *testing.T) {
	for _, n := range []int{0, 16, 200_000} {
		text := strings.Repeat("0123456789", n/10) + strings.Repeat("x", n%10)
		for _, data := range []string{text, string(zipped([]byte(text)))} {
			for _, want := range []int{10, 5000} {
				first, whole := Peek(strings.NewReader(data), want)
				if data == text || len(data) <= want {
					require.Equal(t, text[:min(n, want)], string(first))
				}
				require.True(t, strings.HasPrefix(text, string(first)))
				all, err := io.ReadAll(whole)
				require.NoError(t, err)
				require.Equal(t, data, string(all))
				all, err = io.ReadAll(Unzip(strings.NewReader(data)))
				require.NoError(t, err)
				require.Equal(t, text, string(all))
			}
		}
	}
}

func TestPeekReadsGzipCutShort(t *testing.T) {
	data := zipped([]byte("hello"))
	first, _ := Peek(bytes.NewReader(data[:len(data)-1]), 100)
	require.Equal(t, "hello", string(first))
	_, err := io.ReadAll(Unzip(bytes.NewReader(data[:5])))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestPeekReturnsReadErrors(t *testing.T) {
	first, whole := Peek(io.MultiReader(strings.NewReader("hello"), failing{io.ErrClosedPipe}), 100)
	require.Equal(t, "hello", string(first))
	all, err := io.ReadAll(whole)
	require.Equal(t, "hello", string(all))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestPeekReadsTheEndOnce: one ctrl-D on a terminal is enough.
func TestPeekReadsTheEndOnce(t *testing.T) {
	_, whole := Peek(&terminal{text: "hello"}, 100)
	all, err := io.ReadAll(whole)
	require.NoError(t, err)
	require.Equal(t, "hello", string(all))
}

// terminal can be read again after its end.
type terminal struct {
	text  string
	ended bool
}

func (r *terminal) Read(b []byte) (n int, err error) {
	n = copy(b, r.text)
	switch r.text = r.text[n:]; {
	case n > 0:
		return n, nil
	case r.ended:
		return 0, io.ErrClosedPipe
	}
	r.ended = true
	return 0, io.EOF
}
