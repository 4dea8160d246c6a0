package jsontext_test

import (
	"encoding/json"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/jsontext"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]struct {
		r rune
		n int
	}{
		`\n and more`:   {'\n', 2},
		`\"`:            {'"', 2},
		`\u00e9`:        {'é', 6},
		`\uFFFD`:        {utf8.RuneError, 6},
		`\ud83d\ude00!`: {'😀', 12},
		`\ud83d`:        {0xd83d, 6},
		`\ud83d\u0041`:  {0xd83d, 6},
		`\ude00\ud83d`:  {0xde00, 6},
		`\ud83d\ude0`:   {0xd83d, 6},
		`\u12`:          {0, 0},
		`\u+123`:        {0, 0},
		`\u12_3`:        {0, 0},
		`\x41`:          {0, 0},
		`\U0041`:        {0, 0},
		`\`:             {0, 0},
		`n`:             {0, 0},
		``:              {0, 0},
	} {
		r, n := jsontext.Escape(text)
		require.Equal(t, want.r, r, text)
		require.Equal(t, want.n, n, text)
	}
}

// As package json reads it, which makes U+FFFD of half a pair.
func FuzzEscape(f *testing.F) {
	f.Add(`\ud83d\ude00`)
	f.Add(`\/`)
	f.Fuzz(func(t *testing.T, text string) {
		r, n := jsontext.Escape(text)
		if utf16.IsSurrogate(r) {
			r = utf8.RuneError
		}
		var want string
		if n > 0 {
			require.NoError(t, json.Unmarshal([]byte(`"`+text[:n]+`"`), &want))
			require.Equal(t, want, string(r))
		} else if len(text) >= 2 && text[0] == '\\' {
			for n := 2; n <= len(text) && n <= 12; n++ {
				err := json.Unmarshal([]byte(`"`+text[:n]+`"`), &want)
				require.True(t, err != nil || utf8.RuneCountInString(want) != 1, "%q is %q", text[:n], want)
			}
		}
	})
}
