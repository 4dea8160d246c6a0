// Package accesslog reads the access logs of web servers as one stream of
// entries in time order.
//
//	r := accesslog.NewReader(ctx, []accesslog.Input{accesslog.FromFile("access.log"), accesslog.FromFile("access.log.1.gz")},
//		accesslog.Options{Reorder: accesslog.DefaultReorder, Fields: keyer.Fields()})
//	defer r.Close()
//	for r.Next() {
//		e := r.Entry()
//		key = keyer.AppendKey(key[:0], e)
//		... e.Time, e.File, e.Line ...
//	}
//	if err := r.Err(); err != nil { ... }
//	stats := r.Stats()
//
// # Formats
//
// Every line is recognised for itself, so nothing has to be declared and a file
// may change its format half-way. Gzip is recognised by its first bytes,
// whatever the file is called, in any number of members.
//
//	common     192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 512
//	combined   the same, then "REFERER" "USER AGENT"; whatever follows the status is not read
//	vhost      either of them behind the name of the server, "www.example.com:443 192.0.2.7 - ...",
//	           where :443 may be missing
//	JSON       {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200}
//
// The stamp of the first three may carry a fraction, 10:05:03.250. A leap second,
// 23:59:60, is the end of its minute, here and in JSON. A request
// that is no HTTP request (what port scanners send, or "-") is an entry all
// the same: its first word is the Method, the rest the Path.
//
// A client may be logged by name, as client.example.com. A name with a port is the
// server's, and without one it is if an address follows, or if another name does
// with the - of the identity behind. An address with a port is the client's, unless
// a machine follows in the same way. Of two addresses without ports, "203.0.113.6
// 10.0.0.1 - - ...", the first is the client's, the second that of its proxy.
//
// Of a list of addresses, as X-Forwarded-For has them, "198.51.100.7, 203.0.113.6
// - - ...", the last one is the client's. The proxy nearest to the server wrote it;
// those left of it, [Entry].Forwarded, anybody may have made up, with spaces in them
// too: all is theirs up to the last comma before the - of the identity. The same goes
// for the address in JSON.
//
// Whoever makes up that - as well chooses his address: "6.6.6.6 - -, 203.0.113.6 - -"
// may be of 6.6.6.6, with "-, 203.0.113.6 - -" for a user, whose name anybody may have
// made up likewise, and is read so. Of a list with no - behind, each word but the last
// ends in a comma. JSON leaves no such doubt.
//
// A line of JSON is one valid object. Its members are found by the names that
// servers give them, in any case, nested members by their dotted name
// (request.remote_ip); [Options.TimeField] and [Options.KeyField] name odd ones.
// The time is RFC 3339 (with a space for the T, a comma for the point, ±hhmm, or
// no zone, which is read as UTC), the form of the common format, or a number
// since 1970: seconds below 1e11, then milliseconds below 1e14, microseconds
// below 1e17, nanoseconds. An object that tells of no client, user, request or
// status, and has no member of Options.KeyField, is no log line; one with a host is if Options.Fields
// have nothing but that.
//
// # Order
//
// Several inputs are merged by time, so that rotated files may be named in any
// order and the logs of several servers side by side; of equal stamps the input
// named first goes first. Within that stream a line stamped earlier than the
// latest stamp seen so far is put right, if it is no more than [Options.Reorder]
// behind; an older one is delivered at that latest stamp and counted in
// [Stats.Late]. Equal stamps keep the order of the file.
//
// # Damage
//
// A line that is no log line is skipped and counted, an empty one or one longer
// than [MaxLine] too; the first one is kept for people to look at. If more than
// half of all lines are skipped, [Reader.Err] is an [*UnreadableError]. Gzip that
// is cut off or corrupt ends its file and is told in [File.Damage].
//
// Memory does not depend on the number of lines: it holds one line of every input
// that is being merged, and the fields asked for of what was logged within
// Options.Reorder, with about 20 bytes an entry. Of the latter no more than 64 MB:
// a log that is busier is put right over a shorter time.
package accesslog
