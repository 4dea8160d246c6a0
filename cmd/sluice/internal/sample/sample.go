// Package sample has the access log that sluice replays by default: fifty minutes of a small shop,
// with people, whom no limit should hit, and a script that sends its requests around the edges
// of the minutes. All its addresses are reserved for documentation.
package sample

import (
	"bytes"
	_ "embed"
	"io"
)

//go:embed access.log.gz
var zipped []byte

// Name is the name of the log in reports.
const Name = "the bundled sample log"

// Open returns a reader of the log: gzip of lines in the combined format.
func Open() io.Reader { return bytes.NewReader(zipped) }
