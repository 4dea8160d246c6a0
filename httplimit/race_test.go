//go:build race

package httplimit_test

import (
	"runtime"
	"testing"
)

// With several threads, the race detector can crash in tests that use testing/synctest:
// https://go.dev/issue/78156. It finds the same races with one.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	m.Run()
}
