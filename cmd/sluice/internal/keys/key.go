package keys

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/storage/driver"
)

// formatKey returns a stored key as the commands print it: without the rule, and with its group in braces. Unprintable characters, and
// spaces at an end, become %XX. driver.RuleKey has already written %, braces and control characters so.
func (r *rule) formatKey(stored string) string {
	key := strings.Replace(stored, r.prefix, "", 1)
	switch key {
	case "":
		return `""`
	case `""`:
		return "%22%22"
	}
	return printable(key)
}

// printable writes the unprintable characters of a text, and spaces at an end, as %XX.
func printable(text string) string {
	var out strings.Builder
	for i, r := range text {
		size := len(string(r))
		atEnd := i == 0 || i+size == len(text)
		if strconv.IsPrint(r) && !(r == ' ' && atEnd) {
			out.WriteRune(r)
			continue
		}
		out.WriteString(url.PathEscape(string(r)))
	}
	return out.String()
}

// truncated is the end of a part that was too long to be stored.
var truncated = regexp.MustCompile(`%#[0-9a-f]{64}$`)

// parseKey returns the stored key of a KEY argument. It is the inverse of formatKey.
func (r *rule) parseKey(text string) (string, error) {
	if text == `""` {
		text = ""
	}
	group, key := "", text
	if strings.HasPrefix(text, "{") {
		var closed bool
		if group, key, closed = strings.Cut(text[1:], "}"); !closed || group == "" {
			return "", cli.Usagef("the key %s begins with a brace, but not with a group such as {tenant-7}; write a brace of the key as %%7B or %%7D", printable(text))
		}
	}
	plainGroup, groupEnd, err := parsePart(group)
	plainKey, keyEnd, keyErr := parsePart(key)
	switch {
	case err != nil || keyErr != nil:
		return "", cli.Usagef("the key %s has a %% that is not part of %%XX; write %% as %%25", printable(text))
	case groupEnd == "" && keyEnd == "":
		return driver.RuleKey{Group: plainGroup, Rule: r.prefix, Key: plainKey}.String(), nil
	}
	begin := ""
	if group != "" {
		begin = strings.TrimSuffix(driver.RuleKey{Group: plainGroup}.String(), "}") + groupEnd + "}"
	}
	return begin + r.prefix + driver.RuleKey{Key: plainKey}.String() + keyEnd, nil
}

// storedKeys parses KEY arguments and returns each stored key once.
func (r *rule) storedKeys(keys []string) (all []string, err error) {
	for _, key := range keys {
		text, err := r.parseKey(key)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

// parsePart returns the plain text of a group or key, and its end if it was truncated.
func parsePart(text string) (plain, end string, err error) {
	end = truncated.FindString(text)
	plain, err = url.PathUnescape(strings.TrimSuffix(text, end))
	return plain, end, err
}
