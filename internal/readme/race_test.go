//go:build race

package readme

// raceFlag makes the go command use the build cache of tests under the race detector.
const raceFlag = " -race"
