package accesslog

import "time"

// Entry is one request in the log. The byte slices belong to the [Reader] and hold
// until its next call of Next. A field that the log does not have, or has as "-",
// is empty.
type Entry struct {
	Time   time.Time // in UTC; any year that the log can write, so perhaps outside algo's range
	IP     []byte    // of the client, without a port; some servers log its host name instead
	User   []byte    // as authenticated; may contain spaces
	Method []byte    // GET, POST, ...; as sent, so perhaps no HTTP method at all
	Path   []byte    // the request's target up to its query string, still percent-encoded
	Host   []byte    // the virtual host that was asked, without a port
	Key    []byte    // the member that Options.KeyField names; of a list of strings all of them, with ", " between
	// Forwarded is what stands before IP where the log has a list of addresses, as
	// X-Forwarded-For has them. Clients can forge it.
	Forwarded []byte
	Status    int // the response's status; 0 when the log has none

	File string // the Name of the Input
	Line int64  // from 1
	Late bool   // older than Options.Reorder: Time is the latest stamp seen, not its own

	at stamp // of which Time is made
}

// Fields is a set of Entry's fields. The zero Fields stand for all of them.
type Fields uint

// The fields that can be asked for. Time, File, Line and Late are always there.
const (
	IP Fields = 1 << iota
	User
	Method
	Path
	Host
	Key
	Forwarded // no key can be made of it
	Status
	allFields = IP | User | Method | Path | Host | Key | Forwarded | Status
)

// Present is those of the fields that e has.
func (e *Entry) Present() Fields {
	var set Fields
	for i, text := range e.texts() {
		if len(*text) > 0 {
			set |= 1 << i
		}
	}
	if e.Status > 0 {
		set |= Status
	}
	return set
}
