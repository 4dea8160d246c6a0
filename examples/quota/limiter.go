package main

import (
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

func newLimiter(store storage.Store) (*compose.Limiter[string], error) {
	quota, err := compose.ParsePolicy("fixedwindow 5/h")
	if err != nil {
		return nil, err
	}
	overall, err := compose.ParsePolicy("gcra 1000/s")
	if err != nil {
		return nil, err
	}
	return compose.New(store,
		compose.Rule[string]{Name: "customer", Key: func(name string) string { return name }, Policy: quota},
		compose.Rule[string]{Name: "everyone", Policy: overall})
}
