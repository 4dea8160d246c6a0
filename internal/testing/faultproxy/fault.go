package faultproxy

// Kind is a kind of fault.
type Kind int

// After the first four faults, the server does not get the request while the client waits. After the
// others, the server gets the request, but the client does not get the complete reply.
const (
	None         Kind = iota
	DropRequest       // the connection is closed instead of forwarding the request
	ResetRequest      // the connection is reset instead of forwarding the request
	StallRequest      // the request is held for ever
	LateRequest       // the request is held until Release or until the client closes the connection; the client gets no reply
	DropReply         // the connection is closed instead of forwarding the reply
	ResetReply        // the connection is reset instead of forwarding the reply
	CutReply          // the connection is closed after half of the reply
	StallReply        // the reply is held until Release or until the client closes the connection
)

var names = [...]string{"none", "drop request", "reset request", "stall request", "late request",
	"drop reply", "reset reply", "cut reply", "stall reply"}

func (k Kind) String() string { return names[k] }

// Kinds returns all faults.
func Kinds() []Kind {
	return []Kind{DropRequest, ResetRequest, StallRequest, LateRequest, DropReply, ResetReply, CutReply, StallReply}
}

// Applied reports whether the server gets the request, perhaps late.
func (k Kind) Applied() bool { return k == None || k >= LateRequest }

// Hangs reports whether a client without a deadline would wait for ever.
func (k Kind) Hangs() bool { return k == StallRequest || k == LateRequest || k == StallReply }

// Fault is a fault in the exchange with the number At.
type Fault struct {
	At   int
	Kind Kind
}
