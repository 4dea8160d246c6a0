package serve

import "time"

// The defaults for slow clients. Kestrel's MinRequestBodyDataRate is 240 bytes a second as
// well, after 5 seconds; Apache's mod_reqtimeout wants 500 after 20. Ten seconds outlast
// the pauses of a bad mobile connection.
const (
	DefaultMinBodyRate = 240
	DefaultBodyGrace   = 10 * time.Second
)

// bodyRate is the least rate at which clients must send bodies.
type bodyRate struct {
	bytes int64         // a second; 0: any rate
	grace time.Duration // for how long a client may fall behind
}

// bodyCredit is for how long a client may still keep the server waiting. It starts at
// grace. Waiting spends it, and each byte earns the time that it takes at the least rate.
// It never exceeds grace, so bytes that came fast do not pay for hours of dripping.
type bodyCredit struct {
	bodyRate
	left time.Duration
}

func (r bodyRate) credit() bodyCredit { return bodyCredit{r, r.grace} }

// note takes in that n bytes came after a wait.
func (c *bodyCredit) note(waited time.Duration, n int) {
	if c.bytes > 0 {
		earned := time.Duration(float64(n) / float64(c.bytes) * float64(time.Second))
		c.left = min(c.grace, c.left-waited+earned)
	}
}
