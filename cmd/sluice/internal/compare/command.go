//go:build !js

package compare

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/internal/costed"
)

const compareExamples = `  sluice compare
  sluice compare -p "gcra 100/m burst=20" -p "fixedwindow 100/m"
  sluice compare --listen 127.0.0.1:8090`

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	var specs []string
	var listen string
	c := &cobra.Command{
		Use:     "compare",
		Short:   "Compare policies side by side on a page in the browser",
		Long:    help,
		Example: compareExamples,
		Args:    cli.NoArgs("drop a log onto the page, or use sluice replay"),
		RunE:    func(c *cobra.Command, _ []string) error { return runCompare(c.Context(), specs, listen, s) },
	}
	c.Flags().StringArrayVarP(&specs, "policy", "p", nil, "rate limiting `POLICY` to begin with; repeat the flag for several")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback `ADDRESS` of the page; port 0 is a free port")
	return c
}

func runCompare(ctx context.Context, specs []string, address string, s cli.Streams) error {
	for _, spec := range specs {
		if _, err := costed.ParseRate(spec, noEnd); err != nil {
			return cli.PolicyError(err)
		}
	}
	if len(specs) > MaxSpecs {
		return cli.Usagef("%d policies; the page compares at most %d", len(specs), MaxSpecs)
	}
	if err := checkLoopback(address); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w; choose another port, or port 0 for a free one", address, err)
	}
	defer listener.Close()
	if _, err := fmt.Fprintf(s.Out, "%s\nOpen this address in a browser. To end, press Ctrl-C.\n", pageAddress(listener.Addr().String(), specs)); err != nil {
		return err
	}
	server := &http.Server{Handler: Handler(NewService()), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pageAddress returns the address of the page with these policies. It has them after #, as page/state.js
// writes them.
func pageAddress(host string, specs []string) string {
	address := "http://" + host + "/"
	if len(specs) == 0 {
		return address
	}
	readable := strings.NewReplacer("%2F", "/", "%3D", "=", "%3B", ";", "%28", "(", "%29", ")", "%3A", ":", "%2C", ",")
	return address + "#" + readable.Replace(url.Values{"p": specs}.Encode())
}

// checkLoopback returns an error unless the address is HOST:PORT with a loopback address.
func checkLoopback(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return cli.Usagef("--listen %q: want HOST:PORT with a loopback address, such as 127.0.0.1:8090", address)
	}
	ip, err := netip.ParseAddr(host)
	if (err != nil || !ip.IsLoopback()) && !strings.EqualFold(host, "localhost") {
		return cli.Usagef("--listen %s: the page has no password, so it answers this machine only; want a loopback address, such as 127.0.0.1:%s", address, port)
	}
	return nil
}

//go:embed help.txt
var help string
