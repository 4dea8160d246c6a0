// Package figure has the results of the benchmarks, as files and values.
package figure

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Figure is one measured value of one limiter under one workload.
type Figure struct {
	Work   string        `json:"work"`
	Name   string        `json:"name"`
	Value  float64       `json:"value"`
	Unit   string        `json:"unit"` // such as "/s", where more is better, or "ns"
	P50    time.Duration `json:"p50_ns,omitempty"`
	P99    time.Duration `json:"p99_ns,omitempty"`
	Failed float64       `json:"failed,omitempty"` // share of the calls that failed
	Ours   bool          `json:"ours,omitempty"`
}

// Goal compares sluice with another limiter or a fixed value.
type Goal struct {
	Work  string  `json:"work"`
	To    string  `json:"to"`   // the other limiter or value
	What  string  `json:"what"` // what is measured
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
	Most  bool    `json:"most,omitempty"` // the ratio must be at most the goal; otherwise at least
	// Ratio is the median of all rounds. A quarter of them were below Low and a quarter above High.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Met reports whether the goal is met.
func (g Goal) Met() bool {
	if g.Most {
		return g.Ratio <= g.Goal
	}
	return g.Ratio >= g.Goal
}

// Result is one run of the benchmarks of an area.
type Result struct {
	Area    string   `json:"area"`
	Commit  string   `json:"commit"`
	Go      string   `json:"go"`
	CPU     string   `json:"cpu"`
	CPUs    int      `json:"cpus"`
	Date    string   `json:"date"`
	Setup   string   `json:"setup,omitempty"` // how it was measured, in sentences
	Figures []Figure `json:"figures"`
	Goals   []Goal   `json:"goals"`
}

// Write writes the result to a directory and replaces an earlier one.
func (r Result) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Area+".json"), append(text, '\n'), 0o666)
}

// Read reads the result of an area from a directory.
func Read(dir, area string) (r Result, err error) {
	text, err := os.ReadFile(filepath.Join(dir, area+".json"))
	if err != nil {
		return r, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return r, d.Decode(&r)
}
