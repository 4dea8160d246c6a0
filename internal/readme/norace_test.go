//go:build !race

package readme

const raceFlag = ""
