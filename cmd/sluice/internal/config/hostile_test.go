package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// TestHostileTexts: parsing ends soon, with an error.
func TestHostileTexts(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, config.MaxSize/len(s)) }
	rule := "rules: [{name: a, policy: gcra 1/s, by: ip}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":          {"", "the file is empty"},
		"spaces":           {" \n\n", "the file is empty"},
		"comments":         {many("# b\n"), "the file is empty"},
		"null":             {"null", "is empty"},
		"separators":       {many("---\n"), "the file is empty"},
		"two documents":    {rule + "---\n" + rule, "x:3: a second YAML document begins here"},
		"an empty one":     {"---\n# a\n---\n" + rule, ""},
		"behind an empty":  {rule + "---\n# a\n---\n" + rule, "x:5: a second YAML document begins here"},
		"a lone fault":     {"--- # a\n---\n\n---\na: b\n" + rule, `x:5: no field "a"`},
		"too long":         {many("#") + "##", "more than 128 kB"},
		"zeros":            {"rules\x00: a", "not UTF-8 text"},
		"gzip":             {"\x1f\x8b\x08\x00\x01", "not UTF-8 text"},
		"UTF-16":           {"\xff\xfer\x00u\x00", "not UTF-8 text"},
		"tab":              {"rules:\n\t- name: a\n", "x:2: invalid YAML"},
		"brackets":         {many("["), "exceeded max depth"},
		"braces":           {many("{a: "), "exceeded max depth"},
		"entries":          {many("- "), "exceeded max depth"},
		"anchors":          {many("&a "), "invalid YAML"},
		"aliases":          {"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "no field"},
		"alias of a rule":  {"rules:\n- &a {name: a, policy: gcra 1/s}\n- *a\n", "anchors and aliases are not supported"},
		"alias of a word":  {"a: &bytes x\nrules: [{name: a, policy: gcra 1/s, cost: *bytes, by: *bytes}]\n", "rules[0].by: anchors and aliases are not supported"},
		"merge":            {"rules:\n- {name: a, policy: gcra 1/s}\n- {<<: {by: ip}, name: b, policy: gcra 1/s}\n", `no field "<<"`},
		"tag":              {"rules: !!seq [{name: a, policy: gcra 1/s}]\n", "tags are not supported"},
		"directive":        {"%YAML 1.2\n---\n" + rule, ""},
		"byte order mark":  {"\ufeff" + rule, ""},
		"line ends of DOS": {strings.ReplaceAll("trusted: [10.0.0.0/8]\n"+rule, "\n", "\r\n"), ""},
		"open quote":       {"rules: \"" + strings.Repeat(`\n`, 1e4), "invalid YAML"},
		"keys":             {strings.Repeat("a: b\n", 100), "x: 81 more errors"},
		"a log":            {`192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "GET /a?x=1 HTTP/1.1" 200 1`, "x:1: "},
		"escape sequences": {"\"\\e[2J\": 1\n" + rule, `no field "\x1b[2J"`},
		"escaping path":    {"rules:\n- paths: [\"/\\e[2J\", \"/\\u202e\"]\n", `paths[0]: is "/\x1b[2J"; want printable characters`},
		"bars":             {many("| "), "invalid YAML"},
		"blank lines":      {rule + "b: |\n" + many("\n")[100:], `x:2: no field "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("x", []byte(c.text))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			requireFaults(t, err)
		})
	}
}

// requireFaults holds an error to its form: each line has the name of the file, or
// is part of the lines with the caret.
func requireFaults(t *testing.T, err error) {
	var all *config.Error
	require.ErrorAs(t, err, &all)
	require.NotEmpty(t, all.Faults)
	for _, line := range strings.Split(err.Error(), "\n") {
		require.Regexp(t, `^(x:\d+: |  |x: \d+ more errors$)`, line)
		require.NotContains(t, line, "\x1b")
		require.Less(t, len(line), 1000)
	}
	for _, f := range all.Faults {
		require.Positive(t, f.Line, fmt.Sprint(f))
		require.NotContains(t, f.Problem, "\n")
	}
}
