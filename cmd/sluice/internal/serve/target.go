package serve

import (
	"net/url"
	"strings"
)

// badTarget returns the problem of a request target that would bypass rules for paths; empty if
// there is none.
func (u *upstream) badTarget(target *url.URL) string {
	switch {
	case target.Opaque != "": // x:login, which would reach the upstream as login
		return "want a path, such as /login"
	case strings.Trim(u.url.Path, "/") != "" && climbs(target.Path):
		return "want a path without .. in it, because .. could leave the path of --upstream"
	}
	return ""
}

// climbs reports whether some server reads a .. in a decoded path: one that reads \ as /, or one
// that cuts off parameters after a semicolon.
func climbs(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}
