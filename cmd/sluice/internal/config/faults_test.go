package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/trace/tracetest"
)

// TestAllFaultsAreReportedAtOnce: the errors of testdata/faults.yaml are in testdata/faults.txt.
func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := config.Read(filepath.Join("testdata", "faults.yaml"))
	var all *config.Error
	require.ErrorAs(t, err, &all)
	var told strings.Builder
	for _, f := range all.Faults {
		one := config.Error{File: "faults.yaml", Faults: []config.Fault{f}}
		fmt.Fprintln(&told, one.Error())
	}
	path := filepath.Join("testdata", "faults.txt")
	if tracetest.Updating() {
		require.NoError(t, os.WriteFile(path, []byte(told.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), told.String())
	requireFaults(t, errors.Join(&config.Error{File: "x", Faults: all.Faults}))
}

// TestOtherFaults: these errors hide all others of a file.
func TestOtherFaults(t *testing.T) {
	for text, want := range map[string]string{
		"trusted: 10.0.0.1":           "x:1: rules: missing; want a list of rules",
		"rules:":                      "x:1: rules: is empty; want a list of rules",
		"rules: []":                   "x:1: rules: is an empty list; want a list of rules",
		"rules: {a: {policy: 1/s}}":   "x:1: rules: is a mapping; want a list of rules",
		"- name: a\n  policy: gcra/s": "x:1: is a list; want a mapping with the fields trusted, forwarded, ipv6_bits or rules",
		"forwarded: true\nrules: [{name: a, policy: gcra 1/s}]": "x:1: forwarded: has no effect without trusted",
		"trusted: [\"::ffff:0.0.0.0/96\"]":                      `x:1: trusted[0]: "::ffff:0.0.0.0/96" covers all addresses`,
		"rules:\n- name: 007":                                   `x:2: rules[0].name: is 007, which is a number without quotes; want text in quotes: "007"`,
		"rules:\n- name: 1":                                     `is 1, which is a number without quotes; want text in quotes: "1"`,
		"rules:\n- name: 0x1f":                                  `want text in quotes: "0x1f"`,
		"rules:\n- name: -1":                                    `want text in quotes: "-1"`,
		"rules:\n- name: true":                                  `is true, which is a boolean without quotes; want text in quotes: "true"`,
		"rules:\n- name: 1.5":                                   "is 1.5; want 1 to 64 letters, digits, - and _",
		"rules: [{missing: deny}]":                              "x:1: rules[0].missing: has no effect in a rule by everything; write it only in rules by user",
		"rules: [{by: everything, missing: deny}]":              "x:1: rules[0].missing: has no effect in a rule by everything; write it only in rules by user",
		"rules: [{by: [ip, path], missing: deny}]":              "x:1: rules[0].missing: has no effect in a rule by ip+path; write it only in rules by user",
		"rules:\n- cost: 010":                                   "x:2: rules[0].cost: is 010; want a whole number",
		"rules:\n- name: " + strings.Repeat("ä", 50):            `is "` + strings.Repeat("ä", 50) + `"; want`,
	} {
		_, err := config.Parse("x", []byte(text))
		require.ErrorContains(t, err, want, text)
		requireFaults(t, err)
	}
}

// TestSyntaxIsPointedAt: syntax errors show the line and a remedy.
func TestSyntaxIsPointedAt(t *testing.T) {
	for text, want := range map[string]string{
		"rules:\n\t- name: a\n": `x:2: invalid YAML: found character that cannot start any token while scanning for the next token; indent with spaces, not tabs, and quote text that begins with such a character
   - name: a
  ^`,
		"rules:\n  - name: a\n   policy: gcra 1/s\n": `x:3: invalid YAML: did not find expected '-' indicator while parsing a block collection; indent all fields of a rule alike
     policy: gcra 1/s
     ^`,
		"rules:\n- policy: ü gcra: 1/s: 2\n": `x:2: invalid YAML: mapping values are not allowed in this context; here and in the line before, write a colon and a space after each field, quote text that has both, and indent all fields of a rule alike
  - policy: ü gcra: 1/s: 2
                  ^`,
		"rules:\n- {name: a, policy: gcra 1/s\n- {name: b}\n": `x:2: invalid YAML: did not find expected ',' or '}' while parsing a flow mapping; close each bracket
  - {name: a, policy: gcra 1/s
    ^`,
		"rules: [\n\n": `x:1: invalid YAML: did not find expected node content while parsing a flow node; close each bracket
  rules: [
          ^`,
		"rules:\n- name: \"a\n  policy: gcra 1/s\n": `x:2: invalid YAML: found unexpected end of stream while scanning a quoted scalar; close each quotation mark
  - name: "a
          ^`,
		"rules:\n- policy gcra 1/s\n  name: a\n": `x:3: invalid YAML: mapping values are not allowed in this context; here and in the line before, write a colon and a space after each field, quote text that has both, and indent all fields of a rule alike
    name: a
        ^`,
		"rules:\n- name: a\n  policy gcra 1/s\n  by: ip\n": `x:3: invalid YAML: could not find expected ':' while scanning a simple key; write a colon and a space after each field, such as name: client
    policy gcra 1/s
    ^`,
	} {
		_, err := config.Parse("x", []byte(text))
		require.EqualError(t, err, want)
	}
}

func TestReadTellsOfFilesThatCannotBeRead(t *testing.T) {
	_, err := config.Read(filepath.Join(t.TempDir(), "limits.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = config.Read(t.TempDir())
	require.ErrorContains(t, err, "directory")
}
