package compose_test

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

func mustPolicy(spec string) algo.Policy {
	p, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	return p
}
