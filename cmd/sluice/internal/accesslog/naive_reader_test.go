package accesslog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// naiveRead is a simple reader for differential tests. It keeps all lines in memory and uses regular
// expressions, time.Parse, encoding/json and a sort. Reader must return the same entries. Both share the
// expressions for prefixes, which prefix_test.go tests.

// naiveEntry is an Entry that keeps its text.
type naiveEntry struct {
	Time                              time.Time
	IP, User, Method, Path, Host, Key string
	Forwarded                         string
	Status                            int
	File                              string
	Line                              int64
	Late                              bool
}

type naiveLog struct {
	name string
	data []byte
}

func naiveRead(logs []naiveLog, o Options) ([]naiveEntry, Stats) {
	var stats Stats
	files := make([][]naiveEntry, len(logs))
	for i, log := range logs {
		parts := make(map[string]string)
		for n, line := range naiveLines(log.data) {
			tooLong := len(line) > MaxLine
			if tooLong {
				line += strings.Repeat(" ", MaxLine)
			}
			line, whole := naiveUnwrap(line, parts)
			if !whole {
				continue
			}
			stats.Lines++
			e, ok := naiveParse(line, o)
			if !ok || tooLong || len(line) > MaxLine {
				stats.Skipped++
				continue
			}
			e.File, e.Line = log.name, int64(n+1)
			files[i] = append(files[i], e)
			stats.Entries++
			if strings.HasPrefix(line, "{") {
				stats.JSON++
			}
			if e.IP != "" && !naiveIP(e.IP) {
				stats.NoAddress++
			}
		}
		stats.Lines += int64(len(parts))
		stats.Skipped += int64(len(parts))
	}
	all := naiveMerge(files)
	var latest time.Time
	for i := range all {
		e := &all[i]
		switch {
		case i == 0 || !e.Time.Before(latest):
			latest = e.Time
		case e.Time.Before(latest.Add(-o.Reorder)):
			e.Time, e.Late = latest, true
			stats.Late++
		default:
			stats.Reordered++
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Time.Before(all[j].Time) })
	return all, stats
}

// naiveMerge repeatedly takes the earliest of the next entries of all files.
func naiveMerge(files [][]naiveEntry) (all []naiveEntry) {
	for {
		first := -1
		for i, file := range files {
			if len(file) > 0 && (first < 0 || file[0].Time.Before(files[first][0].Time)) {
				first = i
			}
		}
		if first < 0 {
			return all
		}
		all = append(all, files[first][0])
		files[first] = files[first][1:]
	}
}

func naiveLines(data []byte) []string {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, _ = io.ReadAll(z) // keeps what could be decompressed
		} else {
			data = nil
		}
	}
	text := strings.TrimPrefix(string(data), "\uFEFF")
	if text == "" {
		return nil
	}
	text = regexp.MustCompile(`\r([^\r\n]|$)`).ReplaceAllString(text, "\n$1")
	all := strings.Split(text, "\n")
	for i := range len(all) - 1 {
		all[i] = strings.TrimSuffix(all[i], "\r")
	}
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// naiveUnwrap removes prefixes. parts has the parts of lines so far, by stream.
func naiveUnwrap(line string, parts map[string]string) (content string, whole bool) {
	bare := regexp.MustCompile(`^([{]|[^<\x1b ][^ ]* -( |$)| -( |$)|$)`)
	if bare.MatchString(line) {
		return line, true
	}
	line = colour.ReplaceAllString(line, "")
	for n := range maxPrefixes + 1 {
		p := runtimePrefix.FindString(line)
		words := strings.Split(strings.TrimSuffix(p, " "), " ")
		stream, tag := words[max(0, len(words)-2)], words[len(words)-1]
		switch {
		case n == maxPrefixes:
		case strings.HasPrefix(tag, "P"):
			parts[stream] += line[len(p):]
			return "", false
		case p != "":
			line = parts[stream] + line[len(p):]
			delete(parts, stream)
			continue
		case prefix.MatchString(line):
			line = prefix.ReplaceAllString(line, "")
			continue
		}
		if json := regexp.MustCompile(`(?s)^[^ ]* ([{].*)$`).FindStringSubmatch(line); n > 0 && json != nil {
			line = json[1]
		}
		break
	}
	return line, true
}

func naiveParse(line string, o Options) (naiveEntry, bool) {
	if strings.HasPrefix(line, "{") {
		return naiveJSON(line, o)
	}
	return naiveCLF(line)
}

