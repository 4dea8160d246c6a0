package main

import (
	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

func newLimiter(store storage.Store) (*sluice.Limiter[string], error) {
	return sluice.For(store,
		sluice.By("customer", func(name string) string { return name }, "fixedwindow 5/h"),
		sluice.Rule[string]{Name: "everyone", Spec: "gcra 1000/s"})
}
