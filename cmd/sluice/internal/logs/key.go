package logs

import (
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/internal/errtext"
)

// ParseKeyer parses --by. --key-field alone means --by key.
func (l *Input) ParseKeyer() (*accesslog.Keyer, error) {
	if l.KeyField != "" && !l.Flags.Changed("by") {
		l.by = "key"
	}
	k, err := l.ParseBy()
	if err == nil && l.KeyField != "" && k.Named()&accesslog.Key == 0 {
		err = cli.Usagef("--key-field has no effect with --by %s; leave one out, or add key to --by, such as ip+key", l.by)
	}
	return k, err
}

// ParseBy parses --by.
func (l *Input) ParseBy() (*accesslog.Keyer, error) {
	for word := range strings.SplitSeq(l.by, "+") {
		if kind, _, named := strings.Cut(strings.TrimSpace(word), ":"); named && (kind == "header" || kind == "cookie") {
			return nil, cli.Usagef("--by %s: access logs have no field for a %s; name the member of JSON lines that holds it with --key-field, and write key in --by", errtext.Quote(l.by), kind)
		}
	}
	k, err := accesslog.ParseKeyer(l.by)
	if err != nil {
		return nil, cli.Usagef("--by: %s", cli.WithoutPackage(err))
	}
	if k.Named()&accesslog.Key != 0 && l.KeyField == "" {
		return nil, cli.Usagef("--by %s needs --key-field, the member of JSON lines that holds the key", l.by)
	}
	return k, nil
}

// Keyed makes the key of an entry.
type Keyed struct {
	Keyer *accesslog.Keyer
	key   []byte
}

// Fields returns the fields of an entry that the key needs, and those that it names.
func (k *Keyed) Fields() (read, named accesslog.Fields) { return k.Keyer.Fields(), k.Keyer.Named() }

// KeyOf returns the key of an entry. It is valid until the next call.
func (k *Keyed) KeyOf(e *accesslog.Entry) []byte {
	k.key = k.Keyer.AppendKey(k.key[:0], e)
	return k.key
}

// MissingInKey describes what a key has in place of a missing field.
func MissingInKey(f accesslog.Fields) string {
	if f&(accesslog.User|accesslog.Key) != 0 {
		return "their key has ip:ADDRESS instead, or - if they have no address"
	}
	return "their key has - instead"
}