var (
	naiveRest      = regexp.MustCompile(`(?s)^([^\]]*)\] "((?:[^\\]|\\.)*?)" ([0-9]{3})(?: .*)?$`)
	naiveStamped   = regexp.MustCompile(` \[([^][]*)\] "`)
	naivePrefix    = regexp.MustCompile(`^((?:[^ ]*, +)*(?:[^ ,]*,)*)([^ ,]+)(?: (.*))?$`)
	naiveNamed     = regexp.MustCompile(`^(?:([^:\[][^:]*)|\[([^\]]+)\]):[0-9]+$`)
	naiveNameless  = regexp.MustCompile(`^(?:\[\])?:[0-9]+$`)
	naiveIPv4      = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,3}){3}$`)
	naiveDashed    = regexp.MustCompile(`^[^ ]+ - .`)
	naiveControl   = regexp.MustCompile(`[\x00-\x1f\x7f]`)
	naiveProtocol  = regexp.MustCompile(`(?s)^(.*?)(?:(?:^| +)HTTP/[^ ]*)?$`)
	naiveBracketed = regexp.MustCompile(`(?s)^\[([^\]]*)\](?::[0-9]+)?$`)
	naivePort      = regexp.MustCompile(`(?s)^([^:\[][^:]*|):[0-9]+$`)
	naiveCLFTime   = regexp.MustCompile(`^[0-9]{2}/[A-Za-z]{3}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]{1,9})? [+-]([01][0-9]|2[0-3])[0-5][0-9]$`)
	naiveISOTime   = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})([.,][0-9]{1,9})?([Zz]|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?$`)
	naiveSixty     = regexp.MustCompile(`:60([.,][0-9]+)? `)
	naiveNumber    = regexp.MustCompile(`^(-?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?$`)
)

func naiveCLF(line string) (e naiveEntry, ok bool) {
	at := naiveStamp(line)
	if at < 0 {
		return e, false
	}
	client, rest := line[:at], line[at+len(" ["):]
	if naiveControl.MatchString(client) {
		return e, false
	}
	m := naiveRest.FindStringSubmatch(rest)
	if m == nil {
		return e, false
	}
	if e.Time, ok = naiveCLFStamp(m[1]); !ok {
		return e, false
	}
	e.Host, client = naiveHost(client)
	listed, last := naiveListed(client)
	w := naivePrefix.FindStringSubmatch(last)
	if w == nil {
		return e, false
	}
	e.Forwarded = strings.TrimRight(listed+w[1], ", ")
	behind := strings.Split(w[3], " ")
	if len(behind) > 2 && naiveAddressOrName(w[3]) {
		behind = behind[1:]
	}
	user := strings.Join(behind[1:], " ")
	if strings.Contains(user, " - ") && (behind[0] != "-" || !naiveIP(w[2])) {
		return e, false
	}
	e.IP, e.User = naivePeer(w[2]), naiveDash(strings.Trim(user, " "))
	e.Method, e.Path = naiveRequest(m[2])
	e.Status, _ = strconv.Atoi(m[3])
	return e, true
}

// naiveStamp returns the position of the first valid time that a request follows, or -1.
func naiveStamp(line string) int {
	for _, m := range naiveStamped.FindAllStringSubmatchIndex(line, -1) {
		if _, ok := naiveCLFStamp(line[m[2]:m[3]]); ok {
			return m[0]
		}
	}
	return -1
}

// naiveHost cuts the server's name from the text before the time.
func naiveHost(text string) (host, client string) {
	host, client, _ = strings.Cut(text, " ")
	withPort, named := naiveNamed.MatchString(host), naiveAddressOrName(client)
	switch {
	case host == "", naiveNameless.MatchString(host), strings.HasSuffix(host, ","):
		named = false
	case withPort:
		named = strings.Count(client, " ") >= 2 && (named || !naiveIP(host))
	case naiveIP(host):
		named = false
	}
	if !named {
		return "", text
	}
	return naiveAddress(host), client
}

// naiveListed cuts the text after the last comma before the IDENT's dash. If there is no such comma,
// listed is empty.
func naiveListed(text string) (listed, rest string) {
	list, _, found := strings.Cut(text+" ", " - ")
	if i := strings.LastIndex(list, ",") + 1; found && i > 0 {
		return text[:i], strings.TrimLeft(text[i:], " ")
	}
	return "", text
}

