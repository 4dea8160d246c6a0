//go:build !unix

package serve

func setPrivate(uintptr) {}
