// Package accesslog reads the access logs of web servers as one stream of entries in
// time order.
//
//	stats, err := accesslog.Read(ctx, []accesslog.Input{accesslog.FromFile("access.log"), accesslog.FromFile("access.log.1.gz")},
//		accesslog.Options{Reorder: accesslog.DefaultReorder, Fields: accesslog.IP}, func(e *accesslog.Entry) error {
//			key := keyer.Key(e)
//			... e.Time, e.File, e.Line ...
//			return nil
//		})
//
// # Formats
//
// The reader detects the format of each line by itself, so a file may change its format in
// the middle. It detects gzip by the first bytes, whatever the file's name is. A gzip file may
// have any number of members.
//
//	common     192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 512
//	combined   common, then "REFERER" "USER AGENT"; text after the status is ignored
//	vhost      either of them after the name of the server, "www.example.com:443 192.0.2.7 - ...";
//	           :443 may be missing
//	JSON       {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200}
//
// Each of them may follow the prefixes that well-known programs write, also several of them:
//
//   - syslog of RFC 3164 and RFC 5424, and journalctl
//   - docker compose, docker logs -t, foreman and pm2, with or without colours
//   - Kubernetes: kubectl logs --prefix and --timestamps, and the files of container runtimes (CRI).
//     The parts of a line that a runtime has split are joined, and count as one line.
//
// A line with other words before the client is skipped: a second - in the place of the user is the
// identity behind the real client. A single word before the client is read as the server's name.
//
// Times in the first three formats may have a fraction, as 10:05:03.250. A leap second,
// 23:59:60, counts as the last nanosecond of its minute, in JSON too. A request that is not
// valid HTTP, such as the bytes that port scanners send or "-", is an entry too: its first word
// is the Method, and the rest is the Path.
//
// Addresses. The words before the time are read by these rules:
//
//   - A client may be logged by its host name, as client.example.com.
//   - A name with a port is the server's name.
//   - A name without a port is the server's name if an address follows, or if another name
//     follows and then the - of the identity.
//   - An address with a port is the client's, unless an address or a name follows it in the
//     same way.
//   - Of two addresses without ports, "203.0.113.6 10.0.0.1 - - ...", the first is the client's
//     and the second is its proxy's.
//   - Of a list of addresses, as in X-Forwarded-For, "198.51.100.7, 203.0.113.6 - - ...", the
//     last is the client's, because the proxy nearest to the server wrote it. Clients can
//     forge the others, spaces included. All text up to the last comma before the - of the
//     identity goes to [Entry].Forwarded. This also holds for an address in JSON.
//   - A peer on a Unix socket, unix: or @, has no address.
//
// A client that can also forge that - can choose its address: the line "6.6.6.6 - -, 203.0.113.6
// - -" is read as a request of 6.6.6.6, because "-, 203.0.113.6 - -" may be a user's name. In a
// list without a - after it, each word except the last ends in a comma. JSON logs do not have
// this ambiguity.
//
// A line of JSON is one valid object. The reader finds its members by the names that common
// servers use, in any letter case. Nested members have dotted names (request.remote_ip). Several members
// may mean the same, such as ip and remote_addr. The reader ignores those that are empty, "-", no valid
// time or no status, if another one is left. It prefers a time with a date to a number, because the number may
// be a duration. It prefers an address to a host name.
// [Options.TimeField] and [Options.KeyField] set other names. The time is one of:
//
//   - RFC 3339, where a space may replace the T, a comma may replace the point, the zone may be
//     ±hhmm, and a missing zone means UTC
//   - the form of the common format
//   - a number since 1970: seconds from 1e8, milliseconds from 1e11, microseconds from 1e14,
//     and nanoseconds from 1e17 on. A number below 1e8 is a duration
//
// An object without a client, a user, a request, a status and the member of Options.KeyField
// is not a log line.
//
// # Order
//
// Several inputs are merged by time. So rotated files may be named in any order, and the
// logs of several servers can be read together. For equal times, the input that was named
// first goes first. In the merged stream, a line that is earlier than the latest time so far
// is sorted if the difference is at most [Options.Reorder]. An older line is delivered with
// that latest time, and counted in [Stats.Late]. Lines with equal times keep the order of
// the file.
//
// # Damage
//
// A line ends with \n and any number of \r before it. A line that is not a log line is
// skipped and counted, as are empty lines, lines longer than [MaxLine], and lines with a time before 1970
// or after September 2112. The first such line is kept for error messages. If more than half of all lines
// are skipped, [Read] returns an [*UnreadableError]. A gzip file that is cut short or
// corrupt ends there, and is in [Stats.Damaged].
//
// Memory does not depend on the number of lines. The reader has a buffer of [MaxLine] for each open
// input, and the requested fields of the entries within twice Options.Reorder, with about 300 bytes of
// overhead for each entry. These entries take at most 128 MB: for a busier log, the
// reader sorts over a shorter time.
package accesslog
