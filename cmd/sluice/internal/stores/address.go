package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// check validates the address of a store without opening it. It refuses addresses whose
// password another parser would take for a host, a database name or a parameter, which errors show.
func check(address string) error {
	scheme, rest, _ := strings.Cut(address, ":")
	authority, path, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	path, _, _ = strings.Cut(path, "?")
	_, host, _ := strings.Cut(authority, "@")
	host, _, _ = strings.Cut(host, "?")
	switch {
	case scheme == "memory" && rest != "":
		return fmt.Errorf("%s: the store memory: takes no name; want memory:", redacted(address))
	case scheme == "sqlite" && (rest == "" || rest == ":memory:"):
		return fmt.Errorf("%s: want a file name, such as sqlite:limits.db", address)
	case scheme == "sqlite" && (strings.HasPrefix(rest, "//") || strings.Contains(rest, "?")):
		return fmt.Errorf("%s: want a file name without parameters, such as sqlite:limits.db or sqlite:/var/lib/limits.db", address)
	case scheme == "sqlite" && !hasSQLite:
		return fmt.Errorf("%s: this program was built with CGO_ENABLED=0, so it has no SQLite; build it with CGO_ENABLED=1 and a C compiler, or use another store", address)
	case scheme == "memory", scheme == "sqlite":
	case !slices.Contains([]string{"postgres", "postgresql", "redis", "rediss"}, scheme) || !strings.HasPrefix(rest, "//"):
		return fmt.Errorf("%s: want memory:, sqlite:FILE, postgres://... or redis://...", redacted(address))
	case strings.Contains(path, "@"), strings.Contains(host, "@") && strings.HasPrefix(scheme, "postgres"): // the parser for redis uses the last @
		return fmt.Errorf("%s://...: the address has more than one @; in a password, write / as %%2F and @ as %%40", scheme)
	case strings.Contains(path, ";"):
		return fmt.Errorf("%s://...: the name has a semicolon; write parameters after a ? with & between, and a semicolon in a name as %%3B", scheme)
	}
	return nil
}

// ErrorText returns the text of an error of a store on one line, with the remedy if the store cannot be used.
func ErrorText(err error) string {
	text, refused := readable.OneLine(err), new(net.OpError)
	switch {
	case strings.Contains(text, "unable to open database file"):
		text += "; make the folder of the file, or check the path and its permissions"
	case errors.As(err, &refused) && refused.Op == "dial", errors.As(err, new(*net.DNSError)),
		errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		text += "; start the store, or check its address"
	case errors.As(err, new(*pgconn.ConnectError)), goredis.IsAuthError(err):
		text = strings.TrimSuffix(text, ".") + "; check the user, password, database and parameters of the address"
	}
	return text
}

// redacted returns an address without its secrets. It hides all parameters, because an unknown one
// may be a secret. If it cannot tell which parts are secret, it returns only the scheme.
func redacted(address string) string {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "sqlite":
		return address
	case !strings.HasPrefix(rest, "//") && strings.ContainsAny(address, "@="):
		return "..."
	case !strings.HasPrefix(rest, "//"):
		return address // without a place for a secret
	}
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(u.EscapedPath(), ";") {
		return scheme + "://..." // a password may contain the #, / or ?, or come after the ;
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx" // as Redacted hides the password
	}
	return scheme + "://" + strings.TrimPrefix(strings.TrimPrefix(u.Redacted(), u.Scheme+":"), "//") // url changes the case of the scheme
}

// ofParser is the name of a function in an error of pgx.
var ofParser = regexp.MustCompile(`strconv\.\w+: parsing `)

// withoutAddress returns the error of an invalid address without any part of the address, which
// may contain a password.
func withoutAddress(err error) error {
	var bad *url.Error
	var config *pgconn.ParseConfigError
	switch {
	case errors.As(err, &config):
		text := err.Error()
		return errors.New("invalid address: " + ofParser.ReplaceAllString(text[strings.LastIndex(text, "`: ")+len("`: "):], ""))
	case errors.As(err, &bad):
		return errors.New(readable.Unquoted(bad.Err.Error()))
	}
	return err
}
