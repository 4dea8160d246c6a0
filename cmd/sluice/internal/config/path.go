package config

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// pathOf is the path in the reading that the rule is for. In another one the number in
// /1%2Fx/../login, which a server may read as /login, would choose the key.
func (r *Rule) pathOf(req *http.Request) string {
	p, _ := r.reading(req.URL)
	return p
}

// reading is the first of what servers take a path for that the rule is for; ok is false
// if it is for none of them.
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

// decoded is the first that the rule is for of the path decoded as a whole, decoded
// segment by segment, and in the same way but with no other .. than those that are not
// encoded.
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

// bySegment decodes the segments of an escaped path. A / in one of them stays %2F,
// which is in no pattern.
func bySegment(escaped string) string {
	p, _ := url.PathUnescape(encodedSlash.Replace(escaped)) // URL.EscapedPath makes no mistakes
	return p
}

// cleanPath is one spelling for what servers take for the same path, so that nobody
// escapes a limit by //login, /x/../login/ or /login;a=1. Letters stay large or small,
// and a \ stays what it is: for most servers these are different paths.
func cleanPath(p string) string {
	return path.Clean("/" + withoutParameters(p))
}

// withoutParameters cuts each segment at its ;, as servers do before they clean.
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

// matches reports whether path is that of the pattern, or below it if the pattern
// ends in /*.
func matches(pattern, path string) bool {
	tree, below := strings.CutSuffix(pattern, "/*")
	if !below {
		return path == pattern
	}
	rest, ok := strings.CutPrefix(path, tree)
	return ok && (rest == "" || rest[0] == '/')
}
