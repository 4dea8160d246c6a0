package accesslog

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeekLosesNothing(t *testing.T) {
	for _, n := range []int{0, 1, 16, 100, 10_000, 200_000} {
		text := strings.Repeat("0123456789", n/10) + strings.Repeat("x", n%10)
		for _, data := range [][]byte{[]byte(text), zipped([]byte(text))} {
			for _, want := range []int{1, 10, 5000} {
				first, whole := Peek(bytes.NewReader(data), want)
				require.Equal(t, text[:min(n, want)], string(first))
				all, err := io.ReadAll(whole)
				require.NoError(t, err)
				require.Equal(t, text, string(all))
			}
		}
	}
}

func TestPeekShowsFailuresInTheReader(t *testing.T) {
	data := zipped([]byte("hello"))
	for _, n := range []int{2, 9, len(data) - 9, len(data) - 1} {
		_, whole := Peek(bytes.NewReader(data[:n]), 100)
		_, err := io.ReadAll(whole)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	first, whole := Peek(failing{io.ErrClosedPipe}, 100)
	require.Empty(t, first)
	_, err := io.ReadAll(whole)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
