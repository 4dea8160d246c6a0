//go:build race

package algotest

const raceEnabled = true
