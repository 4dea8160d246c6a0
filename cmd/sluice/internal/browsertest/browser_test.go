package browsertest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	browser      context.Context
	stopBrowser  func()
	browserOnce  sync.Once
	browserFault error
)

// sharedBrowser returns the context of the browser that all tests share. Each test has a tab of its own.
func sharedBrowser(t testing.TB) context.Context {
	t.Helper()
	need(t)
	browserOnce.Do(func() { browserFault = startBrowser() })
	require.NoError(t, browserFault)
	return browser
}

func startBrowser() error {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium()),
		chromedp.UserDataDir(filepath.Join(scratch, "profile")),
		chromedp.WindowSize(1280, 900),
		chromedp.DisableGPU,
		chromedp.Flag("disable-features", "SpareRendererForSitePerProcess,Translate"),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox refuses root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	browser = ctx
	stopBrowser = func() {
		_ = chromedp.Cancel(ctx) // waits for its end
		stop()
		stopAllocator()
	}
	return chromedp.Do(ctx)
}
