package config

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// pathOf returns the path in the reading that the rule matches. Another reading would let
// clients choose their key: in /1%2Fx/../login, which a server may read as /login, the key
// would depend on the number.
func (r *Rule) pathOf(req *http.Request) string {
	p, _ := r.reading(req.URL)
	return p
}

// reading returns the first reading of a path that the rule matches; ok is false if it
// matches none.
func (r *Rule) reading(u *url.URL) (clean string, ok bool) {
	if len(r.Paths) == 0 {
		return cleanPath(u.Path), true
	}
	escaped := u.Path
	if u.RawPath != "" { // else nothing is encoded that need not be, such as / and .
		escaped = u.EscapedPath()
	}
	clean, ok = r.decoded(withoutParameters(u.Path), withoutParameters(escaped))
	if !ok && strings.Contains(u.Path, ";") {
		clean, ok = r.decoded(u.Path, escaped)
	}
	if !ok && strings.Contains(escaped, "..") { // a name as any other, to servers that clean nothing
		clean = bySegment(u.EscapedPath())
		ok = r.covers(clean)
	}
	return clean, ok
}

// decoded returns the first matching reading of three: the path decoded as a whole, decoded
// segment by segment, and decoded after only unencoded .. segments were resolved.
func (r *Rule) decoded(whole, escaped string) (clean string, ok bool) {
	if clean = path.Clean("/" + whole); r.covers(clean) {
		return clean, true
	}
	if whole == escaped {
		return "", false
	}
	if clean = path.Clean("/" + bySegment(escaped)); r.covers(clean) {
		return clean, true
	}
	clean = bySegment(path.Clean("/" + escaped))
	return clean, r.covers(clean)
}

var encodedSlash = strings.NewReplacer("%2f", "%252F", "%2F", "%252F")

// bySegment decodes the segments of an escaped path. An encoded / stays %2F, which no
// pattern has.
func bySegment(escaped string) string {
	p, _ := url.PathUnescape(encodedSlash.Replace(escaped)) // URL.EscapedPath makes no mistakes
	return p
}

// cleanPath normalizes a path, so that //login, /x/../login/ and /login;a=1 do not bypass a
// limit on /login. It keeps letter case and backslashes, because for most servers they make
// different paths.
func cleanPath(p string) string {
	return path.Clean("/" + withoutParameters(p))
}

// withoutParameters cuts each segment at its semicolon, as servers do before they clean.
func withoutParameters(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	segments := strings.Split(p, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}

func (r *Rule) covers(clean string) bool {
	return slices.ContainsFunc(r.Paths, func(pattern string) bool { return matches(pattern, clean) })
}

// matches reports whether path equals the pattern, or is below it if the pattern ends in /*.
func matches(pattern, path string) bool {
	tree, below := strings.CutSuffix(pattern, "/*")
	if !below {
		return path == pattern
	}
	rest, ok := strings.CutPrefix(path, tree)
	return ok && (rest == "" || rest[0] == '/')
}
