//go:build race

package readme

// raceFlag makes the go command build what the tests under the race detector
// have built already.
const raceFlag = " -race"
