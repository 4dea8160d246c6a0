package faultproxy

// A Kind is what happens to an exchange.
type Kind int

// The first four keep the request from the server, at least for as long as the
// client waits; the others let it through and keep the reply from the client.
const (
	None         Kind = iota
	DropRequest       // the connection is closed instead of forwarding the request
	ResetRequest      // the connection is reset instead of forwarding the request
	StallRequest      // the request is held for ever
	LateRequest       // the request is held until Release, or until the client has hung up, and never answered
	DropReply         // the connection is closed instead of forwarding the reply
	ResetReply        // the connection is reset instead of forwarding the reply
	CutReply          // the connection is closed after the first half of the reply
	StallReply        // the reply is held until Release, or until the client has hung up
)

// Kinds lists all faults.
func Kinds() []Kind {
	return []Kind{DropRequest, ResetRequest, StallRequest, LateRequest, DropReply, ResetReply, CutReply, StallReply}
}

// Applied tells whether the server gets to see the request in the end.
func (k Kind) Applied() bool { return k == None || k >= LateRequest }

// Hangs tells whether the client would wait for ever, had it no deadline.
func (k Kind) Hangs() bool { return k == StallRequest || k == LateRequest || k == StallReply }

func (k Kind) onRequest() bool { return k > None && k < DropReply }

func (k Kind) String() string {
	names := [...]string{"none", "drop request", "reset request", "stall request", "late request",
		"drop reply", "reset reply", "cut reply", "stall reply"}
	if k < 0 || int(k) >= len(names) {
		return "unknown fault"
	}
	return names[k]
}

// A Fault damages the exchange with the number At.
type Fault struct {
	At   int
	Kind Kind
}
