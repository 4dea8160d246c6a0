package serve

import "time"

// The defaults for slow clients. Kestrel's MinRequestBodyDataRate is 240 bytes a second too,
// after 5 seconds; Apache's mod_reqtimeout requires 500 bytes a second after 20 seconds. Ten
// seconds cover the pauses of a bad mobile connection.
const (
	DefaultMinBodyRate = 240
	DefaultBodyGrace   = 10 * time.Second
)

// bodyRate is the least rate at which clients must send bodies.
type bodyRate struct {
	bytes int64         // a second; 0: any rate
	grace time.Duration // how long a client may be slower
}

// bodyCredit is how long the server still waits for a client. It starts at grace. Waiting reduces
// it, and each byte adds the time that it takes at the lowest rate. It never exceeds grace, so a
// fast beginning does not pay for a slow rest.
type bodyCredit struct {
	bodyRate
	left time.Duration
}

func (r bodyRate) credit() bodyCredit { return bodyCredit{r, r.grace} }

// note updates the credit after n bytes came after a wait.
func (c *bodyCredit) note(waited time.Duration, n int) {
	if c.bytes > 0 {
		earned := time.Duration(float64(n) / float64(c.bytes) * float64(time.Second))
		c.left = min(c.grace, c.left-waited+earned)
	}
}