// naiveAddressOrName reports whether a text begins with an address or the name of a host.
func naiveAddressOrName(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	list := strings.Split(word, ",")
	switch {
	case word == "-" || word == "":
		return false
	case list[len(list)-1] == "":
		return true
	}
	return naiveIP(list[len(list)-1]) || naiveDashed.MatchString(text)
}

func naiveIP(text string) bool {
	text = naiveAddress(text)
	addr, err := netip.ParseAddr(text)
	return naiveIPv4.MatchString(text) || err == nil && addr.Is6()
}

// naiveLast returns the last address of a list, and the addresses before it. Text without a comma is
// one address.
func naiveLast(text string) (others, last string) {
	if strings.Contains(text, ",") {
		list := strings.TrimRight(text, ", ")
		i := strings.LastIndex(list, ",") + 1
		others, text = strings.TrimRight(list[:i], ", "), strings.TrimLeft(list[i:], " ")
	}
	return others, naivePeer(text)
}

func naivePeer(text string) string {
	if text = naiveAddress(text); strings.HasPrefix(text, "unix:") || text == "@" {
		return ""
	}
	return text
}

func naiveRequest(request string) (method, path string) {
	request = naiveDash(strings.Trim(request, " "))
	method, target, _ := strings.Cut(request, " ")
	m := naiveProtocol.FindStringSubmatch(strings.Trim(target, " "))
	path, _, _ = strings.Cut(m[1], "?")
	return method, path
}

func naiveAddress(text string) string {
	for _, pattern := range []*regexp.Regexp{naiveBracketed, naivePort} {
		if m := pattern.FindStringSubmatch(text); m != nil {
			return naiveDash(m[1])
		}
	}
	return naiveDash(text)
}

func naiveDash(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

func naiveCLFStamp(text string) (time.Time, bool) {
	if !naiveCLFTime.MatchString(text) {
		return time.Time{}, false
	}
	t, err := time.Parse("02/Jan/2006:15:04:05 -0700", naiveLeap(text))
	return t.UTC(), err == nil
}

func naiveISOStamp(text string) (time.Time, bool) {
	m := naiveISOTime.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}, false
	}
	zone := strings.Replace(strings.ToUpper(m[4]), ":", "", 1)
	if zone == "" || zone == "Z" {
		zone = "+0000"
	}
	t, err := time.Parse("2006-01-02 15:04:05 -0700", naiveLeap(m[1]+" "+m[2]+m[3]+" "+zone))
	return t.UTC(), err == nil
}

// naiveLeap replaces second 60, which time.Parse refuses.
func naiveLeap(text string) string {
	return naiveSixty.ReplaceAllString(text, ":59.999999999 ")
}

func naiveNumberStamp(text string) (time.Time, bool) {
	m := naiveNumber.FindStringSubmatch(text)
	if m == nil || m[2] == "" && m[3] == "" {
		return time.Time{}, false
	}
	digits, _ := new(big.Int).SetString("0"+m[2]+m[3], 10)
	exp, err := strconv.Atoi(strings.TrimPrefix(m[4]+"", "+"))
	if m[4] == "" {
		exp, err = 0, nil
	}
	switch {
	case err != nil || exp > math.MaxInt32 || exp < math.MinInt32:
		return time.Time{}, false
	case digits.Sign() == 0:
		return time.Unix(0, 0).UTC(), true
	case exp > 5000 || exp < -5000:
		return time.Unix(0, 0).UTC(), exp < 0
	}
	v := new(big.Rat).SetInt(digits)
	v.Mul(v, naivePower(exp-len(m[3])))
	unit := 0
	for _, limit := range []int{11, 14, 17} {
		if v.Cmp(naivePower(limit)) >= 0 {
			unit += 3
		}
	}
	if v.Cmp(naivePower(19)) >= 0 {
		return time.Time{}, false
	}
	v.Mul(v, naivePower(9-unit))
	nanos := new(big.Int).Quo(v.Num(), v.Denom())
	if m[1] == "-" {
		nanos.Neg(nanos)
	}
	sec, nsec := new(big.Int).DivMod(nanos, big.NewInt(1e9), new(big.Int))
	return time.Unix(sec.Int64(), nsec.Int64()).UTC(), true
}

func naivePower(exp int) *big.Rat {
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	if exp < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), p)
	}
	return new(big.Rat).SetInt(p)
}

