package accesslog

import (
	"bytes"
	"regexp"
	"strings"
)

// Times that programs write before a line.
const (
	clockTime = `[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?`
	weekday   = `(?:[A-Z][a-z]{2},? )?`
	isoTime   = `[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]` + clockTime + `(?:[Zz]|[+-][0-9]{2}:?[0-9]{2}| (?:[A-Z]{3,5}|[+-][0-9]{2,4}))?`
	bsdTime   = `[A-Z][a-z]{2} [ 0-3]?[0-9] (?:[0-9]{4} )?` + clockTime
	unixTime  = `[0-9]{9,10}\.[0-9]{3,9}`
	bootTime  = `\[ *[0-9]+\.[0-9]+(?: < *[0-9]+\.[0-9]+ >)?\]`
	stamp     = `(?:` + weekday + isoTime + `|` + weekday + bsdTime + `|` + unixTime + `|` + bootTime + `)`
)

// tag is the name of a program, such as "nginx[812]: ". A name with a colon in it would be an IPv6
// address such as 2001:db8::.
const tag = `[^ :,"{]+:(?: +|$)`

// prefix matches one prefix at the beginning of a line.
var prefix = regexp.MustCompile(`^(?:` + strings.Join([]string{
	// Syslog of RFC 5424: priority, version, time, host, program, process, kind of message and data.
	`(?:[0-9]+ )?(?:<[0-9]{1,3}>1 (?:-|` + isoTime + `)|1 ` + isoTime + `)(?: [^ ]+){4} (?:-|(?:\[[^ \]"]+(?: [^ =\]"]+="(?:\\.|[^"\\])*")*\])+)(?: +|$)\x{FEFF}?`,
	// Syslog of RFC 3164, journald, docker logs -t and kubectl logs --timestamps.
	stamp + `:? +(?:(?:[^ ]+ +)?` + tag + `)?`,
	`<[0-9]{1,3}>(?:` + tag + `)?`,
	`@cee: *`, // before JSON in syslog
	// docker compose, also of version 1; foreman, with the time; pm2, with a number.
	`(?:` + clockTime + ` )?(?:[0-9]+\|)?[A-Za-z][A-Za-z0-9_.@/-]* *\| *`,
	`\[[^\] ]+/[^\] ]+\] +`, // kubectl logs --prefix
}, `|`) + `)`)

// runtimePrefix matches the prefix of a container runtime (CRI): the time, the stream, and F for a whole
// line or P for a part of a line.
var runtimePrefix = regexp.MustCompile(`^` + isoTime + ` std(?:out|err) [FP](?::[^ ]*)*(?: |$)`)

var colour = regexp.MustCompile(`\x1b\[[0-9;]*[mK]`)

// maxPrefixes bounds the prefixes of a line, because clients may choose its beginning.
const maxPrefixes = 8

// unwrapper removes what well-known programs write before a line. It joins the parts of lines that
// container runtimes have split.
type unwrapper struct {
	parts [2][]byte // of a line so far, on standard output and on standard error
}

// unwrap returns the line without prefixes. It returns false if the line is a part, and not the last.
// The result is valid until the next call.
func (u *unwrapper) unwrap(line []byte) (content []byte, whole bool) {
	if isBare(line) {
		return line, true
	}
	if bytes.IndexByte(line, '\x1b') >= 0 {
		line = colour.ReplaceAll(line, nil)
	}
	n := 0
	for ; n < maxPrefixes; n++ {
		if p := runtimePrefix.Find(line); p != nil {
			if line, whole = u.join(p, line[len(p):]); !whole {
				return nil, false
			}
		} else if p := prefix.Find(line); p != nil {
			line = line[len(p):]
		} else {
			break
		}
	}
	if _, json, found := bytes.Cut(line, space); n > 0 && found && bytes.HasPrefix(json, []byte("{")) {
		line = json // behind the name of a host
	}
	return line, true
}

// isBare reports whether a line surely has no prefix: it is JSON, or the - of the identity is the second
// word.
func isBare(line []byte) bool {
	if len(line) == 0 || line[0] == '{' {
		return true
	}
	_, second, _ := bytes.Cut(line, space)
	return startsWithDash(second) && line[0] != '<' && line[0] != '\x1b'
}

// join returns a line with its earlier parts. It holds at most a byte more than MaxLine, which makes the
// line too long.
func (u *unwrapper) join(prefix, part []byte) (line []byte, whole bool) {
	parts := &u.parts[0]
	if bytes.Contains(prefix, []byte(" stderr ")) {
		parts = &u.parts[1]
	}
	line = append(*parts, part...)
	line = line[:min(len(line), MaxLine+1)]
	*parts = line
	if whole = !bytes.Contains(prefix, []byte(" P")); whole {
		*parts = line[:0]
	}
	return line, whole
}
