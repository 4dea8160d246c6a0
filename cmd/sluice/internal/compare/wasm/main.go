//go:build js && wasm

// Command wasm is the service of the page sluice compare as WebAssembly, for a web site of static
// files. It sets the global function sluiceCall(method, body, progress, done).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"syscall/js"

	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
)

func main() {
	service := compare.NewService()
	js.Global().Set("sluiceCall", js.FuncOf(func(_ js.Value, args []js.Value) any {
		method, body, progress, done := args[0].String(), bytesOf(args[1]), args[2], args[3]
		go func() {
			result, err := service.Call(context.Background(), method, bytes.NewReader(body), func(share float64) { progress.Invoke(share) })
			answer := map[string]any{"result": result}
			if err != nil {
				answer = map[string]any{"error": err.Error()}
			}
			text, err := json.Marshal(answer)
			if err != nil {
				text = []byte(`{"error":"the answer cannot be encoded"}`)
			}
			done.Invoke(string(text))
		}()
		return nil
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