func naiveText(text string) (time.Time, bool) {
	for _, read := range []func(string) (time.Time, bool){naiveISOStamp, naiveCLFStamp, naiveNumberStamp} {
		if t, ok := read(text); ok {
			return t, true
		}
	}
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		return naiveCLFStamp(strings.TrimSuffix(inner, "]"))
	}
	return time.Time{}, false
}

// naiveMember is a member of a JSON object. None of the objects around it is in an array.
type naiveMember struct {
	name  string
	value any // string, json.Number, bool or []string
}

func naiveJSON(line string, o Options) (e naiveEntry, ok bool) {
	if !json.Valid([]byte(line)) {
		return e, false
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	_, _ = d.Token()
	all := naiveMembers(d, "")
	members := slices.DeleteFunc(slices.Clone(all), func(m naiveMember) bool { _, list := m.value.([]string); return list })
	var names [parts][]string
	for i, list := range memberNames {
		names[i] = strings.Fields(list)
	}
	if o.TimeField != "" {
		names[partTime] = []string{naiveLower(o.TimeField)}
		for i := range names[1:] {
			names[1+i] = naiveWithout(names[1+i], naiveLower(o.TimeField))
		}
	}
	switch at := naiveFind(members, names[partTime]...).(type) {
	case string:
		e.Time, ok = naiveText(at)
	case json.Number:
		e.Time, ok = naiveNumberStamp(string(at))
	default:
		return e, false
	}
	text := func(names ...string) string { return naiveDash(naiveString(naiveFind(members, names...))) }
	if request, ok := naiveFind(members, names[partRequest]...).(string); ok {
		e.Method, e.Path = naiveRequest(request)
	}
	if naiveFind(members, names[partMethod]...) != nil {
		e.Method = text(names[partMethod]...)
	}
	if naiveFind(members, names[partPath]...) != nil {
		e.Path, _, _ = strings.Cut(text(names[partPath]...), "?")
	}
	e.Forwarded, e.IP = naiveLast(text(names[partIP]...))
	e.User, e.Host = text(names[partUser]...), naiveAddress(text(names[partHost]...))
	if o.KeyField != "" {
		e.Key = naiveDash(naiveString(naiveFind(all, naiveLower(o.KeyField))))
	}
	if status := text(names[partStatus]...); regexp.MustCompile(`^[0-9]{1,3}$`).MatchString(status) {
		e.Status, _ = strconv.Atoi(status)
	}
	isRequest := e.Status > 0 || o.KeyField != "" && naiveFind(all, naiveLower(o.KeyField)) != nil
	isRequest = isRequest || o.Fields == Host && naiveFind(members, names[partHost]...) != nil
	for _, part := range []part{partIP, partUser, partMethod, partPath, partRequest} {
		isRequest = isRequest || naiveFind(members, names[part]...) != nil
	}
	return e, ok && isRequest
}

func naiveMembers(d *json.Decoder, prefix string) (members []naiveMember) {
	for d.More() {
		token, _ := d.Token()
		name := prefix + naiveLower(token.(string))
		switch value, _ := d.Token(); value := value.(type) {
		case json.Delim:
			if value == '{' {
				members = append(members, naiveMembers(d, name+".")...)
			} else {
				if list := naiveArray(d); list != nil {
					members = append(members, naiveMember{name, list})
				}
			}
		case nil:
		default:
			members = append(members, naiveMember{name, value})
		}
	}
	_, _ = d.Token()
	return members
}

// naiveArray returns the strings of an array; nil if the array is empty or has other values.
func naiveArray(d *json.Decoder) (list []string) {
	mixed := false
	for depth := 1; depth > 0; {
		token, _ := d.Token()
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if text, ok := token.(string); ok {
			list = append(list, text)
		} else if depth > 0 {
			mixed = true
		}
	}
	if mixed {
		return nil
	}
	return list
}

// naiveFind returns the value of the last member with the first name that exists, or nil.
func naiveFind(members []naiveMember, names ...string) (value any) {
	for _, name := range names {
		for _, m := range members {
			if m.name == name {
				value = m.value
			}
		}
		if value != nil {
			return value
		}
	}
	return nil
}

func naiveString(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return string(value)
	case []string:
		return strings.Join(value, ", ")
	case bool:
		return strconv.FormatBool(value)
	}
	return ""
}

func naiveWithout(names []string, name string) (rest []string) {
	for _, n := range names {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}

func naiveLower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}
