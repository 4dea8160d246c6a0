package report

import (
	"fmt"
	"io"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// ColumnNames returns the names of columns: the specs, or numbers if specs would make the tables
// too wide. It prints the legend of the numbers.
func ColumnNames(w io.Writer, specs []string) (names []any) {
	const widest = 100
	var legend [][2]string
	width := 0
	for i, spec := range specs {
		names = append(names, spec)
		legend = append(legend, [2]string{fmt.Sprintf("#%d", i+1), spec})
		width += len(spec)
	}
	if width <= widest {
		return names
	}
	fmt.Fprintln(w)
	Legend(w, legend)
	for i := range names {
		names[i] = legend[i][0]
	}
	return names
}

// PrintTopDenied prints the keys that are denied most, with their denials in the named columns.
func PrintTopDenied(w io.Writer, keyer *accesslog.Keyer, names []any, most []backtest.KeyDenials) {
	rows := [][]any{append([]any{"denied most, by " + keyer.String()}, names...)}
	for _, k := range most {
		row := []any{readable.Shorten(k.Key)}
		for _, n := range k.Denied {
			row = append(row, n)
		}
		rows = append(rows, row)
	}
	Table(w, rows)
}
