// Command gen makes the sample log. It has no input and no chance in it: the
// random numbers have a fixed seed, and there is no floating point.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("o", "access.log.gz", "the `file` to write")
	flag.Parse()
	if err := os.WriteFile(*out, zip(sampleLog()), 0o644); err != nil {
		log.Fatal(err)
	}
}

func zip(log []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(log) // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}
