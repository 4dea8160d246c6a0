//go:build !race

package sample

const RaceEnabled = false
