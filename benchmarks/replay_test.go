package benchmarks

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// lines is the number of lines in the log.
const lines = 1_000_000

// writeLog writes the sample log repeatedly, each time an hour later.
func writeLog(b testing.TB) string {
	path := filepath.Join(b.TempDir(), "access.log")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sample, err := os.Open("../cmd/sluice/internal/sample/access.log.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer sample.Close()
	z, err := gzip.NewReader(sample)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	const layout = "02/Jan/2006:15:04:05 -0700"
	stamps := regexp.MustCompile(`\[([^\]]+)\]`)
	rows := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	out := bufio.NewWriter(f)
	for n := range lines {
		row, later := strings.TrimSuffix(rows[n%len(rows)], "\n"), time.Duration(n/len(rows))*time.Hour
		at := stamps.FindStringSubmatchIndex(row)
		stamp, err := time.Parse(layout, row[at[2]:at[3]])
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(out, "%s%s%s\n", row[:at[2]], stamp.Add(later).Format(layout), row[at[3]:])
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	return path
}

func benchmarkCommand(b *testing.B, name string, args ...string) {
	for b.Loop() {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func sluiceCommand(t testing.TB) string {
	command := filepath.Join(t.TempDir(), "sluice")
	build := exec.Command("go", "build", "-o", command, ".")
	build.Dir = "../cmd/sluice"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return command
}

func BenchmarkReplayFourPolicies(b *testing.B) {
	command, log := sluiceCommand(b), writeLog(b)
	benchmarkCommand(b, command, "replay", log)
}

func BenchmarkReplayPeerGoaccess(b *testing.B) {
	command, err := exec.LookPath("goaccess")
	if err != nil {
		b.Skip("goaccess is not installed")
	}
	log := writeLog(b)
	benchmarkCommand(b, command, log, "--log-format=COMBINED", "--no-progress", "-o", filepath.Join(b.TempDir(), "report.json"))
}
