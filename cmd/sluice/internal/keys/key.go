package keys

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/storage/driver"
)

// shown returns a stored key, without its rule, for people: the group in braces, and the key. Bytes that a terminal may not show
// are written as %XX, as driver.RuleKey writes others.
func shown(stored string) string {
	switch stored {
	case "":
		return `""`
	case `""`:
		return "%22%22"
	}
	var text strings.Builder
	for _, r := range stored {
		if strconv.IsPrint(r) {
			text.WriteRune(r)
		} else {
			fmt.Fprintf(&text, "%s", percent(string(r)))
		}
	}
	return text.String()
}

func percent(char string) (text string) {
	for i := range len(char) {
		text += fmt.Sprintf("%%%02X", char[i])
	}
	return text
}

// cutKey is the end of a key that was too long to be stored.
var cutKey = regexp.MustCompile(`%#[0-9a-f]{64}$`)

// stored returns the stored key that is shown as text.
func (r *rule) stored(text string) (string, error) {
	if text == `""` {
		text = ""
	}
	group, key := "", text
	if end := strings.Index(text, "}"); strings.HasPrefix(text, "{") && end > 0 {
		group, key = text[1:end], text[end+1:]
	}
	if cutKey.MatchString(key) || cutKey.MatchString(group) {
		return strings.TrimSuffix(text, key) + r.prefix + key, nil
	}
	plainGroup, err := url.PathUnescape(group)
	plainKey, keyErr := url.PathUnescape(key)
	if err != nil || keyErr != nil {
		return "", cli.Usagef("the key %s has a %% that is not part of %%XX; write it as sluice keys prints it, %%25 for each %%", shown(text))
	}
	return driver.RuleKey{Group: plainGroup, Rule: r.prefix, Key: plainKey}.String(), nil
}
