package accesslog_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

func Example() {
	log := `192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl/8.5.0"
{"time":"2015-05-17T12:05:02+02:00","remote_addr":"192.0.2.8","request":{"method":"POST","uri":"/login"},"status":401}
rotated by logrotate
`
	keyer, err := accesslog.ParseKeyer("ip+path")
	if err != nil {
		panic(err)
	}
	stats, err := accesslog.Read(context.Background(), []accesslog.Input{accesslog.FromReader("log", strings.NewReader(log))},
		accesslog.Options{Reorder: accesslog.DefaultReorder, Fields: keyer.Fields()}, func(e *accesslog.Entry) error {
			fmt.Printf("%s %s:%d %s\n", e.Time.Format(time.TimeOnly), e.File, e.Line, keyer.AppendKey(nil, e))
			return nil
		})
	if err != nil {
		panic(err)
	}
	fmt.Println(stats.Lines, "lines,", stats.Skipped, "skipped,", stats.Reordered, "put right")
	fmt.Println(stats.FirstSkipped)
	// Output:
	// 10:05:02 log:2 192.0.2.8 /login
	// 10:05:03 log:1 192.0.2.7 /a
	// 3 lines, 1 skipped, 1 put right
	// log:3: no [time]: "rotated by logrotate"
}
