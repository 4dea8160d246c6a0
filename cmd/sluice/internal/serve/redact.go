package serve

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const hidden = "xxxxx" // as in url.URL.Redacted

// harmless has the parameters of stores whose values may be shown. All others are hidden,
// because an unknown parameter may be a secret.
var harmless = [...]string{
	"application_name", "channel_binding", "client_encoding", "connect_timeout", "database", "dbname",
	"default_query_exec_mode", "host", "hostaddr", "passfile", "pool_health_check_period",
	"pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns",
	"pool_min_conns", "pool_min_idle_conns", "port", "require_auth", "search_path", "service",
	"servicefile", "sslcert", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "sslsni",
	"statement_cache_capacity", "target_session_attrs", "timezone", "user",

	"client_name", "conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "db",
	"dial_timeout", "idle_timeout", "max_active_conns", "max_concurrent_dials", "max_conn_age",
	"max_idle_conns", "max_retries", "max_retry_backoff", "min_idle_conns", "min_retry_backoff",
	"pool_fifo", "pool_size", "pool_timeout", "protocol", "read_timeout", "skip_verify", "write_timeout",
}

// redacted returns an address without its secrets. If it cannot tell which parts are secret, it
// returns only the scheme.
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
	u.RawQuery = redactedQuery(u.RawQuery)
	return u.Redacted()
}

func redactedQuery(query string) string {
	if query == "" {
		return ""
	}
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		name, _, given := strings.Cut(p, "=")
		switch known, _ := url.QueryUnescape(name); {
		case !given:
			parameters[i] = hidden
		case !slices.Contains(harmless[:], known), strings.Contains(p, ";"): // some parsers split at a semicolon
			parameters[i] = name + "=" + hidden
		}
	}
	return strings.Join(parameters, "&")
}

// misread reports whether a / or @ in the password would make a parser take the rest of the
// password for a host or a database name, which errors show.
func misread(scheme, rest string) bool {
	if strings.Contains(pathOf(rest), "@") {
		return true
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	_, host, _ = strings.Cut(host, "@")
	host, _, _ = strings.Cut(host, "?")
	return strings.Contains(host, "@") && strings.HasPrefix(scheme, "postgres") // other parsers use the last @
}

// pathOf returns the text between the host and the parameters.
func pathOf(rest string) string {
	_, behind, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	path, _, _ := strings.Cut(behind, "?")
	return path
}

// unparsed returns the error of an invalid address without any part of the address, which may
// contain a password.
func unparsed(err error) error {
	var bad *url.Error
	var config *pgconn.ParseConfigError
	switch {
	case errors.As(err, &config):
		text := err.Error()
		return errors.New("invalid address: " + text[strings.LastIndex(text, "`: ")+len("`: "):])
	case errors.As(err, &bad):
		return errors.New(unquoted(bad.Err.Error()))
	}
	return err
}
