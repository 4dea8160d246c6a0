//go:build js && wasm

// Command wasm is the service of the page sluice compare as WebAssembly, for a web site of static
// files. It sets the global function sluiceCall(method, body, progress, done), which returns a function
// that cancels the call.
package main

import (
	"bytes"
	"context"
	"sync"
	"syscall/js"
	"time"
	_ "time/tzdata" // a browser has no time zones

	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
)

func main() {
	service := compare.NewService()
	js.Global().Set("sluiceCall", js.FuncOf(func(_ js.Value, args []js.Value) any {
		method, body, progress, done := args[0].String(), bytesOf(args[1]), args[2], args[3]
		ctx, cancel := context.WithCancel(context.Background())
		canceled := js.FuncOf(func(js.Value, []js.Value) any { cancel(); return nil })
		go func() {
			defer canceled.Release()
			defer cancel()
			p := &pauser{last: time.Now()}
			result, err := service.Call(ctx, method, bytes.NewReader(body), func(share float64) {
				progress.Invoke(share)
				p.pause()
			})
			done.Invoke(string(compare.Response(result, err)))
		}()
		return canceled
	}))
	js.Global().Call("sluiceReady")
	select {}
}

// bytesOf copies a Uint8Array.
func bytesOf(array js.Value) []byte {
	b := make([]byte, array.Length())
	js.CopyBytesToGo(b, array)
	return b
}

// pauser lets JavaScript run during a long call, so that it can cancel the call. JavaScript runs only
// while all goroutines wait.
type pauser struct {
	mu   sync.Mutex // held during a pause, so that the other goroutines of the call wait too
	last time.Time
}

const pauseInterval = 50 * time.Millisecond

func (p *pauser) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < pauseInterval {
		return
	}
	resumed := make(chan struct{})
	resume := js.FuncOf(func(js.Value, []js.Value) any { close(resumed); return nil })
	defer resume.Release()
	js.Global().Call("setTimeout", resume, 0)
	<-resumed
	p.last = time.Now()
}
