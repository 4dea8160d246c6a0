package serve

import (
	"net/url"
	"strings"
)

// badTarget is what is wrong with the target of a request, by which it would get past
// the rules for paths; empty if nothing is.
func (u *upstream) badTarget(target *url.URL) string {
	switch {
	case target.Opaque != "": // x:login, of which the upstream is asked for login
		return "want a path, such as /login"
	case strings.Trim(u.url.Path, "/") != "" && climbs(target.Path):
		return "want a path without .. in it, because .. could leave the path of --upstream"
	}
	return ""
}

// climbs reports whether .. is a part of a decoded path for some server: for one that
// takes \ for /, or for one that cuts off what is behind a ;.
func climbs(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(part, ";"); name == ".." {
			return true
		}
	}
	return false
}
