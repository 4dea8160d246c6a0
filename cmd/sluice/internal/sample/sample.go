// Package sample holds the access log that sluice replays when it is given none:
// fifty minutes of a small shop, from people who must not notice a limit to a script
// that knows where the minute ends.
//
// The log is made up by the program in gen, the same bytes every time. All its
// addresses are reserved for documentation.
package sample

import (
	"bytes"
	_ "embed"
	"io"
)

//go:generate go run ./gen -o access.log.gz

//go:embed access.log.gz
var zipped []byte

// Name is what to call the log in reports.
const Name = "sample.log"

// Open reads the log: gzip of lines in the combined format.
func Open() io.Reader { return bytes.NewReader(zipped) }
