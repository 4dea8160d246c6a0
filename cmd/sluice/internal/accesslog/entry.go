package accesslog

import "time"

// Entry is one request in the log. The byte slices are valid until the function that [Read] calls
// returns. A field that is missing or "-" in the log is empty.
type Entry struct {
	Time   time.Time // in UTC, in the range of package algo
	IP     []byte    // of the client, without a port; or the client's host name, as some servers log
	User   []byte    // as authenticated; may contain spaces
	Method []byte    // as sent, so it may be an invalid HTTP method
	Path   []byte    // the target without its query string, percent-encoded
	Host   []byte    // the requested virtual host, without a port; if the log has none, that of a Path that is a whole URL
	Key    []byte    // the member that Options.KeyField names; a list of strings is joined by ", "
	// Forwarded has the addresses before IP if the log has a list of addresses, as in
	// X-Forwarded-For. Clients can forge it.
	Forwarded []byte
	Status    []byte // the status of the response, such as 404

	File string // the Name of the Input
	Line int64  // from 1
	Late bool   // older than Options.Reorder: Time is the latest time so far, not its own
}

// Fields is a set of fields of Entry.
type Fields uint

// The fields that can be requested. Time, File, Line and Late are always set.
const (
	IP Fields = 1 << iota
	User
	Method
	Path
	Host
	Key
	Forwarded // cannot be a key
	Status
)

// texts returns the fields, each at the index of its bit in Fields.
func (e *Entry) texts() [8]*[]byte {
	return [...]*[]byte{&e.IP, &e.User, &e.Method, &e.Path, &e.Host, &e.Key, &e.Forwarded, &e.Status}
}

// Present returns the fields that are not empty.
func (e *Entry) Present() (set Fields) {
	for i, text := range e.texts() {
		if len(*text) > 0 {
			set |= 1 << i
		}
	}
	return set
}
