package accesslog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"
	"time"
)

// combinedLog returns a log of n lines, ten a second, from 126 clients.
func combinedLog(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		at := time.Unix(1_431_857_103+int64(i/10), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&b, "198.51.100.%d - - [%s] \"GET /articles/%d?page=2 HTTP/1.1\" 200 %d "+
			"\"https://www.example.com/articles/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"\n",
			i*i%251, at, i%97, 512+i%4096)
	}
	return b.Bytes()
}

func jsonLog(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		at := time.Unix(1_431_857_103+int64(i/10), 0).UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, `{"time":"%s","remote_addr":"198.51.100.%d","request_method":"GET","uri":"/articles/%d?page=2","status":200,`+
			`"http_user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0","request_time":0.012}`+"\n",
			at, i*i%251, i%97)
	}
	return b.Bytes()
}

func zipped(log []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(log) // a bytes.Buffer returns no error
	z.Close()
	return b.Bytes()
}

// BenchmarkReader measures a line from its bytes to Next. ns/op is per line.
func BenchmarkReader(b *testing.B) {
	const n = 50_000
	logs := map[string][]byte{"combined": combinedLog(n), "json": jsonLog(n)}
	logs["gzip"] = zipped(logs["combined"])
	for _, name := range []string{"combined", "json", "gzip"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for read := 0; read < b.N; {
				_, _ = Read(b.Context(), []Input{FromReader(name, bytes.NewReader(logs[name]))}, Options{Reorder: DefaultReorder, Fields: IP}, func(*Entry) error {
					if read++; read == b.N {
						return io.EOF
					}
					return nil
				})
			}
		})
	}
}
